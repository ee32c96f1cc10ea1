package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Waiting. Who finds a lock taken goes to the queue that each node keeps for
// it. A release hands the lock to the one that has waited longest, on each node
// on its own: the key is set to that waiter's owner, and the waiter's Locker is
// told. Owners begin with the time, so all nodes choose the same waiter, as
// far as they know of it. A majority of such votes is a hold like any other.
//
// Messages only save time. Each waiter also asks again now and then: so it
// learns of votes that it was not told of, takes over from a holder that
// crashed, and gets back a place that was lost.
//
// Votes may split between waiters that the nodes learnt of in different orders. Then all
// of these but the oldest give their votes back. So does who has some while another holds
// the lock and an older one waits.

// waiter is one wait for one lock under one owner.
type waiter struct {
	locker *Locker
	hold   *hold // what it becomes; its token is owned by who waits
	first  int64 // the token with which it stands in the queue
	asking int64 // the token of the last question; owned by who waits
	owner  string
	wake   chan struct{} // holds a value when something was told

	mu       sync.Mutex
	notified notifications // guarded by mu
}

// newWaiter begins to wait as of the time since, in µs of the nodes' time.
func (l *Locker) newWaiter(want acquireRequest, o *options, since int64) *waiter {
	h := l.newHold(want, o, since)
	w := &waiter{
		locker: l, hold: h, first: h.token, owner: h.owner.String(), wake: make(chan struct{}, 1),
		notified: newNotifications(len(l.nodes)),
	}
	token := fmt.Sprintf("%016d", h.token)
	if want.shared {
		token = readsMark
	}
	h.place = fmt.Sprintf("%s %s %013d %s", w.owner, token, o.ttl.Milliseconds(), l.listeners.channel)
	l.listeners.add(w.owner, w.notify)
	return w
}

// notify takes what a node said unasked.
func (w *waiter) notify(node int, a answer) {
	w.mu.Lock()
	w.notified.receive(node, a, w.first)
	w.mu.Unlock()
	w.rouse()
}

// votes sums up how the votes stand.
func (w *waiter) votes(r *round) waiterVotes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notified.count(tally(r.votes.Load()), r.answers, w.asking, w.hold.token)
}

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// queue waits until the lock is held. The question with which it begins belongs to the attempt
// that has failed, if there was one.
func (l *Locker) queue(ctx context.Context, want acquireRequest, o *options, last error) (*hold, error) {
	l.listeners.listen(l.ctx, l.returnGrant)
	l.listeners.waiting.Add(1)
	defer l.listeners.waiting.Add(-1)
	for _, i := range l.tokens.Poor() {
		l.nodes[i].measureSoon()
	}
	var w *waiter
	since := cmp.Or(want.waitsSince, l.tokens.time(o.clock.now()))
	var seen patience
	for attempts := 1; ; attempts++ {
		if w == nil {
			w = l.newWaiter(want, o, since)
		}
		r, asked := w.ask()
		if err := w.awaitAnswers(ctx, r); err == nil || last == nil {
			last = r.failure(want.op, want.name, ErrTaken, tally(r.votes.Load()), nil)
		}
		v := w.votes(r)
		if v.given >= l.need {
			want.observed.attempt(asked, nil)
		} else {
			want.observed.attempt(asked, last)
		}
		final := attempts == o.maxAttempts
		var pause time.Duration
		if !final {
			pause = v.pause(o, attempts, seen.partial, l.need)
		}
		seen.asked(&v)
		h, err := w.await(ctx, r, asked, pause)
		if err != nil && !errors.Is(err, errAskAgain) {
			if errors.Is(err, errTokenAhead) { // the lock was ours, and is of no use without a token
				last, err = r.notHeld(ctx, want.op, want.name, tally(r.votes.Load()), err, false), nil
			}
			r.abandon()
			w.hold.withdraw()
			return nil, waitEnded(last, err)
		}
		v = w.votes(r)
		r.abandon()
		if h != nil {
			return h, nil
		}
		if final {
			w.hold.withdraw()
			return nil, last
		}
		switch seen.decide(&v, want.shared, w.owner, l.need) {
		case keepVotes:
			continue
		case beginAnew:
			since = l.tokens.time(o.clock.now())
		case giveBack:
		}
		// The oldest takes over what is given back, unless the node cannot tell it: then it must find the lock free when
		// it asks.
		w.hold.withdraw()
		if seen.gaveBack > 2 {
			if err := l.rest(ctx, o.backoff(attempts)); err != nil {
				return nil, waitEnded(last, err)
			}
		}
		w = nil
	}
}

// returnGrant has a node let go of what it handed to a waiter that has given up.
func (l *Locker) returnGrant(node int, key string, owner uuid.UUID, shared bool) {
	l.undoOwner(key, owner, shared, l.opts.ttl, nodeSet(0).with(node))
}

// rest returns after d, or with the reason to wait no longer.
func (l *Locker) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return l.ended(ctx)
}

// awaitAnswers returns when the outcome of the question is certain, or when the nodes that have answered and those that have
// told us something are a majority: the question's last answer may be a late node's.
func (w *waiter) awaitAnswers(ctx context.Context, r *round) error {
	told := false
	defer func() {
		if told {
			w.rouse() // await wants to know of it
		}
	}()
	for {
		select {
		case <-r.wake:
			return nil
		case <-w.wake:
			if told = true; w.votes(r).given >= w.locker.need {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errAskAgain = errors.New("ask again")

// await returns the hold as soon as there is one, errAskAgain where it is time to do that,
// or why the wait is ended.
func (w *waiter) await(ctx context.Context, r *round, asked instant, pause time.Duration) (*hold, error) {
	l := w.locker
	// Nodes that answer after the outcome wake nobody; look at their answers once.
	look := min(pause, 2*time.Millisecond)
	timer := time.NewTimer(look)
	defer timer.Stop()
	woken := false
	for {
		if v := w.votes(r); v.given >= l.need {
			h, err := w.promote(ctx, v, asked)
			// Votes that are too old, or that a raise did not get, are to be asked for again:
			// at once if that is news, else after the pause, since they may be of nodes
			// that are out of reach.
			if h != nil || !errors.Is(err, errAskAgain) || woken {
				return h, err
			}
		}
		if pause <= 0 {
			return nil, errAskAgain
		}
		select {
		case <-w.wake:
			woken = true
		case <-timer.C:
			pause -= look
			look = pause
			timer.Reset(pause)
		case <-ctx.Done():
			return nil, l.ended(ctx)
		case <-l.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// ask puts the question to all nodes: is it ours, or our turn, and if not, keep our place.
func (w *waiter) ask() (*round, instant) {
	l := w.locker
	w.mu.Lock()
	w.notified.age()
	w.mu.Unlock()
	r := l.askFor(enqueue, w.hold)
	r.waits = true
	w.asking = w.hold.token
	asked := l.opts.clock.now()
	w.hold.asked |= r.send(l.nodes, l.all, l.need, asked.local)
	return r, asked
}

// promote makes a hold of a majority of votes. It returns neither a hold nor an
// error where that was for nothing.
func (w *waiter) promote(ctx context.Context, v waiterVotes, asked instant) (*hold, error) {
	l, h := w.locker, w.hold
	// A vote given in answer to the last question was given, or its TTL begun anew, after that was
	// asked. One that we were told of was given after we began to wait under this owner.
	start := h.since
	if v.fresh >= l.need {
		start = asked
		v.granted = v.sure // what was told may have run out since
	}
	if h.token > 0 && (v.granted < l.need || l.outdated(h.token)) {
		r, err := l.askToRaise(h, max(h.token, v.highest), l.all)
		if err != nil {
			return nil, err
		}
		votes, err := r.wait(ctx)
		w.raised(r, votes)
		r.abandon()
		if err != nil {
			return nil, l.ended(ctx)
		}
		if votes.verdict(len(l.nodes), l.need) != verdictWon {
			return nil, errAskAgain
		}
	}
	// The longest that it may be held counts from here, and not from the beginning of the wait.
	now, began := l.opts.clock.now(), h.since
	h.start, h.since = start, now
	if o := h.opts; h.left(now) < leastValidity(o.ttl, o.minValidity, o.maxHold) {
		h.since = began
		return nil, errAskAgain // which begins the TTL anew
	}
	l.tokens.See(h.token)
	return h, nil
}

// raised notes which nodes accepted the new token.
func (w *waiter) raised(r *round, votes tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range r.answers {
		if votes.voted(i) && r.answers[i].vote == voteGranted {
			w.notified.accept(i, w.hold.token)
		}
	}
}
