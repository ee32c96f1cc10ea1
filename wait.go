package redlock

import (
	"cmp"
	"context"
	"errors"
	"strings"

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
func (l *Locker) wait(ctx context.Context, want acquisition, last error, first *waiter) (*hold, error) {
	ended := l.over(ctx)
	if ended != nil && last != nil {
		first.withdraw()
		return nil, waitEnded(last, ended)
	}
	queue := l.local.Join(want.key)
	defer l.local.Leave(want.key)
	want.head = &queue.Note
	if last != nil {
		want.observed.waiting(last)
		want.found(last)
	}
	if !want.shared && ended == nil { // readers get the lock together, so each reader joins the nodes' queues itself
		if !queue.Turn.TryAcquire(1) {
			first.withdraw() // while it waited here, it could not use votes that the nodes hand it
			first, last, ended = nil, nil, l.takeTurn(ctx, queue.Turn, want.observed)
		}
		if ended == nil {
			defer queue.Turn.Release(1)
		}
	}
	if ended != nil {
		if last == nil {
			last = l.notFirst(want.op, want.name, nil)
		}
		return nil, waitEnded(last, ended)
	}
	h, err := l.queue(ctx, want, last, first)
	if err == nil {
		want.found(nil)
	}
	return h, err
}

// queueWait is one caller's wait in the nodes' queues, under one owner after the other.
type queueWait struct {
	locker *Locker
	want   acquisition
	last   error           // why the last request got nothing; nil: none has an answer yet
	since  int64           // when the wait of the next owner counts from, in µs of the nodes' time
	seen   waiting.History // what the requests have found
	waiter *waiter         // nil: the next request has a new owner
}

// queue waits in the nodes' queues until the lock is held. Its first request counts as part of the attempt that failed
// before, with the error last, if there was one; if first is not nil, it is the request of that attempt.
func (l *Locker) queue(ctx context.Context, want acquisition, last error, first *waiter) (*hold, error) {
	l.listeners.listen(l.ctx, l) //nolint:contextcheck // until Close, not until the caller leaves
	l.listeners.waiting.Add(1)
	defer l.listeners.waiting.Add(-1)
	for _, i := range l.tokens.Poor() {
		l.nodes[i].measureSoon()
	}
	begun := l.opts.clock.now()
	if first != nil {
		begun = first.hold.tenure.start
	}
	q := &queueWait{locker: l, want: want, last: last, waiter: first, seen: waiting.History{First: first != nil}}
	q.since = cmp.Or(want.waitsSince, l.tokens.time(begun))
	for attempts := 1; ; attempts++ {
		h, err := q.turn(ctx, attempts)
		if err != errAskAgain { //nolint:errorlint // the cause of ctx, which is the caller's, may claim to be any error
			return h, err
		}
	}
}

// turn makes one request and waits for what comes of it: it returns the hold, errAskAgain, or why the wait is over.
func (q *queueWait) turn(ctx context.Context, attempts int) (*hold, error) {
	l, o := q.locker, q.want.opts
	r, asked, err := q.ask(ctx)
	if err != nil {
		return nil, err
	}
	pause := q.seen.Pause(o.backoff(attempts), max(o.ttl, queueLives)/2)
	if !q.want.shared {
		pause.BehindReaders = min(o.ttl, l.opts.lease()) / 2
	}
	h, err := q.waiter.await(ctx, r, asked, pause, &q.seen)
	if h == nil && isLate(q.last) {
		q.find(r, true) // by the answers since
	}
	if errors.Is(err, errAskAgain) {
		err = cmp.Or(r.tokenAhead(r.poll.SoFar()), err)
	}
	var over error
	switch conflict := l.mayLock(); {
	case conflict != nil: // found since the wait began
		over = waitEnded(q.last, conflict)
	case errors.Is(err, errTokenAhead): // nodes gave the lock, but it cannot be held without a token
		over = r.notHeld(ctx, q.want.op, q.want.name, r.poll.SoFar(), err, false)
	case err != nil && !errors.Is(err, errAskAgain):
		over = waitEnded(q.last, err)
	}
	if over != nil {
		q.waiter.leave(r)
		return nil, over
	}
	v := q.waiter.votes(r)
	q.waiter.drop(r)
	switch {
	case h == nil:
		return nil, q.decide(ctx, &v, attempts)
	case q.want.hasValue():
		return q.giveValue(ctx, h, attempts)
	}
	return h, nil
}

// giveValue returns the hold if the nodes keep its value. Otherwise the hold is given back, and the wait goes on.
func (q *queueWait) giveValue(ctx context.Context, h *hold, attempts int) (*hold, error) {
	o := q.want.opts
	h.tenure.setValue(h, o.value)
	r, votes, err := h.confirm(ctx)
	won := err == nil && votes.Verdict() == quorum.Won
	if won && h.tenure.left(o.clock.now()) >= leastValidity(o.ttl, o.maxHold) {
		r.Done()
		return h, nil
	}
	q.last = r.notHeld(ctx, q.want.op, q.want.name, votes, err, won)
	q.want.found(q.last)
	q.want.observed.waiting(q.last)
	r.abandon()
	h.withdraw()
	q.waiter = nil
	q.since++ // see decide
	if ended := q.locker.rest(ctx, o.backoff(attempts)); ended != nil {
		return nil, waitEnded(q.last, ended)
	}
	return nil, errAskAgain
}

// ask asks the nodes for the lock and returns the request when its outcome is certain, or why the wait is over. If the
// attempt before has put the caller into the queues, its request is the first.
func (q *queueWait) ask(ctx context.Context) (r *round, asked instant, err error) {
	l, want := q.locker, &q.want
	if w := q.waiter; w != nil && w.first != nil {
		r, w.first = w.first, nil
		return r, w.hold.tenure.start, nil
	}
	if q.waiter == nil {
		q.waiter = l.waiterFor(l.newHold(want, q.since))
	}
	w := q.waiter
	if ended := l.takeTurn(ctx, l.turns, want.observed); ended != nil {
		w.hold.withdraw()
		if q.last == nil {
			q.last = l.notAsked(want.op, want.name, nil)
		}
		return nil, asked, waitEnded(q.last, ended)
	}
	r, asked = w.ask()
	err = w.awaitOutcome(ctx, r)
	l.turns.Release(1)
	enough := w.votes(r).Enough
	found := q.find(r, !enough)
	if enough {
		found = nil
	}
	want.observed.attempt(asked, found)
	if err == nil && found != nil {
		want.observed.waiting(found)
	}
	return r, asked, nil
}

// find notes why a request has not got the lock, as far as that is certain, and tells the other callers if it is to.
func (q *queueWait) find(r *round, tell bool) error {
	failure := r.failure(q.want.op, q.want.name, ErrTaken, r.poll.SoFar(), nil)
	q.last = lastFound(q.last, failure)
	if tell {
		q.want.found(failure)
	}
	return failure
}

// decide does what the votes say after a request that did not get the lock, and returns errAskAgain or why the wait is
// over.
func (q *queueWait) decide(ctx context.Context, v *waiting.Votes, attempts int) error {
	l, o := q.locker, q.want.opts
	q.want.observed.waiting(q.last) // at the latest: a majority may have given it a lock that it could not hold
	decided, pauses := q.seen.Decide(v, waiting.Claimant{Owner: q.waiter.owner, Shared: q.want.shared})
	switch decided {
	case waiting.KeepVotes:
		return errAskAgain
	case waiting.Requeue:
		q.since = l.tokens.time(o.clock.now())
	case waiting.GiveBack, waiting.Retreat:
		q.since++ // no owner of this wait may be that of another attempt, whose undo may still be on its way
	}
	// The node hands each returned vote to its oldest waiter. If it cannot notify that waiter, the waiter must find the
	// lock free with its next request: so this one pauses before it asks again.
	q.waiter.hold.withdraw()
	q.waiter = nil
	if !pauses {
		return errAskAgain
	}
	err := l.rest(ctx, o.backoff(attempts))
	if decided == waiting.Retreat && err == nil {
		err = l.restUntilReady(ctx)
	}
	if err != nil {
		return waitEnded(q.last, err)
	}
	return errAskAgain
}

// told returns the error of a call that failed with err: if its context ended before it had a verdict itself, then what
// this process was told last of the name, if anything.
func (l *Locker) told(ctx context.Context, want *acquisition, err error) error {
	var q *QuorumError
	var unasked *opError
	var ended error
	switch {
	case want.from != nil:
		return err // whether others have the lock says nothing of whose it is
	case errors.As(err, &q) && q.late:
		ended = q.ctx
	case want.waits && errors.As(err, &unasked) && errors.Is(unasked.reason, ctx.Err()) && ctx.Err() != nil:
		ended = unasked.reason
	default:
		return err
	}
	of := want.names
	if of == nil {
		of = &names{list: []string{want.name}, keys: []string{want.key}}
	}
	var known *verdict
	var name string
	for i := 0; i < len(of.keys) && known == nil; i++ {
		name, known = of.list[i], want.fresh(l.local.Note(of.keys[i]))
	}
	if known == nil {
		return err
	}
	e := l.notFirst(want.op, want.name, known)
	if e.ctx = ended; want.names != nil {
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
