package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/waiting"
)

// waiter is one wait for one lock under one owner.
type waiter struct {
	locker      *Locker
	hold        *hold // what the waiter becomes; its token is owned by the waiting goroutine
	queuedToken int64 // the token with which the waiter is in the queues
	askedToken  int64 // the token of the last request; owned by the waiting goroutine
	owner       string
	wake        chan struct{} // holds a value after a notification
	first       *round        // the request that put it into the queues; nil: it has not asked yet, or has asked again

	mu       sync.Mutex
	notified waiting.Notifications // guarded by mu
	asking   *round                // the last request, until it is abandoned; guarded by mu
}

// waiterFor creates a waiter for a hold that no majority has given yet.
func (l *Locker) waiterFor(h *hold) *waiter {
	w := &waiter{
		locker: l, hold: h, queuedToken: h.token, askedToken: h.token, owner: h.owner.String(),
		wake: make(chan struct{}, 1), notified: waiting.NewNotifications(len(l.nodes)),
	}
	h.setMember()
	l.listeners.expect(h.owner, h.listener(w.notify))
	return w
}

// notify takes a node's notification.
func (w *waiter) notify(node int, a quorum.Answer, main bool) {
	w.locker.nodes[node].judgeToken(&a, w.queuedToken)
	w.mu.Lock()
	behind := false
	if r := w.asking; main && r != nil {
		votes := r.poll.SoFar()
		behind = votes.Voted(node) && votes.Answer(node).Vote == quorum.Taken
	}
	w.notified.Receive(node, a, w.queuedToken, behind)
	w.mu.Unlock()
	w.signal()
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// ask sends the enqueue command to all nodes: each answers whether the lock is the waiter's, or now becomes so, and
// keeps the waiter in its queue otherwise.
func (w *waiter) ask() (*round, instant) {
	l := w.locker
	w.mu.Lock()
	w.notified.Age()
	w.mu.Unlock()
	r := l.askFor(enqueue, w.hold)
	r.queues = true
	w.askedToken = w.hold.token
	asked := l.opts.clock.now()
	w.hold.tenure.asked |= r.send(l.nodes, l.electorate.All, asked.local)
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

// leave gives up the waiter's votes and its members of the queues.
func (w *waiter) leave(r *round) {
	w.drop(r)
	w.hold.withdraw()
}

// withdraw gives up a waiter that the first request has put into the queues, if there is one.
func (w *waiter) withdraw() {
	if w != nil {
		w.leave(w.first)
	}
}

// votes counts the votes by the answers so far and the notifications.
func (w *waiter) votes(r *round) waiting.Votes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notified.Weigh(r.poll.SoFar(), w.askedToken, w.hold.token)
}

// awaitOutcome returns when the outcome of the round is certain, or as soon as answers and notifications together give
// the waiter a majority: the answer that the round still waits for may be that of a slow node.
func (w *waiter) awaitOutcome(ctx context.Context, r *round) error {
	notified := false
	defer func() {
		if notified {
			w.signal() // again, for await
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

// errAskAgain says that it is time for the next request.
var errAskAgain = errors.New("ask again")

// await returns the hold as soon as there is one, errAskAgain when it is time for the next request, or the reason why
// the wait has ended. It counts the votes anew with each answer and each notification, and chooses the pause by all
// of them: the outcome may be certain before the waiter's own votes have come. The pause begins at the outcome, or
// when the first of these votes comes after it: the others may be on their way.
func (w *waiter) await(
	ctx context.Context, r *round, asked instant, p waiting.Pause, seen *waiting.History,
) (*hold, error) {
	l := w.locker
	begun, none := l.opts.clock.now(), true
	took := begun.since(asked)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for woken := false; ; {
		v := w.votes(r)
		if v.Revoked {
			return nil, errAskAgain // under another owner
		}
		if v.Enough {
			h, err := w.promote(ctx, &v, asked)
			// Votes that are too old, or whose nodes did not accept the raised token, need a new request: at once after a
			// notification, otherwise after the pause, since their nodes may be out of reach.
			if h != nil || !errors.Is(err, errAskAgain) || woken {
				return h, err
			}
		}
		if seen.YieldsAtOnce(&v, waiting.Claimant{Owner: w.owner, Shared: w.hold.shared}) {
			return nil, errAskAgain
		}
		now := l.opts.clock.now()
		if none && v.Given != 0 {
			begun, none = now, false
		}
		left := p.Length(&v, took) - now.since(begun)
		if left <= 0 {
			// A notification that came meanwhile is not left for the next request, which would take it for an answer.
			if woken = w.takeWake(); woken {
				continue
			}
			return nil, errAskAgain
		}
		timer.Reset(left)
		select {
		case <-w.wake:
			woken = true
		case <-r.wake: // one more answer
		case <-timer.C:
		case <-ctx.Done():
			return nil, l.over(ctx)
		case <-l.scope(ctx).Done():
			return nil, ErrClosed
		}
	}
}

// takeWake reports whether a notification has come that was not looked at.
func (w *waiter) takeWake() bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

// promote turns a majority of votes into a hold. It returns errAskAgain if too few nodes accept the token or too little
// of the TTL is left, and another error if the wait is over.
func (w *waiter) promote(ctx context.Context, v *waiting.Votes, asked instant) (*hold, error) {
	l, h := w.locker, w.hold
	t := h.tenure
	// The TTL of a vote in answer to the last request began after that request was sent, and so did the lease of a vote
	// that was handed over after the node had answered. The lease of another vote known by notification may have begun at
	// any time since the waiter drew its owner, at since.
	start, term := t.since, min(l.opts.lease(), t.want.opts.ttl)
	switch v.Basis {
	case waiting.Answered:
		start, term = asked, t.want.opts.ttl
	case waiting.HandedOver:
		start = asked
	case waiting.Notified:
	}
	if h.token > 0 && (!v.Accepted || l.outdated(h.token)) {
		r, err := l.askToRaise(h, max(h.token, v.Highest), l.electorate.All)
		if err != nil {
			return nil, err
		}
		votes, err := r.wait(ctx)
		w.raised(votes)
		won := votes.Verdict() == quorum.Won
		r.abandon()
		if err != nil {
			return nil, l.over(ctx)
		}
		if !won {
			return nil, errAskAgain
		}
	}
	// The maximum hold time (WithMaxHold) counts from here, not from the beginning of the wait.
	now, began := l.opts.clock.now(), t.since
	t.start, t.term, t.since = start, term, now
	if t.left(now) < t.want.opts.leastLeft(term) {
		t.since = began
		return nil, errAskAgain // the next request restarts the TTL on the nodes
	}
	l.tokens.Observe(h.token)
	return h, nil
}

// raised records which nodes accepted the new token.
func (w *waiter) raised(votes quorum.Count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	accepted := votes.Who(quorum.Granted)
	for i := range w.locker.nodes {
		if accepted.Has(i) {
			w.notified.Accept(i, w.hold.token)
		}
	}
}

// The first request of a caller that will wait has the nodes that refuse it put it into their queues at once: so nobody
// who comes later is served before it, and it needs no second request to wait. It costs nothing while the lock is free,
// since the node makes the member of the queue itself, when it refuses.

// expectGrants prepares the first request r: a node that refuses it may hand over the lock a moment later.
func (h *hold) expectGrants(r *round) {
	l := h.locker
	r.queues = true
	l.listeners.hear(l)
	l.listeners.expect(h.owner, h.listener(nil))
}

func (h *hold) listener(notify func(node int, a quorum.Answer, main bool)) listener {
	return listener{key: h.tenure.want.key, shared: h.shared, notify: notify}
}

// waiterOf returns the waiter of a first request r that did not get the lock: none if err ended the request, or if the
// nodes have been told another token since.
func (h *hold) waiterOf(r *round, err error) *waiter {
	w := h.locker.waiterFor(h)
	w.first = r
	w.follow(r)
	if err == nil && r.command == acquireOrQueue {
		return w
	}
	w.withdraw()
	return nil
}

// followStragglers has leaveQueues run when all nodes have answered a first request r that got the lock.
func (h *hold) followStragglers(r *round) { r.about, r.onDone = h, (*round).leaveQueues }

// leaveQueues sees to the queues into which nodes have put a hold that has got the lock without them. If all nodes that
// were asked granted, it is in no queue. Otherwise it leaves the queues at its end, as a hold does that was waited for:
// until then, a node that hands it the lock gives it one more vote. That vote must not be returned: an extension may
// have counted it.
func (r *round) leaveQueues() {
	h := r.about.(*hold)
	l := h.locker
	votes := r.poll.SoFar()
	queued := r.sentTo & (votes.Who(quorum.Taken) | votes.Who(quorum.Failed))
	if queued == 0 {
		l.listeners.forget(h.owner)
		return
	}
	member := h.memberOf(r.args[1])
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ended := h.ended(); {
	case ended == nil || h.isKept():
		h.tenure.member = member
	case errors.Is(ended, errHandedOver): // grants are for the process that adopts it
		l.listeners.handOver(h.owner, h.until())
	case errors.Is(ended, ErrClosed):
	default:
		l.listeners.leave(h.owner)
		l.undoOwner(release, l.opts.prefix+h.name, h.owner, member, max(l.opts.ttl, queueLives), queued)
	}
}

// setMember sets the hold's member of the queues, unless that was done before: the token may have been raised since.
func (h *hold) setMember() {
	if t := h.tenure; t.member == noMember {
		t.member = h.memberOf(t.want.opts.ttlArg)
	}
}

// memberOf returns the hold's member of the nodes' queues, with the TTL in ms.
func (h *hold) memberOf(ttl any) string {
	token := fmt.Sprintf("%016d", h.token)
	if h.shared {
		token = readerToken
	}
	return fmt.Sprintf("%s %s %013d %s", h.owner, token, ttl, h.locker.listeners.channel)
}
