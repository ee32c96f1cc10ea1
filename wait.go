package redlock

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/waiting"
)

// Waiting. A client that finds a lock taken joins the queue that each node keeps for it. On a release, each node hands
// the lock to the waiter in its queue that has waited longest: it sets the key to that waiter's owner and publishes a
// notification to the waiter's Locker. Owners begin with the time, so all nodes that know of the same waiters choose
// the same one. A majority of such votes is a hold like any other.
//
// Notifications only save time. Each waiter also repeats its request now and then: so it learns of votes whose
// notification was lost, takes over from a holder that crashed, and gets back a place that a node has lost.
//
// Votes may split between waiters if the nodes learnt of them in different orders. Then all of these waiters but the
// oldest give their votes back. A waiter also gives its votes back if another owner seems to hold the lock and a node
// says that an older waiter waits for one of them. If so many nodes fail it that it cannot get the lock, it leaves the
// queues until they are back.

// wait waits until the lock is held: first in this process's local queue, then, at the head of that, in the nodes'
// queues. last is the error of the attempt that failed before, or nil, and first the waiter that the nodes have put
// into their queues by it, or nil. More attempts would not help: after a split vote every client gives way to the
// oldest, while in a queue each waits its turn.
func (l *Locker) wait(ctx context.Context, p plan, last error, first *waiter) (*hold, error) {
	ended := l.over(ctx)
	if ended != nil && last != nil {
		first.undoFirst()
		return nil, waitEnded(last, ended)
	}
	queue := l.local.Join(p.key)
	defer l.local.Leave(p.key)
	p.head = &queue.Note
	if last != nil {
		p.observed.waiting(last)
		p.found(last)
	}
	if !p.reads() && ended == nil { // readers get the lock together, so each reader joins the nodes' queues itself
		if !queue.Turn.TryAcquire(1) {
			first.undoFirst() // while it waited here, it could not use votes that the nodes hand it
			first, last, ended = nil, nil, l.takeTurn(ctx, queue.Turn, p.observed)
		}
		if ended == nil {
			defer queue.Turn.Release(1)
		}
	}
	if ended != nil {
		if last == nil {
			last = l.notFirst(p.op, p.name, nil)
		}
		return nil, waitEnded(last, ended)
	}
	h, err := l.queue(ctx, p, last, first)
	if err == nil {
		p.found(nil)
	}
	return h, err
}

// queueWait is one caller's wait in the nodes' queues, under one owner after the other.
type queueWait struct {
	locker *Locker
	plan   plan
	last   error           // why the last request got nothing; nil: none has an answer yet
	since  int64           // when the wait of the next owner counts from, in µs of the nodes' time
	seen   waiting.History // what the requests have found
	waiter *waiter         // nil: the next request has a new owner
}

// queue waits in the nodes' queues until the lock is held. Its first request counts as part of the attempt that failed
// before, with the error last, if there was one; if first is not nil, it is the request of that attempt.
func (l *Locker) queue(ctx context.Context, p plan, last error, first *waiter) (*hold, error) {
	l.listeners.listen(l.ctx) //nolint:contextcheck // until Close, not until the caller leaves
	l.listeners.waiting.Add(1)
	defer l.listeners.waiting.Add(-1)
	for _, i := range l.tokens.Poor() {
		l.nodes[i].measureSoon()
	}
	begun := l.opts.clock.now()
	if first != nil {
		begun = first.attempt.start
	}
	q := &queueWait{locker: l, plan: p, last: last, waiter: first, seen: waiting.History{First: first != nil}}
	q.since = cmp.Or(p.since, l.tokens.time(begun))
	for attempts := 1; ; attempts++ {
		switch n := q.turn(ctx, attempts); n.step {
		case become:
			return newHold(q.waiter.attempt, n.grant), nil
		case leave:
			return nil, n.err
		case askAgain:
		}
	}
}

// turn makes one request and waits for what comes of it.
func (q *queueWait) turn(ctx context.Context, attempts int) next {
	l, o := q.locker, q.plan.opts
	r, asked, err := q.ask(ctx)
	if err != nil {
		return over(err)
	}
	pause := q.seen.Pause(o.backoff(attempts), max(o.ttl, queueLives)/2)
	if !q.plan.reads() {
		pause.BehindReaders = min(o.ttl, l.opts.lease()) / 2
	}
	n := q.waiter.await(ctx, r, asked, pause, &q.seen)
	if last := new(QuorumError); n.step != become && errors.As(q.last, &last) && last.late { // it came to no verdict
		q.plan.found(q.find(r)) // by the answers since
	}
	if ended := q.ended(ctx, r, n); ended != nil {
		q.waiter.undo(r)
		return over(ended)
	}
	v := q.waiter.votes(r)
	q.waiter.drop(r)
	switch {
	case n.step == askAgain:
		return q.decide(ctx, &v, attempts)
	case q.plan.hasValue():
		return q.giveValue(ctx, n.grant, attempts)
	}
	return n
}

// ended returns why the wait is over, or nil.
func (q *queueWait) ended(ctx context.Context, r *round, n next) error {
	err := n.err
	if n.step == askAgain {
		err = r.tokenAhead(r.poll.SoFar())
	}
	switch conflict := q.locker.mayLock(); {
	case conflict != nil: // found since the wait began
		return waitEnded(q.last, conflict)
	case errors.Is(err, errTokenAhead): // nodes gave the lock, but it cannot be held without a token
		b := ballot{round: r, votes: r.poll.SoFar(), err: err}
		return b.notHeld(ctx, &q.plan)
	case err != nil:
		return waitEnded(q.last, err)
	}
	return nil
}

// giveValue grants the hold if the nodes keep its value. Otherwise the votes are given back, and the wait goes on.
func (q *queueWait) giveValue(ctx context.Context, g grant, attempts int) next {
	o, a := q.plan.opts, q.waiter.attempt
	a.setValue(o.value)
	b := a.confirm(ctx)
	g, won := g.extended(b.start), b.is(quorum.Won)
	if won && g.enough(q.locker.opts.clock.now()) {
		b.round.Done()
		return next{step: become, grant: g}
	}
	q.last = b.notHeld(ctx, &q.plan)
	q.plan.found(q.last)
	q.plan.observed.waiting(q.last)
	b.round.abandon()
	a.undo(a.asked)
	q.waiter = nil
	q.since++ // see decide
	return q.rest(ctx, attempts)
}

// rest pauses before the next request.
func (q *queueWait) rest(ctx context.Context, attempts int) next {
	if ended := q.locker.rest(ctx, q.plan.opts.backoff(attempts)); ended != nil {
		return over(waitEnded(q.last, ended))
	}
	return next{step: askAgain}
}

// ask asks the nodes for the lock and returns the request when its outcome is certain, or why the wait is over. If the
// attempt before has put the caller into the queues, its request is the first.
func (q *queueWait) ask(ctx context.Context) (r *round, asked instant, err error) {
	l, p := q.locker, &q.plan
	if w := q.waiter; w != nil && w.first != nil {
		r, w.first = w.first, nil
		return r, w.attempt.start, nil
	}
	if q.waiter == nil {
		q.waiter = l.newAttempt(p, q.since).waiter()
	}
	w := q.waiter
	if ended := l.takeTurn(ctx, l.turns.Weighted, p.observed); ended != nil {
		w.attempt.undo(w.attempt.asked)
		if q.last == nil {
			q.last = l.notAsked(p.op, p.name, nil)
		}
		return nil, asked, waitEnded(q.last, ended)
	}
	r, asked = w.ask()
	err = w.awaitOutcome(ctx, r)
	l.turns.Release(1)
	enough := w.votes(r).Enough
	found := q.find(r)
	if enough {
		found = nil
	} else {
		q.plan.found(found)
	}
	p.observed.attempt(asked, found)
	if err == nil && found != nil {
		p.observed.waiting(found)
	}
	return r, asked, nil
}

// find notes why a request has not got the lock, as far as that is certain.
func (q *queueWait) find(r *round) error {
	failure := r.failure(q.plan.op, q.plan.name, ErrTaken, r.poll.SoFar(), nil)
	q.last = lastFound(q.last, failure)
	return failure
}

// decide does what the votes say after a request that did not get the lock: to ask again, or why the wait is over.
func (q *queueWait) decide(ctx context.Context, v *waiting.Votes, attempts int) next {
	l, a := q.locker, q.waiter.attempt
	q.plan.observed.waiting(q.last) // at the latest: a majority may have given it a lock that it could not hold
	decided, pauses := q.seen.Decide(v, q.waiter.claimant())
	switch decided {
	case waiting.KeepVotes:
		return next{step: askAgain}
	case waiting.Requeue:
		q.since = l.tokens.time(l.opts.clock.now())
	case waiting.GiveBack, waiting.Retreat:
		q.since++ // no owner of this wait may be that of another attempt, whose undo may still be on its way
	}
	// The node hands each returned vote to its oldest waiter. If it cannot notify that waiter, the waiter must find the
	// lock free with its next request: so this one pauses before it asks again.
	a.undo(a.asked)
	q.waiter = nil
	if !pauses {
		return next{step: askAgain}
	}
	n := q.rest(ctx, attempts)
	if decided == waiting.Retreat && n.step == askAgain {
		if ended := l.restUntilReady(ctx); ended != nil {
			return over(waitEnded(q.last, ended))
		}
	}
	return n
}

// restUntilReady returns nil when the votes of a majority count, as far as the Locker knows, or when the Locker is
// refused, which the next request tells; or else the reason why the wait has ended.
func (l *Locker) restUntilReady(ctx context.Context) error {
	for {
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now, (*node).forUs)
		if ended := l.over(ctx); ended != nil || l.electorate.Suffice(seen.votes) || l.mayLock() != nil {
			return ended
		}
		l.awaitStates(ctx, changed, seen)
	}
}

// found tells the other callers how the last request failed, or with nil that it did not. If it came to no verdict,
// they go by the one before.
func (p *plan) found(err error) {
	if p.head == nil {
		return
	}
	v := &verdict{at: p.opts.clock.local()}
	if err != nil && (!errors.As(err, &v.failure) || v.failure.late) {
		return
	}
	p.head.Store(v)
}

// fresh returns the verdict at the head if it is not too old to go by, or nil.
func (p *plan) fresh(head *verdictAtHead) *verdict {
	if head == nil {
		return nil
	}
	v := head.Load()
	if v == nil || p.opts.clock.local().Sub(v.at) > queueLives || v.failure == nil && p.reads() {
		return nil // that a caller has got the lock keeps no reader away
	}
	return v
}

// told returns the error of a call that failed with err: if its context ended before it had a verdict itself, then what
// this process was told last of the name, if anything.
func (l *Locker) told(ctx context.Context, p *plan, err error) error {
	var q *QuorumError
	var unasked *opError
	var ended error
	switch {
	case p.mode == adopted:
		return err // whether others have the lock says nothing of whose it is
	case errors.As(err, &q) && q.late:
		ended = q.ctx
	case p.waits && errors.As(err, &unasked) && errors.Is(unasked.reason, ctx.Err()) && ctx.Err() != nil:
		ended = unasked.reason
	default:
		return err
	}
	of := p.names
	if of == nil {
		of = protocol.NewNames([]string{p.name}, []string{p.key})
	}
	var known *verdict
	var name string
	for i := 0; i < len(of.List) && known == nil; i++ {
		name, known = of.List[i], p.fresh(l.local.Note(of.Key(i)))
	}
	if known == nil {
		return err
	}
	e := l.notFirst(p.op, p.name, known)
	if e.ctx = ended; p.names != nil {
		e.Nodes = ofName(e.Nodes, name)
	}
	return e
}

// notFirst returns the error of a caller that other callers in this process were ahead of: what these were told last,
// told. If that is nil, then because they just begin, or one of them just got the lock.
func (l *Locker) notFirst(op, name string, told *verdict) *QuorumError {
	const behind = "behind other callers in this process"
	if told != nil && told.failure != nil {
		e := *told.failure
		e.Op, e.Name, e.ctx, e.detail = op, name, nil, strings.TrimPrefix(e.detail+"; "+behind, "; ")
		return &e
	}
	e := &QuorumError{Op: op, Name: name, reason: ErrTaken, detail: behind, late: told == nil}
	e.measure(l.electorate, 0)
	for i, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: outcomeUnasked})
	}
	return e
}
