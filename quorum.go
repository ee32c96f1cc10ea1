package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/redisconn"
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

var outcomes = [voteKinds]Outcome{
	voteGranted: OutcomeGranted, voteOutbid: OutcomeOutbid, voteAbsent: OutcomeAbsent,
	voteTaken: OutcomeTaken, voteAbstained: OutcomeAbstained, voteFailed: OutcomeFailed,
}

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

// round is one command to every node at once, and the count of their votes. Rounds are pooled: one goes back when its
// caller and every node have let go of it, so that a straggler can never write into somebody else's round.
type round struct {
	request              // what is asked: written before the first node gets it, then read-only
	then    func(*round) // takes the round, with its caller's part in it, at the outcome; nil: the caller waits
	onDone  func(*round) // nil, or run when all have let go

	pool      *sync.Pool
	votes     atomic.Uint64 // a tally
	holders   atomic.Int32  // who still uses this round: its caller and the nodes
	abandoned atomic.Bool   // the caller has left
	nodes     []*node
	need      int           // how many nodes must grant
	everyone  bool          // the outcome is certain when all have answered, and not before
	wake      chan struct{} // gets a value at the outcome
	answers   []answer      // by node
	requests  []redisconn.Request
}

// newRounds returns a pool of rounds for so many nodes.
func newRounds(n int) *sync.Pool {
	pool := &sync.Pool{}
	pool.New = func() any {
		r := &round{
			pool: pool, wake: make(chan struct{}, 1), answers: make([]answer, n), requests: make([]redisconn.Request, n),
		}
		for i := range r.requests {
			r.requests[i] = redisconn.Request{Message: &r.Message, Round: r, Node: i}
		}
		r.request.init()
		return r
	}
	return pool
}

// send asks the nodes in the set and returns those that took the question up: those that may therefore act on it sooner
// or later. It never blocks.
func (r *round) send(nodes []*node, to nodeSet, need int, asked time.Time) (took nodeSet) {
	r.nodes, r.need, r.Asked = nodes, need, asked
	r.votes.Store(0)
	r.holders.Store(int32(len(nodes)) + 1)
	r.abandoned.Store(false)
	for i := range r.answers {
		r.answers[i] = answer{vote: voteAbsent}
	}
	for i, n := range nodes {
		switch why := r.unasked(n); {
		case !to.has(i):
			r.cast(i, voteAbsent)
			r.Done()
		case why != nil:
			r.answer(i, answer{vote: voteAbstained, err: why})
			r.Done()
		case n.conn.Send(&r.requests[i]):
			took = took.with(i)
		}
	}
	return took
}

// unasked returns why a node is not asked. What a node forgot seems free there, and a waiter would be first to take it,
// time and again, for a vote that does not count. It is the holder's, who renews it while the node abstains.
func (r *round) unasked(n *node) error {
	if !r.waits {
		return nil
	}
	return n.abstaining(r.Asked)
}

// Reply is redisconn.Round's: a node's word on the question.
func (r *round) Reply(node int, reply any, err error) {
	a := r.read(reply, err)
	if err == nil {
		if why := r.nodes[node].abstention(r.Asked); why != nil {
			discount(why, r.command.trust, &a, r.nodes[node].opts.clock.local)
		}
	}
	r.answer(node, a)
}

func (r *round) answer(node int, a answer) {
	r.answers[node] = a
	r.cast(node, a.vote)
}

// discount takes from what an abstaining node said what does not count.
func discount(a *guard.Abstention, t guard.Trust, said *answer, now func() time.Time) {
	switch {
	case a.Counts(t):
	case said.vote == voteGranted, said.vote == voteOutbid:
		said.vote, said.err = voteAbstained, abstainError(a, now())
	case said.vote == voteTaken:
		said.uncounted = true
	}
}

// cast counts a node's vote. The one that makes the outcome certain wakes the caller; a straggler's is counted and
// wakes nobody.
func (r *round) cast(node int, v vote) {
	b := ballot(node, v)
	after := tally(r.votes.Add(uint64(b)))
	if !r.certain(after) || r.certain(after-b) {
		return
	}
	if r.then != nil {
		r.then(r)
		return
	}
	r.wake <- struct{}{}
}

// certain reports whether the votes that are missing can change nothing.
func (r *round) certain(votes tally) bool {
	if r.everyone {
		return votes.complete(len(r.answers))
	}
	return votes.verdict(len(r.answers), r.need) != verdictPending
}

// wait returns when the outcome is certain or ctx is done. The nodes see to it
// that every vote is cast within the node timeout.
func (r *round) wait(ctx context.Context) (tally, error) {
	select {
	case <-r.wake:
		return tally(r.votes.Load()), nil
	case <-ctx.Done():
		return tally(r.votes.Load()), ctx.Err()
	}
}

// Over is redisconn.Round's. An undo is over when what it undoes has ended by itself; other rounds when nobody waits
// for votes any more: the outcome is certain, the caller has left, or what was asked has been cancelled.
func (r *round) Over() bool {
	if r.command.Undo {
		return !r.expires.IsZero() && r.nodes[0].opts.clock.local().After(r.expires)
	}
	return r.abandoned.Load() || r.cancelled != nil && r.cancelled.Load() || r.certain(tally(r.votes.Load()))
}

// abandon is Done for a caller that may not have seen the outcome.
func (r *round) abandon() {
	r.abandoned.Store(true)
	r.Done()
}

// refusers returns the nodes that are known not to have done what was asked.
func (r *round) refusers(votes tally) (refused nodeSet) {
	if r.command == raise {
		return 0 // of several names, a node may have some
	}
	return r.voters(votes, voteTaken)
}

// voters returns the nodes that have voted so.
func (r *round) voters(votes tally, v vote) (nodes nodeSet) {
	for i := range r.answers {
		if votes.voted(i) && r.answers[i].vote == v {
			nodes = nodes.with(i)
		}
	}
	return nodes
}

// voted names the nodes that have voted so.
func (r *round) voted(v vote) (nodes []NodeError) {
	for i, n := range r.nodes {
		if r.answers[i].vote == v {
			nodes = append(nodes, NodeError{Addr: n.addr(), Outcome: outcomes[v]})
		}
	}
	return nodes
}

// Hold is redisconn.Round's.
func (r *round) Hold() { r.holders.Add(1) }

// Done says that one of the holders will not touch the round any more.
func (r *round) Done() {
	if r.holders.Add(-1) > 0 {
		return
	}
	if r.onDone != nil {
		r.onDone(r)
	}
	select {
	case <-r.wake: // its caller had left before the outcome
	default:
	}
	r.request.clear()
	r.then, r.onDone, r.nodes, r.everyone = nil, nil, nil, false
	r.pool.Put(r)
}

// complete reports whether all n nodes have voted.
func (t tally) complete(n int) bool { return nodeSet(t>>maskShift) == allNodes(n) }

// notHeld describes an attempt that failed: because of err, or late though it was won, or for want of votes.
func (r *round) notHeld(ctx context.Context, op, name string, votes tally, err error, won bool) *QuorumError {
	failure := r.failure(op, name, ErrTaken, votes, nil)
	switch {
	case won:
		failure.reason, failure.detail = ErrNoQuorum, "a majority came too late: too little of the TTL was left"
	case errors.Is(err, errTokenAhead):
		failure.reason, failure.detail = ErrNoQuorum, err.Error()
	default:
		failure.ctx = endOf(ctx, err)
	}
	return failure
}

var errTokenAhead = errors.New("a node knows a token of this name that is over a second ahead of the nodes' clocks")

// failure describes a round that found no majority. refused is what it means that a majority refused: ErrTaken, or
// ErrLost where the lock was ours. ended is what ended the caller's wait, or nil. The error is not changed
// once it is handed out: observers read it in a goroutine of their own.
func (r *round) failure(op, name string, refused error, votes tally, ended error) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: r.need, Granted: votes.count(voteGranted), reason: ErrNoQuorum, ctx: ended}
	for i, n := range r.nodes {
		part := NodeError{Addr: n.addr(), Outcome: OutcomeLate}
		if votes.voted(i) {
			a := &r.answers[i]
			part.Outcome, part.Owner, part.Remaining, part.Err = outcomes[a.vote], a.owner, a.remaining, a.err
			if r.names != nil && a.vote == voteTaken {
				part.Name = r.names.list[a.which]
			}
		} else if r.command.trust != guard.TrustAll {
			part.Err = n.abstaining(r.Asked) // if so it would not have counted
		}
		e.Nodes = append(e.Nodes, part)
	}
	// Refused is what so many nodes said that the others cannot make a majority.
	if votes.count(voteTaken)+votes.count(voteAbsent) > len(r.nodes)-r.need {
		e.reason, e.refused = refused, true
	}
	return e
}

// nodeSet is a set of nodes by their index.
type nodeSet uint32

func allNodes(n int) nodeSet         { return 1<<uint(n) - 1 }
func (s nodeSet) has(i int) bool     { return s>>uint(i)&1 == 1 }
func (s nodeSet) with(i int) nodeSet { return s | 1<<uint(i) }
