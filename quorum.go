package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

var outcomes = [quorum.VoteKinds]string{
	quorum.Granted: outcomeGranted, quorum.Outbid: outcomeOutbid, quorum.Absent: outcomeAbsent,
	quorum.Taken: outcomeTaken, quorum.Abstained: outcomeAbstained, quorum.Failed: outcomeFailed,
}

// round is one command to every node at once, and the poll of their votes. Rounds are pooled. A round returns to the
// pool when its caller and every node are done with it, so a straggler never writes into a round that is reused.
type round struct {
	protocol.Request              // written before the first node gets it, then read-only
	then             func(*round) // runs at the outcome and takes over the caller's reference; nil: the caller waits
	// follower is told when all nodes have answered, or will not, and nobody uses the round any more; nil: nobody is.
	follower interface{ answered(r *round) }

	electorate *quorum.Electorate // set once
	pool       *sync.Pool
	poll       quorum.Poll
	refs       atomic.Int32 // the caller and each node hold a reference
	abandoned  atomic.Bool  // the caller no longer waits for the outcome
	nodes      []*node
	sentTo     quorum.Set    // the nodes whose connection accepted the request
	wake       chan struct{} // gets a value at the outcome; a waiter's, also after other votes: see vote
	requests   []redisconn.Request
}

// newRounds returns a pool of rounds for an electorate.
func newRounds(e *quorum.Electorate) *sync.Pool {
	pool := &sync.Pool{}
	pool.New = func() any {
		r := &round{
			electorate: e, pool: pool, wake: make(chan struct{}, 1), requests: make([]redisconn.Request, e.Size),
		}
		r.poll.Init(e)
		for i := range r.requests {
			r.requests[i] = redisconn.Request{Message: &r.Message, Round: r, Node: i, About: &r.Request}
		}
		r.Init()
		return r
	}
	return pool
}

// send sends the request to the nodes in the set and returns those whose connection accepted it, which may execute it
// sooner or later. It never blocks.
func (r *round) send(nodes []*node, to quorum.Set, asked time.Time) (accepted quorum.Set) {
	r.nodes, r.Asked = nodes, asked
	r.Encode()
	r.refs.Store(int32(len(nodes)) + 1)
	r.abandoned.Store(false)
	r.poll.Begin()
	for i, n := range nodes {
		switch why := r.unasked(n); {
		case !to.Has(i):
			r.vote(i, quorum.Answer{Vote: quorum.Absent})
			r.Done()
		case why != nil:
			r.vote(i, quorum.Answer{Vote: quorum.Abstained, Err: why})
			r.Done()
		case n.conn.Send(&r.requests[i]):
			accepted = accepted.With(i)
		}
	}
	r.sentTo = accepted
	return accepted
}

// unasked returns why a waiter's request is not sent to a node, or nil. A lock that the node has forgotten looks free
// there, and a waiter would take it again and again for a vote that does not count. The key should go to the holder,
// whose renewals restore it while the node abstains.
func (r *round) unasked(n *node) error {
	if !r.Queues {
		return nil
	}
	return n.abstaining(r.Asked)
}

// Reply implements redisconn.Round: it counts a node's reply.
func (r *round) Reply(node int, reply any, err error) {
	var a quorum.Answer
	if err == nil {
		a = r.Read(reply)
	} else {
		a = r.unanswered(err)
	}
	n := r.nodes[node]
	if a.Err != nil || n.odd.Load() != nil {
		n.heard(r.Kind.Name(), a.Err)
	}
	if err == nil && n.guard.Abstention() != nil {
		if why := n.abstention(r.Asked); why != nil {
			discount(why, r.Kind.Trust, &a, n.opts.clock.local)
		}
	}
	if r.Kind.Trust == guard.TrustOld {
		n.judgeToken(&a, r.Token)
	}
	r.vote(node, a)
}

// unanswered is the answer of a node of which there is no reply.
func (r *round) unanswered(err error) quorum.Answer {
	if errors.As(err, new(resp.UnexpectedError)) {
		err = fmt.Errorf("%s: %w", r.Kind.Name(), err)
	} else {
		err = explained(err, "")
	}
	return quorum.Answer{Vote: quorum.Failed, Err: err}
}

// judgeToken takes a node's acceptance of a token away if the node has dropped a larger one, and its vote if what it
// knows or has dropped is too far ahead to be followed: see package token. So one node that lies has no say in the
// tokens of all, and does not end the attempt: the others may do without it.
func (n *node) judgeToken(a *quorum.Answer, token int64) {
	if token == 0 || a.Vote != quorum.Granted && a.Vote != quorum.Outbid {
		return
	}
	what := "knows a token of this name"
	if floor := n.tokens.Below(n.index, max(token, a.Token)); floor > 0 {
		a.Vote, a.Token, what = quorum.Outbid, floor, "has dropped a token"
	}
	if a.Vote == quorum.Granted {
		return
	}
	if now := n.opts.clock.now(); n.tokens.TooFarAhead(a.Token, n.tokens.micros(now)) {
		*a = quorum.Answer{Vote: quorum.Failed, Err: n.tokens.tooFarAhead(what, a.Token, now)}
	}
}

// discount marks what does not count in an abstaining node's answer: a grant does not count for us, and an answer that
// another holder has the lock does not count as a vote for that holder.
func discount(why *guard.Abstention, t guard.Trust, a *quorum.Answer, now func() time.Time) {
	switch {
	case why.Counts(t):
	case a.Vote == quorum.Granted, a.Vote == quorum.Outbid:
		a.Vote, a.Err = quorum.Abstained, abstains(why, now())
	case a.Vote == quorum.Taken:
		a.Uncounted = true
	}
}

// vote counts a node's vote. The vote that makes the outcome certain runs then or wakes the caller; other votes are
// only counted. But where a lock is taken, or the outcome has been certain before, each vote wakes a waiter: what it
// does next depends on all of them. So does why an attempt has failed.
func (r *round) vote(node int, a quorum.Answer) {
	votes, decided := r.poll.Cast(node, a)
	outcome := !decided && votes.Certain()
	explains := decided && (r.Queues || votes.Verdict() == quorum.Lost && r.then == nil && !r.Kind.Undo)
	switch {
	case !outcome && !explains && !(r.Queues && votes.AnyTaken()):
	case r.then != nil:
		r.then(r)
	default:
		signal(r.wake)
	}
}

// wait returns when the outcome is certain or ctx is done. The connections cast every vote within the node timeout.
func (r *round) wait(ctx context.Context) (quorum.Count, error) {
	for {
		select {
		case <-r.wake:
			if votes := r.poll.SoFar(); votes.Certain() {
				return votes, nil
			}
		case <-ctx.Done():
			return r.poll.SoFar(), ctx.Err()
		}
	}
}

// Over implements redisconn.Round: it reports whether the request need not be sent again. An undo is over when what it
// undoes has expired on the nodes. Any other round is over when no vote is needed any more: the outcome is certain, the
// caller has abandoned the round, or the request was cancelled.
func (r *round) Over() bool {
	if r.Kind.Undo {
		return !r.Expires.IsZero() && r.nodes[0].opts.clock.local().After(r.Expires)
	}
	return r.abandoned.Load() || r.Cancelled != nil && r.Cancelled.Load() || r.poll.SoFar().Certain()
}

// abandon is Done for a caller that leaves, or may leave, before the outcome.
func (r *round) abandon() {
	r.abandoned.Store(true)
	r.Done()
}

// refusers returns the nodes that are known not to have given the lock.
func (r *round) refusers(votes quorum.Count) (refused quorum.Set) {
	if r.Kind == protocol.Raise || r.Kind == protocol.LastRaise || r.Kind == protocol.Extend {
		return 0 // with several names, a node that refuses may have given some of them
	}
	if r.Kind == protocol.AcquireAll && r.Names == nil {
		return 0 // the request of an earlier round may still be under way, on a connection that broke since
	}
	return votes.Who(quorum.Taken)
}

// broke reports whether the round was lost because connections broke over which it had been sent, or was to be sent.
// Another one may win: it waits for the new connections.
func (r *round) broke(votes quorum.Count) bool {
	lost := quorum.Where(len(r.nodes), func(i int) bool {
		return r.sentTo.Has(i) && votes.Voted(i) && errors.Is(votes.Answer(i).Err, ErrNodeDown)
	})
	given := votes.Who(quorum.Granted) | votes.Who(quorum.Outbid)
	return lost != 0 && !r.electorate.Block(votes.Voters()&^(given|lost))
}

// voted lists the nodes that cast v. All nodes must have voted.
func (r *round) voted(v quorum.Vote) (nodes []NodeError) {
	who := r.poll.SoFar().Who(v)
	for i, n := range r.nodes {
		if who.Has(i) {
			nodes = append(nodes, NodeError{Addr: n.addr(), Outcome: outcomes[v]})
		}
	}
	return nodes
}

// Retain implements redisconn.Round: it adds a reference.
func (r *round) Retain() { r.refs.Add(1) }

// Done implements redisconn.Round: it drops a reference. The last one returns the round to the pool.
func (r *round) Done() {
	if r.refs.Add(-1) > 0 {
		return
	}
	if r.follower != nil {
		r.follower.answered(r)
	}
	select {
	case <-r.wake: // its caller had left before the outcome
	default:
	}
	r.Clear()
	r.then, r.follower, r.nodes, r.poll.Everyone = nil, nil, nil, false
	r.pool.Put(r)
}

// tokenAhead returns an errTokenAhead if so many nodes know tokens that are too far ahead that no others are enough, or
// nil.
func (r *round) tokenAhead(votes quorum.Count) (err error) {
	var ahead quorum.Set
	for i := range r.nodes {
		if votes.Voted(i) && errors.Is(votes.Answer(i).Err, errTokenAhead) {
			ahead, err = ahead.With(i), votes.Answer(i).Err
		}
	}
	if !r.electorate.Block(ahead) {
		return nil
	}
	for _, n := range r.nodes {
		n.conn.CheckSoon() // our reading of the nodes' clocks may be the one that is wrong
	}
	return err
}

// failure describes a round without a majority of grants. refused is the reason if a majority refused: ErrTaken, or
// ErrLost for a hold that was ours. ended is what ended the caller's wait, or nil. The error must not change after it
// is returned: observers read it in another goroutine.
func (r *round) failure(op, name string, refused error, votes quorum.Count, ended error) *QuorumError {
	e := &QuorumError{Op: op, Name: name, reason: ErrNoQuorum, ctx: ended}
	e.measure(r.electorate, votes.Who(quorum.Granted))
	for i, n := range r.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(r.electorate, i), Outcome: outcomeLate}
		if votes.Voted(i) {
			a := votes.Answer(i)
			part.Outcome, part.Owner, part.Label = outcomes[a.Vote], a.Owner, a.Label
			part.ours = n.peers.agreement.Label.Drew(a.Owner)
			part.Remaining, part.Ahead = a.Remaining, a.Ahead
			part.because(a.Err)
			if r.Names != nil && a.Vote == quorum.Taken {
				part.Name = r.Names.List[a.Which]
			}
		} else if r.Kind.Trust != guard.TrustAll {
			part.because(n.abstaining(r.Asked)) // then its vote would not have counted
		}
		e.Nodes = append(e.Nodes, part)
	}
	// A majority refused if the nodes that did not refuse are too few for a majority of grants.
	if known, may := r.refusal(votes); known {
		e.reason, e.refused = refused, true
	} else {
		e.late = may || !votes.Certain()
	}
	return e
}

// refusal reports whether a majority is known to have refused, and whether it may have, with those that nobody waited
// for.
func (r *round) refusal(votes quorum.Count) (known, may bool) {
	refused := votes.Who(quorum.Taken) | votes.Who(quorum.Absent)
	return r.electorate.Block(refused), r.electorate.Block(refused | r.missed(votes) | r.electorate.All&^votes.Voters())
}

// waitForReason waits after a round was lost until it is certain why, where nodes that have not answered decide that: a
// majority with the lock, or too few that answer.
func (r *round) waitForReason(ctx context.Context, votes quorum.Count) quorum.Count {
	for {
		known, may := r.refusal(votes)
		if known || !may || votes.Voters() == r.electorate.All {
			return votes
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return votes
		}
		votes = r.poll.SoFar()
	}
}

// missed returns the nodes that have not voted although they may be well: they have requests of this process to answer
// first, or this process was late to ask them or to read.
func (r *round) missed(votes quorum.Count) quorum.Set {
	return quorum.Where(len(r.nodes), func(i int) bool {
		if !votes.Voted(i) {
			return false // the answer may be written meanwhile
		}
		err := votes.Answer(i).Err
		return errors.Is(err, redisconn.ErrLate) || errors.Is(err, errNodeBusy)
	})
}
