package redlock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The fencing token of a hold is larger than that of every earlier hold of the
// name, so that a resource can refuse a holder that was overtaken.
//
// A token is a time in microseconds. An attempt proposes one number F to all nodes:
// the nodes' time, or one more than the highest token it has seen. A node that
// gives the lock also accepts F if F is larger than every token it has accepted for the
// name, and its vote counts only then. Where a majority gave the lock, but too
// few accepted F, a second round proposes a larger number to the same nodes.
//
// Why tokens grow, whatever the clocks do, as long as nodes keep their data: a node
// accepts a token only from the owner that it has the lock given to, each above all before.
// The majorities of two holds share a node. There the times in which the one
// and the other was the owner are disjoint, so the later one's token is larger.
//
// Where a node has lost its data, the time takes over: a token proposed later is larger as
// long as clocks disagree by less than the node was out of the vote.
//
// Entries older than the retention, by the client's clock and by the node's, are dropped, so that nothing piles up.
// What is proposed later is larger than these, too, unless clocks were set back or disagree by as much. So each node
// keeps the largest that it has ever dropped, its floor, and every proposal is above the floors of all nodes. Between
// two looks at a floor the node may drop more: so a node does not count whose clock is far ahead of the only other one that is
// known.

// maxAhead is by how much a token may be ahead of the nodes' time. Beyond, somebody's idea
// of the time is wrong, and following it would spoil the name for all others.
const maxAhead = time.Second

// fence is what a Locker knows about tokens.
type fence struct {
	epoch instant      // where local counts from
	seen  atomic.Int64 // the highest token seen
	floor atomic.Int64 // the highest token that a node has dropped

	ahead atomic.Int64 // the nodes' time minus local, in µs

	apart time.Duration // where two clocks are further apart, what the one has dropped may be ahead of the other; 0: no matter

	mu       sync.Mutex   // guards the fields below
	offsets  []nodeOffset // by node
	readings int          // how often a clock was read
}

// nodeOffset is what one node's clock showed, minus local, in µs.
type nodeOffset struct {
	known  bool
	offset int64
	error  int64 // at most, in µs: half the round trip, and drift since
	at     int64 // when error was so, in local µs
	again  int   // how often another reading was asked for because this one is poor

	reading int   // the number of the last reading
	median  int64 // what its offset was ahead of the median, in µs, after the last reading or before a leap
	leapt   int   // the number of the reading that found it further ahead of local than it can have got by itself; 0: none
}

func (f *fence) init(now instant, nodes int) {
	f.epoch = now
	f.offsets = make([]nodeOffset, nodes)
	f.ahead.Store(now.local.UnixMicro()) // until a node has said better
}

// local returns this process's own time, in µs from an arbitrary start. It does
// not follow the wall clock.
func (f *fence) local(now instant) int64 {
	if now.boot != 0 {
		return (now.boot - f.epoch.boot).Microseconds()
	}
	return now.local.Sub(f.epoch.local).Microseconds()
}

// time returns the nodes' time in µs: the median of their clocks.
func (f *fence) time(now instant) int64 { return f.local(now) + f.ahead.Load() }

// propose returns the token for a new attempt.
func (f *fence) propose(now instant) int64 {
	return max(f.time(now), f.seen.Load()+1, f.floor.Load()+1)
}

// see takes note of a token.
func (f *fence) see(token int64) { raiseTo(&f.seen, token) }

// dropped takes note of a node's floor.
func (f *fence) dropped(floor int64) { raiseTo(&f.floor, floor) }

func raiseTo(a *atomic.Int64, to int64) {
	for {
		was := a.Load()
		if to <= was || a.CompareAndSwap(was, to) {
			return
		}
	}
}

// tooFarAhead reports whether a token cannot have come from a sound clock. What nodes have dropped was a sound clock's
// once: it was older than the retention by then.
func (f *fence) tooFarAhead(token int64, now instant) bool {
	return token > max(f.time(now), f.floor.Load())+maxAhead.Microseconds()
}

// outdated reports whether a token was proposed so long ago that a node which has dropped larger ones,
// after the retention or by forgetting, may have accepted it. The limit leaves as much again for what clocks disagree by.
func (l *Locker) outdated(token int64) bool {
	limit := l.opts.retention / 2
	if l.opts.guard > 0 {
		limit = min(limit, l.opts.guard/2)
	}
	return token > 0 && (token <= l.fence.floor.Load() || token < l.fence.time(l.opts.clock.now())-limit.Microseconds())
}

// measured takes note of a node's clock: it showed micros some time between
// asked and now. The best measurement so far stays, since places in the queue are
// as fair as these are right: the quickest answer, its error growing by the drift
// of clocks, unless the new one shows that the node's clock was set.
func (f *fence) measured(node int, micros int64, asked, now instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, at := f.offsets[node], f.local(now)
	fresh := nodeOffset{
		known: true, offset: micros - (f.local(asked)+at)/2, error: (at - f.local(asked) + 1) / 2, at: at,
	}
	if old.known {
		old.error += (at - old.at) / 5000 // 200 ppm
		old.at = at
		was := max(old.offset-fresh.offset, fresh.offset-old.offset)
		if old.error < fresh.error && was <= old.error+fresh.error {
			fresh = old
		}
	}
	if fresh.error > poorError {
		fresh.again = old.again
	}
	f.readings++
	fresh.reading, fresh.median, fresh.leapt = f.readings, old.median, old.leapt
	if old.known && old.leapt == 0 && fresh.offset-old.offset > maxAhead.Microseconds()+old.error+fresh.error {
		fresh.leapt = f.readings
	}
	f.offsets[node] = fresh
	f.ahead.Store(medianOffset(f.offsets))
	if fresh.leapt == 0 {
		f.offsets[node].median = fresh.offset - f.ahead.Load()
	}
}

// leaps returns by how much clocks were set forward, by node. It tells of each leap once. Nobody can say which clock was
// set, the node's or our own, which stands still while this machine is paused, before a majority has been read again: found says
// that the last reading was the first one to show a leap, so that the others should be read soon. Where fewer than three
// nodes are there is nothing to compare with.
func (f *fence) leaps() (by []time.Duration, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	by = make([]time.Duration, len(f.offsets))
	for i := range f.offsets {
		o := &f.offsets[i]
		if o.leapt == 0 {
			continue
		}
		read := 0
		for _, other := range f.offsets {
			if other.known && other.reading >= o.leapt {
				read++
			}
		}
		if read < majority(len(f.offsets)) {
			found = found || o.leapt == f.readings
			continue
		}
		ahead := o.offset - f.ahead.Load()
		if rise := ahead - o.median; len(f.offsets) >= 3 && rise > maxAhead.Microseconds()+o.error {
			by[i] = time.Duration(rise) * time.Microsecond
		}
		o.leapt, o.median = 0, ahead
	}
	return by, found
}

// poorError is the error, in µs, from which on a place in the queue may be so unfair that
// somebody notices. Where the network is slow it stays so: maxAgain readings have to do.
const (
	poorError = 5000
	maxAgain  = 3
)

// poor returns the nodes whose clocks whoever begins to wait should have read again. The
// answers on which a new Locker's idea of the time rests may all have been late.
func (f *fence) poor() (nodes nodeSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.offsets {
		if o := &f.offsets[i]; o.known && o.error > poorError && o.again < maxAgain {
			o.again++
			nodes = nodes.with(i)
		}
	}
	return nodes
}

// disagreement returns by how much each node's clock is ahead of the median, and
// which are certainly wrong by more than maxAhead. Of two clocks nobody can say which is; but the time is taken from
// the slower one, and if the other is far ahead, it may have dropped tokens that are larger than this time.
func (f *fence) disagreement() (ahead []time.Duration, wrong nodeSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := 0
	ahead = make([]time.Duration, len(f.offsets))
	for i, o := range f.offsets {
		if o.known {
			known++
			ahead[i] = time.Duration(o.offset-f.ahead.Load()) * time.Microsecond
			if ahead[i].Abs() > maxAhead+time.Duration(o.error)*time.Microsecond {
				wrong = wrong.with(i)
			}
		}
	}
	if known < max(3, majority(len(f.offsets))) {
		wrong = 0
		for i, o := range f.offsets {
			if f.apart > 0 && o.known && ahead[i] > f.apart+time.Duration(o.error)*time.Microsecond {
				wrong = wrong.with(i)
			}
		}
	}
	return ahead, wrong
}

// knowsMost reports whether the nodes' time rests on a majority of their clocks.
func (f *fence) knowsMost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := 0
	for _, o := range f.offsets {
		if o.known {
			known++
		}
	}
	return known >= majority(len(f.offsets))
}

// medianOffset returns the middle one of the known offsets, the lower where
// there are two: as long as most clocks are right, it is within their range.
func medianOffset(offsets []nodeOffset) int64 {
	var known []int64
	for _, o := range offsets {
		if o.known {
			known = append(known, o.offset)
		}
	}
	slices.Sort(known)
	return known[(len(known)-1)/2]
}
