// Package token is the clock from which fencing tokens are drawn: a hybrid logical clock over the nodes' clocks.
//
// It knows what the nodes' clocks showed, which tokens were seen and which were dropped. Times and tokens are
// microseconds: the nodes' since 1970, one's own from an arbitrary start ("now" below; it must not follow the wall
// clock). It knows nothing of Redis, of connections, or of who holds what; and it reads no clock itself.
//
// The fencing token of a hold is larger than that of every earlier hold of the name, so that a resource can refuse a
// holder that was overtaken.
//
// A token is a time. An attempt proposes one number F to all nodes: the nodes' time, or one more than the highest
// token it has seen. A node that gives the lock also accepts F if F is larger than every token it has accepted for the
// name, and its vote counts only then. Where a majority gave the lock, but too few accepted F, a second round proposes
// a larger number to the same nodes.
//
// Why tokens grow, whatever the clocks do, as long as nodes keep their data: a node accepts a token only from the owner
// that it has the lock given to, each above all before. The majorities of two holds share a node. There the times in
// which the one and the other was the owner are disjoint, so the later one's token is larger.
//
// Where a node has lost its data, the time takes over: a token proposed later is larger as long as clocks disagree by
// less than the node was out of the vote.
//
// Entries older than the retention, by the client's clock and by the node's, are dropped, so that nothing piles up.
// What is proposed later is larger than these, too, unless clocks were set back or disagree by as much. So each node
// keeps the largest that it has ever dropped, its floor, and every proposal is above the floors of all nodes. Between
// two looks at a floor the node may drop more: so a node does not count whose clock is far ahead of the only other one
// that is known.
package token

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// MaxAhead is by how much a token may be ahead of the nodes' time. Beyond, somebody's idea of the time is wrong, and
// following it would spoil the name for all others.
const MaxAhead = time.Second

// Clock is what one client knows about the nodes' time and about tokens.
type Clock struct {
	seen  atomic.Int64 // the highest token seen
	floor atomic.Int64 // the highest token that a node has dropped
	ahead atomic.Int64 // the nodes' time minus now

	// apart: two clocks that are further apart than this may have dropped tokens ahead of each other's time; 0: no matter.
	apart time.Duration

	mu       sync.Mutex // guards the fields below
	offsets  []offset   // by node
	readings int        // how often a clock was read
}

// offset is what one node's clock showed, minus now.
type offset struct {
	known  bool
	offset int64
	error  int64 // at most: half the round trip, and drift since
	at     int64 // when error was so, by now
	again  int   // how often another reading was asked for because this one is poor

	reading int   // the number of the last reading
	median  int64 // what its offset was ahead of the median, after the last reading or before a leap
	leapt   int   // the number of the reading that found it further ahead than it can have got by itself; 0: none
}

// New returns the clock for so many nodes. The wall clock shows wall now, when now is 0: that has to do until a node
// has said better. apart is how far two clocks may be apart where there is no third to compare with; 0: that is of no
// matter, since no tokens are handed out.
func New(nodes int, wall int64, apart time.Duration) *Clock {
	c := &Clock{offsets: make([]offset, nodes), apart: apart}
	c.ahead.Store(wall)
	return c
}

// Time returns the nodes' time: the median of their clocks.
func (c *Clock) Time(now int64) int64 { return now + c.ahead.Load() }

// Propose returns the token for a new attempt.
func (c *Clock) Propose(now int64) int64 {
	return max(c.Time(now), c.seen.Load()+1, c.floor.Load()+1)
}

// See takes note of a token.
func (c *Clock) See(token int64) { raiseTo(&c.seen, token) }

// Dropped takes note of a node's floor.
func (c *Clock) Dropped(floor int64) { raiseTo(&c.floor, floor) }

// Floor returns the highest token that a node is known to have dropped.
func (c *Clock) Floor() int64 { return c.floor.Load() }

func raiseTo(a *atomic.Int64, to int64) {
	for {
		was := a.Load()
		if to <= was || a.CompareAndSwap(was, to) {
			return
		}
	}
}

// TooFarAhead reports whether a token cannot have come from a sound clock. What nodes have dropped was a sound clock's
// once: it was older than the retention by then.
func (c *Clock) TooFarAhead(token, now int64) bool {
	return token > max(c.Time(now), c.floor.Load())+MaxAhead.Microseconds()
}

// Measured takes note of a node's clock: it showed micros some time between asked and now. The best measurement so far
// stays, since places in the queue are as fair as these are right: the quickest answer, its error growing by the drift
// of clocks, unless the new one shows that the node's clock was set.
func (c *Clock) Measured(node int, micros, asked, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.offsets[node]
	fresh := offset{known: true, offset: micros - (asked+now)/2, error: (now - asked + 1) / 2, at: now}
	if old.known {
		old.error += (now - old.at) / 5000 // 200 ppm
		old.at = now
		was := max(old.offset-fresh.offset, fresh.offset-old.offset)
		if old.error < fresh.error && was <= old.error+fresh.error {
			fresh = old
		}
	}
	if fresh.error > poorError {
		fresh.again = old.again
	}
	c.readings++
	fresh.reading, fresh.median, fresh.leapt = c.readings, old.median, old.leapt
	if old.known && old.leapt == 0 && fresh.offset-old.offset > MaxAhead.Microseconds()+old.error+fresh.error {
		fresh.leapt = c.readings
	}
	c.offsets[node] = fresh
	c.ahead.Store(median(c.offsets))
	if fresh.leapt == 0 {
		c.offsets[node].median = fresh.offset - c.ahead.Load()
	}
}

// Leaps returns by how much clocks were set forward, by node. It tells of each leap once. Nobody can say which clock
// was set, the node's or our own, which stands still while this machine is paused, before a majority has been read
// again: found says that the last reading was the first one to show a leap, so that the others should be read soon.
// Where fewer than three nodes are there is nothing to compare with.
func (c *Clock) Leaps() (by []time.Duration, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by = make([]time.Duration, len(c.offsets))
	for i := range c.offsets {
		o := &c.offsets[i]
		if o.leapt == 0 {
			continue
		}
		read := 0
		for _, other := range c.offsets {
			if other.known && other.reading >= o.leapt {
				read++
			}
		}
		if read < c.most() {
			found = found || o.leapt == c.readings
			continue
		}
		ahead := o.offset - c.ahead.Load()
		if rise := ahead - o.median; len(c.offsets) >= 3 && rise > MaxAhead.Microseconds()+o.error {
			by[i] = time.Duration(rise) * time.Microsecond
		}
		o.leapt, o.median = 0, ahead
	}
	return by, found
}

// poorError is the error from which on a place in the queue may be so unfair that somebody notices. Where the network
// is slow it stays so: maxAgain readings have to do.
const (
	poorError = 5000
	maxAgain  = 3
)

// Poor returns the nodes whose clocks whoever begins to wait should have read again. The answers on which a new
// client's idea of the time rests may all have been late.
func (c *Clock) Poor() (nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.offsets {
		if o := &c.offsets[i]; o.known && o.error > poorError && o.again < maxAgain {
			o.again++
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Offset is how one node's clock stands to the others.
type Offset struct {
	Ahead time.Duration // of the median
	Wrong bool          // by more than MaxAhead, certainly
}

// Offsets returns how the clocks stand to each other, by node. Of two clocks nobody can say which is wrong; but the
// time is taken from the slower one, and if the other is far ahead, it may have dropped tokens that are larger than
// this time.
func (c *Clock) Offsets() []Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, known := make([]Offset, len(c.offsets)), c.known()
	compared := known >= max(3, c.most())
	for i, o := range c.offsets {
		if !o.known {
			continue
		}
		ahead := time.Duration(o.offset-c.ahead.Load()) * time.Microsecond
		unsure := time.Duration(o.error) * time.Microsecond
		all[i].Ahead = ahead
		if compared {
			all[i].Wrong = ahead.Abs() > MaxAhead+unsure
		} else {
			all[i].Wrong = c.apart > 0 && ahead > c.apart+unsure
		}
	}
	return all
}

// KnowsMost reports whether the nodes' time rests on a majority of their clocks.
func (c *Clock) KnowsMost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known() >= c.most()
}

func (c *Clock) most() int { return len(c.offsets)/2 + 1 }

// known is called with mu held.
func (c *Clock) known() (n int) {
	for _, o := range c.offsets {
		if o.known {
			n++
		}
	}
	return n
}

// median returns the middle one of the known offsets, the lower where there are two: as long as most clocks are right,
// it is within their range.
func median(offsets []offset) int64 {
	var known []int64
	for _, o := range offsets {
		if o.known {
			known = append(known, o.offset)
		}
	}
	slices.Sort(known)
	return known[(len(known)-1)/2]
}

// Parse reads a token as a node shows it: a score, which may be in exponents. What no client can have proposed is none:
// nothing larger could be counted exactly.
func Parse(text string) (int64, bool) {
	known, err := strconv.ParseFloat(text, 64)
	if err != nil || !(known >= 0 && known < 1<<53) { // written so that NaN is none
		return 0, false
	}
	return int64(known), true
}
