// Package token is the clock from which fencing tokens are drawn: a hybrid logical clock over the nodes' clocks.
//
// It knows what the nodes' clocks showed, which tokens were seen and which were dropped. It knows nothing of Redis, of
// connections, or of holds, and it reads no clock itself. Times and tokens are in microseconds: node times since 1970,
// and "now", this client's time, since an arbitrary start; it must not follow the wall clock.
//
// A token is a time; docs/fencing.md#why-it-grows says why it grows. An attempt proposes one number F to all nodes: the
// nodes' time, or one more than the highest token it has seen. A node that gives the lock also accepts F if F is larger
// than every token it has accepted for the name, and its vote counts only then. If a majority gave the lock, but too
// few nodes accepted F, a second round proposes a larger number to the same nodes.
//
// Tokens older than the retention, by the client's clock and by the node's, are dropped, so that they do not pile up.
// So each node keeps its floor, the largest token that it has ever dropped, and its vote counts only for a token above
// that: see Below. The node that the majorities of two holds share has the earlier token, or a floor at least as large.
//
// A node may drop more tokens after its floor was read: so of two known clocks, one that is far ahead does not count.
//
// No single node moves the tokens of others further than its clock could. A floor is below the nodes' time unless all
// clocks were set back since, and then the nodes have dropped alike: so proposals go above what as many nodes as decide
// have dropped, and one of them is honest. Above that and the time, a second at most is believed of what a node knows.
// A node with a floor or a token beyond has no vote where that matters: following it would spoil the tokens of all
// nodes, for good. The price is that after clocks were set back by more than the retention, a node that dropped more
// than the others has no vote until the time has caught up.
package token

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MaxAhead is by how much a token may be ahead of the nodes' time. A larger one comes from a wrong clock, and to go on
// from it would make the name's tokens too large for all other clients.
const MaxAhead = time.Second

// Max is the largest token: scores of sorted sets are exact up to it. It is the time in the year 2255.
const Max = 1<<53 - 1

// Clock is one client's estimate of the nodes' time, and what it knows of tokens.
type Clock struct {
	seen   atomic.Int64   // the highest token seen
	floors []atomic.Int64 // by node: the highest token that it has dropped
	floor  atomic.Int64   // the highest that enough nodes have dropped, or a higher one
	offset atomic.Int64   // the nodes' time minus now

	// maxSkew is the most by which one of two known clocks may be ahead of the other: beyond, its node may have dropped
	// tokens that are larger than the other's time. 0: unlimited.
	maxSkew time.Duration

	enough int // how many clocks must be known for a comparison: as many nodes as decide

	mu       sync.Mutex // guards the fields below
	offsets  []offset   // by node
	readings int        // how often a clock was read
}

// offset is a node's time minus now, and how far it can be believed.
type offset struct {
	known    bool
	offset   int64
	maxError int64 // half the round trip, and drift since
	at       int64 // the now for which maxError holds
	rereads  int   // how often Poor has returned the node

	reading  int   // the number of the last reading
	ahead    int64 // of the median, at the last reading or before a jump
	jumpedAt int   // the number of the reading that found a jump forward, which no drift explains; 0: none
}

// New returns the clock for so many nodes. enough is how many can decide together: a majority. wall is the wall clock's
// time when now is 0: the nodes' time is taken from it until a node's clock was read. maxSkew bounds by how much one
// clock may be ahead of the only other one that is known; 0: unlimited, since no tokens are handed out.
func New(nodes, enough int, wall int64, maxSkew time.Duration) *Clock {
	c := &Clock{offsets: make([]offset, nodes), floors: make([]atomic.Int64, nodes), enough: enough, maxSkew: maxSkew}
	c.offset.Store(wall)
	return c
}

// Time returns the nodes' time: the median of their clocks.
func (c *Clock) Time(now int64) int64 { return now + c.offset.Load() }

// Propose returns the token for a new attempt. If no larger token is possible than enough nodes have dropped, no vote
// for it will count, and the nodes are not made to keep the last one.
func (c *Clock) Propose(now int64) int64 {
	floor := c.floor.Load()
	if floor >= Max {
		floor = 0
	}
	return min(max(c.Time(now), c.seen.Load()+1, floor+1), Max)
}

// Observe records a token: later proposals are larger.
func (c *Clock) Observe(token int64) {
	for {
		was := c.seen.Load()
		if token <= was || c.seen.CompareAndSwap(was, token) {
			return
		}
	}
}

// Dropped records a node's floor, in place of what it said before: it may have been emptied, or may have lied.
func (c *Clock) Dropped(node int, floor int64) {
	if c.floors[node].Load() == floor {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floors[node].Store(floor)
	all := make([]int64, len(c.floors))
	for i := range c.floors {
		all[i] = c.floors[i].Load()
	}
	slices.Sort(all)
	c.floor.Store(all[len(all)-c.enough])
}

// Below returns the node's floor if a token is not above it, so that its vote on this one does not count; otherwise 0.
func (c *Clock) Below(node int, token int64) (floor int64) {
	if floor = c.floors[node].Load(); token > floor {
		return 0
	}
	return floor
}

// TooFarAhead reports whether a token, or floor, is so far ahead that no larger token may be proposed: it comes from a
// wrong clock, or a node lies. It is not if enough nodes have dropped one as large.
func (c *Clock) TooFarAhead(token, now int64) bool {
	return token >= min(max(c.Time(now), c.floor.Load())+MaxAhead.Microseconds(), Max)
}

// Measured records a reading of a node's clock: it showed micros at some time between asked and now. The reading with
// the least error stays, because the order of the nodes' queues is as fair as these readings are accurate. Its error
// grows by the drift of clocks, and a reading that contradicts it, because the node's clock was set, replaces it.
func (c *Clock) Measured(node int, micros, asked, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.offsets[node]
	fresh := offset{known: true, offset: micros - (asked+now)/2, maxError: (now - asked + 1) / 2, at: now}
	if old.known {
		old.maxError += (now - old.at) / 5000 // 200 ppm
		old.at = now
		diff := max(old.offset-fresh.offset, fresh.offset-old.offset)
		if old.maxError < fresh.maxError && diff <= old.maxError+fresh.maxError {
			fresh = old
		}
	}
	if fresh.maxError > poorError {
		fresh.rereads = old.rereads
	}
	c.readings++
	fresh.reading, fresh.ahead, fresh.jumpedAt = c.readings, old.ahead, old.jumpedAt
	if old.known && old.jumpedAt == 0 && fresh.offset-old.offset > MaxAhead.Microseconds()+old.maxError+fresh.maxError {
		fresh.jumpedAt = c.readings
	}
	c.offsets[node] = fresh
	c.offset.Store(median(c.offsets))
	if fresh.jumpedAt == 0 {
		c.offsets[node].ahead = fresh.offset - c.offset.Load()
	}
}

// Jumps returns by how much clocks jumped forward, by node, and each jump once. Which clock jumped is unknown until a
// majority was read again: it may have been our own, which stops while this machine is paused. found means that the
// last reading was the first to show a jump, so the others should be read soon. Fewer than three cannot be compared.
func (c *Clock) Jumps() (by []time.Duration, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by = make([]time.Duration, len(c.offsets))
	for i := range c.offsets {
		o := &c.offsets[i]
		if o.jumpedAt == 0 {
			continue
		}
		if c.readSince(o.jumpedAt) < c.enough {
			found = found || o.jumpedAt == c.readings
			continue
		}
		ahead := o.offset - c.offset.Load()
		if rise := ahead - o.ahead; len(c.offsets) >= 3 && rise > MaxAhead.Microseconds()+o.maxError {
			by[i] = time.Duration(rise) * time.Microsecond
		}
		o.jumpedAt, o.ahead = 0, ahead
	}
	return by, found
}

// A reading with a larger error than poorError (µs) may give a waiter an unfair place in the queue. On a slow network
// no reading is better, so a clock is read again no more than maxRereads times.
const (
	poorError  = 5000
	maxRereads = 3
)

// Poor returns the nodes whose clocks should be read again before this client waits: all replies may have been late.
func (c *Clock) Poor() (nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.offsets {
		if o := &c.offsets[i]; o.known && o.maxError > poorError && o.rereads < maxRereads {
			o.rereads++
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Offset is the difference between a node's clock and the nodes' time.
type Offset struct {
	Ahead time.Duration // of the median
	Wrong bool          // certainly by more than MaxAhead; if too few clocks are known to compare, see Offsets
}

// Offsets returns the offsets by node. Of two clocks nobody can say which is wrong. But the nodes' time is that of the
// slower one, so if the other is further ahead than maxSkew, its node may have dropped tokens above that time.
func (c *Clock) Offsets() []Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, known := make([]Offset, len(c.offsets)), c.readSince(0)
	compared := known >= max(3, c.enough)
	for i, o := range c.offsets {
		if !o.known {
			continue
		}
		ahead := time.Duration(o.offset-c.offset.Load()) * time.Microsecond
		unsure := time.Duration(o.maxError) * time.Microsecond
		all[i].Ahead = ahead
		if compared {
			all[i].Wrong = ahead.Abs() > MaxAhead+unsure
		} else {
			all[i].Wrong = c.maxSkew > 0 && ahead > c.maxSkew+unsure
		}
	}
	return all
}

// KnowsMajority reports whether the clocks of enough nodes were read.
func (c *Clock) KnowsMajority() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readSince(0) >= c.enough
}

// readSince counts the clocks that were read at the reading of that number or later. It is called with mu held.
func (c *Clock) readSince(reading int) (n int) {
	for _, o := range c.offsets {
		if o.known && o.reading >= reading {
			n++
		}
	}
	return n
}

// median returns the median of the known offsets, the lower one of two: between right ones as long as most are right.
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

// ParseFloor parses a floor, or none, as the script trim keeps it: with a larger one that counts from some time on.
func ParseFloor(text string, nodeTime int64) int64 {
	words := strings.Split(text, " ")
	floor, _ := Parse(words[0])
	if len(words) == 3 {
		later, known := Parse(words[1])
		from, err := strconv.ParseInt(words[2], 10, 64)
		if known && err == nil && nodeTime >= from {
			floor = max(floor, later)
		}
	}
	return floor
}

// Parse parses a token as a node replies it: a score of a sorted set, which may have an exponent. A negative number is
// no token. One from 2^53 on, where scores are no longer exact, counts as Max: there is no larger token.
func Parse(text string) (int64, bool) {
	known, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // known is an infinity
	}
	if err != nil || !(known >= 0) { // written so that NaN is none
		return 0, false
	}
	return int64(min(known, Max)), true
}
