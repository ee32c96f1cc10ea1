package redlock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
)

// attempt is what one owner asks of the nodes: a first question, and further ones while it needs a larger token, a tie
// broken, a value confirmed, or waits. It is what gets undone. Plan, owner and times stay; the token and the nodes that
// were asked only grow. It belongs to the goroutine that asks, and once there is a hold, to that: see tenure.
type attempt struct {
	locker *Locker
	plan   plan
	owner  uuid.UUID
	drawn  instant // when the owner was
	start  instant // when its node timeout begins, and the validity of what it is granted at once

	token    int64      // 0: none
	asked    quorum.Set // the nodes that may have what it asks for
	extended bool       // an extension was sent, and may arrive late
	member   string     // its place in the nodes' queues; "": it is in none
	value    string     // what extensions leave on the nodes beside the lock; "": nothing
	values   int        // how many values it has had
}

// attempts is the pool of those that belong to nobody. Their fields are zero.
var attempts = sync.Pool{New: func() any { return new(attempt) }}

// newAttempt reads the clock, draws an owner and proposes a token. since is when the caller began to wait, in µs of the
// nodes' time, which the owner tells the nodes; 0: now.
func (l *Locker) newAttempt(p *plan, since int64) *attempt {
	now := l.opts.clock.now()
	a := attempts.Get().(*attempt)
	a.locker, a.plan, a.drawn, a.start = l, *p, now, now
	if p.began != nil {
		a.start = *p.began
	}
	a.owner = l.peers.agreement.Label.Owner(cmp.Or(since, l.tokens.time(now)), p.opts.fencing)
	if p.opts.fencing {
		l.peers.trim(now)
		if !l.peers.proposed.Load() { // a store each time would have all processors wait for it
			l.peers.proposed.Store(true)
		}
		a.token = l.tokens.propose(now)
	}
	return a
}

// recycle gives the attempt to a later call. Its caller is the last that has it.
func (a *attempt) recycle() {
	*a = attempt{} // all fields: the pool must keep nothing alive, and the next call must find nothing
	attempts.Put(a)
}

// round returns a round that is filled in with a command. Each command takes what it needs of the attempt.
func (a *attempt) round(k *protocol.Command) *round {
	if a.plan.reads() {
		k = k.Reader
	}
	r := a.locker.rounds.Get().(*round)
	if a.plan.names != nil {
		r.AboutAll(k, a.plan.names)
	} else {
		r.About(k, a.plan.key)
	}
	r.Owner, r.Token, r.TTL = a.owner, a.token, a.plan.opts.ttl
	r.Value, r.Extended = a.value, a.extended
	if k != protocol.Extend { // which needs none, and a straggler's answer may set it meanwhile: see hold.answered
		r.Member = a.member
	}
	switch {
	case a.plan.mode == adopted:
		r.From = a.plan.former.String()
	case k == protocol.AcquireOrQueue:
		r.Channel = a.locker.listeners.channel
	}
	return r
}

// send sends a round to all nodes.
func (a *attempt) send(r *round, now instant) {
	a.asked |= r.send(a.locker.nodes, a.locker.electorate.All, now.local)
}

// ballot is a round whose caller has waited for it.
type ballot struct {
	round *round
	votes quorum.Count
	start instant // when the validity of what it grants begins
	err   error   // what ended the wait, or why nothing was asked; nil: the outcome is certain
}

// is reports whether that is the certain outcome.
func (b *ballot) is(v quorum.Verdict) bool { return b.err == nil && b.votes.Verdict() == v }

// notHeld describes a ballot by which nothing is held: its wait ended, it was won too late, or too few nodes granted.
func (b *ballot) notHeld(ctx context.Context, p *plan) *QuorumError {
	failure := b.round.failure(p.op, p.name, ErrTaken, b.votes, nil)
	switch {
	case b.is(quorum.Won):
		failure.reason, failure.detail = ErrNoQuorum, "a majority came too late: too little of the TTL was left"
	case errors.Is(b.err, errTokenAhead):
		failure.reason, failure.detail = ErrNoQuorum, "a node "+b.err.Error()
	default:
		failure.ctx = endOf(ctx, b.err)
	}
	return failure
}

// onRefusal is what an attempt does if nodes refuse it.
type onRefusal uint8

const (
	giveUp  onRefusal = iota
	winTie            // it asks again if callers that do not wait have split the votes, and it is the oldest
	queueUp           // it stays in the nodes' queues
)

// acquiring returns the command that acquires what is planned.
func (p *plan) acquiring(refused onRefusal) *protocol.Command {
	switch {
	case p.mode == adopted:
		return protocol.Adopt
	case p.mode == several:
		return protocol.AcquireAll
	case refused == queueUp:
		return protocol.AcquireOrQueue
	case p.opts.fencing:
		return protocol.Acquire
	default:
		return protocol.AcquirePlain
	}
}

// ask asks all nodes, and asks on until the outcome is certain: granted, or not to be had at once.
func (a *attempt) ask(ctx context.Context, refused onRefusal) ballot {
	r := a.round(a.plan.acquiring(refused))
	if refused == queueUp {
		a.expectGrants(r)
	}
	a.send(r, a.start)
	b := ballot{round: r, start: a.start}
	b.votes, b.err = r.wait(ctx)
	if b.is(quorum.Lost) && refused == winTie {
		b = a.breakTie(ctx, b)
	}
	for b.is(quorum.Short) { // a majority gave the lock, but some of its nodes know larger tokens
		if refused == queueUp {
			a.setMember() // with the token that the nodes have
		}
		b = a.raise(ctx, b)
	}
	if b.is(quorum.Won) && a.plan.hasValue() {
		if refused == queueUp {
			a.setMember()
		}
		a.setValue(a.plan.opts.value)
		b.round.Done()
		b = a.confirm(ctx)
	}
	if b.is(quorum.Lost) {
		b.err = b.round.tokenAhead(b.votes)
	}
	return b
}

// granted returns what a ballot grants.
func (a *attempt) granted(b *ballot) grant {
	return grant{opts: a.plan.opts, since: a.drawn, start: b.start, term: a.plan.opts.ttl}
}

// breakTie asks again after a round that was lost, if this caller wins the tie, and returns the ballot to continue
// with. All rounds together have one node timeout.
//
// What makes a second question under one owner safe: no undo has been sent, so nothing can overtake one; on each
// connection the question stands behind the first, and the undo, if it comes to that, behind both. Only the votes of
// the last round count, each for its own token, which is as young as the question. The validity counts from the first
// reading of the clock.
func (a *attempt) breakTie(ctx context.Context, b ballot) ballot {
	l := a.locker
	tie := quorum.Tie{Owner: a.owner.String(), Limit: l.opts.nodeTimeout}
	if tie.Beaten(b.votes) {
		return b // as always where somebody holds the lock: that needs no deadline
	}
	bounded, cancel := context.WithDeadline(ctx, a.start.local.Add(l.opts.nodeTimeout))
	defer cancel()
	for asked := a.start; b.votes.Verdict() == quorum.Lost; {
		now := l.opts.clock.now()
		pause, again := tie.Pause(b.votes, now.since(asked), now.since(a.start))
		if again {
			b.votes, again = l.pauseInTie(bounded, b.round, &tie, pause)
		}
		if !again {
			b.err = ctx.Err()
			return b
		}
		b.round.abandon()
		if asked = l.opts.clock.now(); a.token > 0 {
			a.token = max(a.token+1, l.tokens.propose(asked)) // a node accepts no token twice
		}
		b.round = a.round(protocol.AcquireAll) // of this one name: free, or ours since the round before
		a.send(b.round, asked)
		var err error
		if b.votes, err = b.round.wait(bounded); err != nil {
			b.err = ctx.Err() // nil at the node timeout: the missing votes show that
			return b
		}
	}
	return b
}

// pauseInTie pauses between two rounds. It returns the votes of r as they are then, and whether to ask again: not if a
// straggler's answer shows that this caller has lost the tie, or if the time is up.
func (l *Locker) pauseInTie(
	ctx context.Context, r *round, tie *quorum.Tie, pause time.Duration,
) (votes quorum.Count, again bool) {
	votes, again = r.poll.SoFar(), true
	look := max(pause/8, time.Millisecond) // no timer is better than a millisecond
	for ; again && pause > 0; pause -= look {
		again = l.rest(ctx, min(pause, look)) == nil
		votes = r.poll.SoFar()
		again = again && !tie.Beaten(votes)
	}
	return votes, again
}

// raise proposes a token above all that the nodes have reported, to the nodes that have given the lock or may still do
// so: the request follows the first one on the same connection. It returns the ballot to continue with. Both rounds
// together have one node timeout. If that is too short, the next attempt starts with the larger token.
func (a *attempt) raise(ctx context.Context, b ballot) ballot {
	l, highest := a.locker, a.token
	for i := range b.round.nodes {
		if b.votes.Voted(i) {
			highest = max(highest, b.votes.Answer(i).Token)
		}
	}
	how := protocol.Raise
	if b.round.Kind == protocol.Raise { // on a connection that broke, a node may have been asked twice
		how = protocol.LastRaise
	}
	raised, err := a.askToRaise(how, highest, a.asked&^b.round.refusers(b.votes))
	if err != nil {
		b.err = err
		return b
	}
	b.round.abandon()
	bounded, cancel := context.WithDeadline(ctx, a.start.local.Add(l.opts.nodeTimeout))
	defer cancel()
	b.round = raised
	b.votes, b.err = raised.wait(bounded)
	l.tokens.Observe(a.token) // nodes may know it, whatever becomes of the attempt
	if ctx.Err() == nil {
		b.err = nil // the wait ended at the node timeout, not at the caller's: the missing votes show that
	}
	return b
}

// askToRaise sends nodes a token above highest, the highest that they know.
func (a *attempt) askToRaise(how *protocol.Command, highest int64, to quorum.Set) (*round, error) {
	l := a.locker
	now := l.opts.clock.now()
	if l.tokens.TooFarAhead(highest, l.tokens.micros(now)) { // it is our own: see judgeToken
		return nil, l.tokens.tooFarAhead("knows a token of this name", highest, now)
	}
	// Only one above: a waiter behind us has proposed the time at which it began to wait, and should not need a second
	// round as well.
	a.token = highest + 1
	if l.outdated(a.token) {
		a.token = max(a.token, l.tokens.propose(now))
	}
	l.tokens.Observe(highest)
	r := a.round(how)
	r.send(l.nodes, to, now.local)
	return r, nil
}

// outdated reports whether a token was proposed so long ago that a node may have accepted it although it once knew a
// larger one: it has forgotten that, or had no memory to note what it dropped. The limit is half of the retention or of
// the restart guard, whichever is shorter; the other half allows for clocks that disagree.
func (l *Locker) outdated(token int64) bool {
	limit := l.opts.retention / 2
	if l.opts.guard > 0 {
		limit = min(limit, l.opts.guard/2)
	}
	return token > 0 && token < l.tokens.time(l.opts.clock.now())-limit.Microseconds()
}

// setValue sets what the next extensions carry.
func (a *attempt) setValue(value string) {
	a.values++
	a.value = protocol.ValueText(a.owner, a.token, a.values, value)
}

// confirm extends what was granted before there is a handle, and returns the ballot to continue with. All rounds of a
// call that asks once have one node timeout together.
func (a *attempt) confirm(ctx context.Context) ballot {
	b := ballot{start: a.start}
	if a.plan.waits {
		b.start = a.locker.opts.clock.now()
	}
	b.round = a.round(protocol.Extend)
	a.extended = true
	a.send(b.round, b.start)
	b.votes, b.err = b.round.wait(ctx)
	return b
}

// The first request of a caller that will wait has the nodes that refuse it put it into their queues at once: so nobody
// who comes later is served before it, and it needs no second request to wait. It costs nothing while the lock is free,
// since the node makes the member of the queue itself, when it refuses.

// expectGrants prepares the first request r: a node that refuses it may hand over the lock a moment later.
func (a *attempt) expectGrants(r *round) {
	r.Queues = true
	s := &a.locker.listeners
	s.hear()
	s.expect(a.owner, a.listener(nil))
}

func (a *attempt) listener(notify func(notice)) listener {
	return listener{key: a.plan.key, shared: a.plan.reads(), notify: notify}
}

// setMember sets the place in the queues, unless that was done before: the token may have been raised since.
func (a *attempt) setMember() {
	if a.member == "" {
		a.member = a.place(a.plan.opts.ttl)
	}
}

// place returns the member of the nodes' queues.
func (a *attempt) place(ttl time.Duration) string {
	if a.plan.reads() {
		return protocol.ReaderInQueue(a.owner, ttl, a.locker.listeners.channel)
	}
	return protocol.InQueue(a.owner, a.token, ttl, a.locker.listeners.channel)
}
