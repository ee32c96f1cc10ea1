package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/waiting"
)

// waiter is one wait for one lock under one owner.
type waiter struct {
	locker      *Locker
	attempt     *attempt
	queuedToken int64 // the token with which the waiter is in the queues
	askedToken  int64 // the token of the last request; owned by the waiting goroutine
	owner       string
	wake        chan struct{} // holds a value after a notification
	first       *round        // the request that put it into the queues; nil: it has not asked yet, or has asked again

	mu       sync.Mutex
	notified waiting.Notifications // guarded by mu
	asking   *round                // the last request, until it is abandoned; guarded by mu
}

// waiter returns the waiter for what no majority has given yet.
func (a *attempt) waiter() *waiter {
	l := a.locker
	w := &waiter{
		locker: l, attempt: a, queuedToken: a.token, askedToken: a.token, owner: a.owner.String(),
		wake: make(chan struct{}, 1), notified: waiting.NewNotifications(len(l.nodes)),
	}
	a.setMember()
	l.listeners.expect(a.owner, a.listener(w.notify))
	return w
}

// inQueues returns the waiter of a first request that did not get the lock: none if err ended the request, or if the
// nodes have been told another token since.
func (a *attempt) inQueues(b *ballot) *waiter {
	w := a.waiter()
	w.first = b.round
	w.follow(b.round)
	if b.err == nil && b.round.Kind == protocol.AcquireOrQueue {
		return w
	}
	w.undoFirst()
	return nil
}

// notify takes a node's notification.
func (w *waiter) notify(n notice) {
	w.locker.nodes[n.node].judgeToken(&n.Answer, w.queuedToken)
	w.mu.Lock()
	basis := waiting.Notified
	if r := w.asking; n.inOrder && r != nil {
		if votes := r.poll.SoFar(); votes.Voted(n.node) && votes.Answer(n.node).Vote == quorum.Taken {
			basis = waiting.HandedOver
		}
	}
	w.notified.Receive(n.node, n.Answer, w.queuedToken, basis)
	w.mu.Unlock()
	signal(w.wake)
}

// ask sends the enqueue command to all nodes: each answers whether the lock is the waiter's, or now becomes so, and
// keeps the waiter in its queue otherwise.
func (w *waiter) ask() (*round, instant) {
	l := w.locker
	w.mu.Lock()
	w.notified.Age()
	w.mu.Unlock()
	r := w.attempt.round(protocol.Enqueue)
	r.Queues = true
	w.askedToken = w.attempt.token
	asked := l.opts.clock.now()
	w.attempt.send(r, asked)
	w.follow(r)
	return r, asked
}

// follow has notify compare notifications with the answers to a request.
func (w *waiter) follow(r *round) {
	w.mu.Lock()
	w.asking = r
	w.mu.Unlock()
}

// drop abandons a request that the waiter follows.
func (w *waiter) drop(r *round) {
	w.follow(nil)
	r.abandon()
}

// undo gives up the waiter's votes and its places in the queues.
func (w *waiter) undo(r *round) {
	w.drop(r)
	w.attempt.undo(w.attempt.asked)
}

// undoFirst gives up a waiter that the first request has put into the queues, if there is one.
func (w *waiter) undoFirst() {
	if w != nil {
		w.undo(w.first)
	}
}

// claimant is who asks.
func (w *waiter) claimant() waiting.Claimant {
	return waiting.Claimant{Owner: w.owner, Shared: w.attempt.plan.reads()}
}

// votes counts the votes by the answers so far and the notifications.
func (w *waiter) votes(r *round) waiting.Votes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notified.Weigh(r.poll.SoFar(), w.askedToken, w.attempt.token)
}

// awaitOutcome returns when the outcome of the round is certain, or as soon as answers and notifications together give
// the waiter a majority: the answer that the round still waits for may be that of a slow node.
func (w *waiter) awaitOutcome(ctx context.Context, r *round) error {
	notified := false
	defer func() {
		if notified {
			signal(w.wake) // again, for await
		}
	}()
	for {
		select {
		case <-r.wake:
			if r.poll.SoFar().Certain() {
				return nil
			}
		case <-w.wake:
			// Only now: older notifications alone were not enough before, and would not be without an answer.
			if notified = true; w.votes(r).Enough {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step is what a waiter does next.
type step uint8

const (
	askAgain step = iota // make the next request
	become               // the hold that its votes grant
	leave                // give up: the wait is over
)

// next is a waiter's next step: with the grant that it becomes a hold by, or with the reason why the wait is over.
type next struct {
	step  step
	grant grant
	err   error
}

func over(err error) next { return next{step: leave, err: err} }

// await returns what to do after a request: become a hold as soon as there is one, ask again when it is time for that,
// or leave. It counts the votes anew with each answer and each notification, and chooses the pause by all of them: the
// outcome may be certain before the waiter's own votes have come. The pause begins at the outcome, or when the first of
// these votes comes after it: the others may be on their way.
func (w *waiter) await(ctx context.Context, r *round, asked instant, p waiting.Pause, seen *waiting.History) next {
	l := w.locker
	begun, none := l.opts.clock.now(), true
	took := begun.since(asked)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for woken := false; ; {
		v := w.votes(r)
		if v.Enough && !v.Revoked {
			// Votes that are too old, or whose nodes did not accept the raised token, need a new request: at once after a
			// notification, otherwise after the pause, since their nodes may be out of reach.
			if n := w.promote(ctx, &v, asked); n.step != askAgain || woken {
				return n
			}
		}
		if v.Revoked || seen.YieldsAtOnce(&v, w.claimant()) {
			return next{step: askAgain} // under another owner
		}
		now := l.opts.clock.now()
		if none && v.Given != 0 {
			begun, none = now, false
		}
		left := p.Length(&v, took) - now.since(begun)
		if left <= 0 {
			// A notification that came meanwhile is not left for the next request, which would take it for an answer.
			select {
			case <-w.wake:
				woken = true
				continue
			default:
				return next{step: askAgain}
			}
		}
		timer.Reset(left)
		notified, ended := w.hear(ctx, r, timer)
		if ended != nil {
			return over(ended)
		}
		woken = woken || notified
	}
}

// hear returns when there is one more notification or answer, or when the pause is over. It reports whether it was a
// notification, or why the wait has ended.
func (w *waiter) hear(ctx context.Context, r *round, pause *time.Timer) (notified bool, ended error) {
	select {
	case <-w.wake:
		return true, nil
	case <-r.wake:
	case <-pause.C:
	case <-ctx.Done():
		return false, w.locker.over(ctx)
	case <-w.locker.scope(ctx).Done():
		return false, ErrClosed
	}
	return false, nil
}

// promote returns what a majority of votes grants. If too few nodes accept the token or too little of the TTL is left,
// it is time to ask again.
func (w *waiter) promote(ctx context.Context, v *waiting.Votes, asked instant) next {
	l, a := w.locker, w.attempt
	// The TTL of a vote in answer to the last request began after that request was sent, and so did the lease of a vote
	// that was handed over after the node had answered. The lease of another vote known by notification may have begun at
	// any time since the waiter drew its owner.
	g := grant{opts: a.plan.opts, start: a.drawn, term: min(l.opts.lease(), a.plan.opts.ttl)}
	switch v.Basis {
	case waiting.Answered:
		g.start, g.term = asked, a.plan.opts.ttl
	case waiting.HandedOver:
		g.start = asked
	case waiting.Notified:
	}
	if a.token > 0 && (!v.Accepted || l.outdated(a.token)) {
		if n := w.raise(ctx, v); n.step != become {
			return n
		}
	}
	// The maximum hold time (WithMaxHold) counts from here, not from the beginning of the wait.
	if g.since = l.opts.clock.now(); !g.enough(g.since) {
		return next{step: askAgain} // the next request restarts the TTL on the nodes
	}
	l.tokens.Observe(a.token)
	return next{step: become, grant: g}
}

// raise has the nodes accept a larger token, without which a majority of votes makes no hold.
func (w *waiter) raise(ctx context.Context, v *waiting.Votes) next {
	l, a := w.locker, w.attempt
	r, err := a.askToRaise(protocol.LastRaise, max(a.token, v.Highest), l.electorate.All)
	if err != nil {
		return over(err)
	}
	votes, err := r.wait(ctx)
	defer r.abandon()
	accepted := votes.Who(quorum.Granted)
	w.mu.Lock()
	for i := range l.nodes {
		if accepted.Has(i) {
			w.notified.Accept(i, a.token)
		}
	}
	w.mu.Unlock()
	switch {
	case err != nil:
		return over(l.over(ctx))
	case votes.Verdict() != quorum.Won:
		return next{step: askAgain}
	default:
		return next{step: become}
	}
}
