package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// majority returns the least number of n nodes such that any two sets of that
// size share a node.
func majority(n int) int { return n/2 + 1 }

// vote is one node's word on one question.
type vote uint8

// The votes, from good to bad. Only voteGranted counts towards a majority of grants.
const (
	voteGranted   vote = iota // yes
	voteOutbid                // the lock is ours there, but the node knows a larger token
	voteAbsent                // the key is nobody's there
	voteTaken                 // the key is somebody else's there
	voteAbstained             // answered, but the node's word does not count at present
	voteFailed                // an error, or no answer in time
	voteKinds
)

// verdict is what the votes so far amount to.
type verdict uint8

// The verdicts. A verdict that is no longer verdictPending never becomes so again, and
// neither verdictWon nor verdictLost ever turns into another.
const (
	verdictPending verdict = iota
	verdictWon             // a majority granted
	verdictShort           // a majority gave the lock, but fewer accepted the token
	verdictLost            // a majority of grants has become impossible
)

// maxNodes is what a tally has room for. Five nodes are usual.
const maxNodes = 31

// tally packs all votes on one question into a word: a count of 5 bits for
// each kind of vote, above them a bit for each node that has voted. So a vote
// is one atomic addition, and what the caller sees of the votes is consistent.
type tally uint64

const (
	countBits = 5
	maskShift = countBits * uint(voteKinds)
)

// ballot is the tally of a single vote.
func ballot(node int, v vote) tally {
	return 1<<(countBits*uint(v)) | 1<<(maskShift+uint(node))
}

func (t tally) count(v vote) int    { return int(t>>(countBits*uint(v))) & (1<<countBits - 1) }
func (t tally) voted(node int) bool { return t>>(maskShift+uint(node))&1 == 1 }

// verdict decides as soon as the outcome is certain, whatever the nodes that
// have not voted may still say.
func (t tally) verdict(n, need int) verdict {
	granted, given := t.count(voteGranted), t.count(voteGranted)+t.count(voteOutbid)
	refused := t.count(voteAbsent) + t.count(voteTaken) + t.count(voteAbstained) + t.count(voteFailed)
	switch {
	case granted >= need:
		return verdictWon
	case given >= need:
		// A straggler's yes might still make the majority of grants, but to wait
		// for it is to wait for the slowest node.
		return verdictShort
	case refused > n-need:
		return verdictLost
	default:
		return verdictPending
	}
}

// answer is what one node said, in detail. The node's reader writes it before
// it casts the vote; the caller reads it only where the tally shows the vote.
type answer struct {
	vote      vote
	owner     string        // voteTaken: the holder's owner, where known
	remaining time.Duration // voteTaken: how long its key still lives there, where known
	token     int64         // the token the node knows, where it said
	place     int           // voteTaken: how many wait before us, where we wait
	which     int           // voteTaken: the first of several locks that is
	err       error         // voteFailed, voteAbstained: why
	doubtful  bool          // voteTaken: the node abstains, so the vote does not count for its holder either
	reply     any           // what a node told about itself
}

// call is one question put to every node at once, and the count of their
// votes. Calls are pooled: one goes back when its caller and every node have
// let go of it, so that a straggler can never write into somebody else's call.
type call struct {
	question // what is asked: written before the first node gets it, then read-only

	votes     atomic.Uint64 // a tally
	holders   atomic.Int32  // who still uses this call: its caller and the nodes
	abandoned atomic.Bool   // the caller has left
	need      int           // how many nodes must grant
	asked     time.Time     // when it was put to the nodes: their timeout counts from here
	wake      chan struct{} // gets a value at the outcome
	answers   []answer      // by node
	parts     []request     // by node
	pool      *sync.Pool
}

// newCallPool returns a pool of calls to n nodes.
func newCallPool(n int) *sync.Pool {
	pool := &sync.Pool{}
	pool.New = func() any {
		c := &call{
			wake:    make(chan struct{}, 1),
			answers: make([]answer, n),
			parts:   make([]request, n),
			pool:    pool,
		}
		for i := range c.parts {
			c.parts[i].call, c.parts[i].node = c, i
		}
		c.question.init()
		return c
	}
	return pool
}

// put asks the nodes in the set and returns those that took the question up:
// those that may therefore act on it sooner or later. It never blocks.
func (c *call) put(nodes []*node, to nodeSet, need int, asked time.Time) (took nodeSet) {
	c.need, c.asked = need, asked
	c.votes.Store(0)
	c.holders.Store(int32(len(nodes)) + 1)
	c.abandoned.Store(false)
	for i := range c.parts {
		c.parts[i].voted, c.parts[i].eval = false, false
		c.answers[i] = answer{vote: voteAbsent}
	}
	for i, n := range nodes {
		if !to.has(i) {
			c.cast(i, voteAbsent)
			c.release()
		} else if n.ask(&c.parts[i]) {
			took = took.with(i)
		}
	}
	return took
}

// cast counts a node's vote. The one that makes the outcome certain wakes the
// caller; a straggler's is counted and wakes nobody.
func (c *call) cast(node int, v vote) {
	b := ballot(node, v)
	after := tally(c.votes.Add(uint64(b)))
	n := len(c.parts)
	if after.verdict(n, c.need) == verdictPending || (after-b).verdict(n, c.need) != verdictPending {
		return
	}
	if c.then != nil {
		c.then(c)
		return
	}
	c.wake <- struct{}{}
}

// wait returns when the outcome is certain or ctx is done. The nodes see to it
// that every vote is cast within the node timeout.
func (c *call) wait(ctx context.Context) (tally, error) {
	select {
	case <-c.wake:
		return tally(c.votes.Load()), nil
	case <-ctx.Done():
		return tally(c.votes.Load()), ctx.Err()
	}
}

// over reports whether nobody waits for votes any more: the outcome is certain,
// or the caller has left.
func (c *call) over() bool {
	return c.abandoned.Load() ||
		tally(c.votes.Load()).verdict(len(c.parts), c.need) != verdictPending
}

// giveUp is release for a caller that may not have seen the outcome.
func (c *call) giveUp() {
	c.abandoned.Store(true)
	c.release()
}

// refusers returns the nodes that are known not to have done what was asked.
func (c *call) refusers(votes tally) (refused nodeSet) {
	if c.kind == raise {
		return 0 // of several names, a node may have some
	}
	for i := range c.answers {
		if votes.voted(i) && c.answers[i].vote == voteTaken {
			refused = refused.with(i)
		}
	}
	return refused
}

// release says that one of the holders will not touch the call any more.
func (c *call) release() {
	if c.holders.Add(-1) > 0 {
		return
	}
	if c.hold != nil {
		c.hold.locker.events.repaired(c.hold, c)
	}
	select {
	case <-c.wake: // its caller had left before the outcome
	default:
	}
	c.question.clear()
	c.pool.Put(c)
}

// nodeSet is a set of nodes by their index.
type nodeSet uint32

func allNodes(n int) nodeSet         { return 1<<uint(n) - 1 }
func (s nodeSet) has(i int) bool     { return s>>uint(i)&1 == 1 }
func (s nodeSet) with(i int) nodeSet { return s | 1<<uint(i) }
