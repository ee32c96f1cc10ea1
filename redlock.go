// Package redlock holds distributed locks on a majority of independent Redis
// masters.
//
//	locker, err := redlock.New([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	…
//	lock, err := locker.Lock(ctx, "stock:4711") // waits until held, or ctx is done
//	…
//	defer lock.Unlock(ctx)
//
// A [Locker] connects to a fixed set of masters, here called nodes, and serves any number of goroutines. A [Lock] is
// one hold, from the grant to its release or loss. It is renewed by itself; trust it until [Lock.Done] is closed.
// [Locker.Do] does all of this around a function. Beside a lock of one name there are [Locker.LockAll],
// [Locker.RWMutex], [Locker.Semaphore] and, for jobs that are to run once, [Locker.Once].
//
// A lock cannot stop a holder that was paused and goes on too late. What the lock protects can, if it
// checks the fencing token: see [Lock.Token].
//
// # Times
//
// The nodes keep a lock for 10 s unless it is extended ([WithTTL]), and it is extended every third of that. The
// validity of a hold, which is what its holder may rely on, is a little shorter ([WithDrift]). A node is waited for at
// most 250 ms ([WithNodeTimeout]). One that has just been started may have forgotten what it granted, so its vote does
// not count for 30 s ([WithRestartGuard]).
//
// # Errors
//
// Test errors with errors.Is. [ErrTaken]: others hold the lock. [ErrNoQuorum]: too few nodes answered, so nobody knows.
// [ErrLost]: the hold ended before it was unlocked, and work may have run unprotected. [ErrInvalid]: the call is at
// fault. A [*QuorumError] says what each node said.
//
// # Tests
//
// Package redlocktest runs masters in the test process, to be killed, paused and emptied.
//
// # Algorithm
//
// It is Redlock, as the Redis documentation describes it
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/),
// with a fencing token. Its five steps are numbered in the method attempt, in
// the file redlock.go. Pages under docs, in the repository, say more.
package redlock

import (
	"context"
	"errors"
)

// Lock waits until the lock is held and returns the hold. ctx bounds only the
// wait. Inside a context that carries a hold of the same name by the same
// Locker (see [Locker.Do] and [NewContext]) it joins that hold at once, whatever the
// options.
//
// Waiters are served in the order in which they began to wait, in whatever process (docs/waiting.md).
//
// The error is usually a [*QuorumError], which satisfies errors.Is for [ErrTaken] where
// others hold the lock, for [ErrNoQuorum] where too few nodes answered, and also for
// ctx.Err() where ctx ended the wait. Nothing is left on the nodes then.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.lock(ctx, acquireRequest{op: "lock", name: name, joins: true}, true, opts)
}

// TryLock asks once, and returns within the node timeout (see [WithNodeTimeout]): the
// hold, or an error as from [Locker.Lock].
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.lock(ctx, acquireRequest{op: "lock", name: name, joins: true}, false, opts)
}

// Do waits for the lock as [Locker.Lock] does, runs fn while holding it, and unlocks when fn returns
// or panics. The context given to fn carries the hold (see [FromContext]) and ends, with the cause, when ctx does or
// when the hold ends: fn must then stop, since somebody else may get the lock. Do waits for fn and joins its
// error with that of [Lock.Unlock]. Where the lock is not had, fn is not called and the error is as from Lock.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...Option) (err error) {
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	held, cancel := lock.Context(NewContext(ctx, lock))
	defer cancel()
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	return fn(held)
}

// lock asks once, as if there were no competition, and then waits, if it is to.
func (l *Locker) lock(ctx context.Context, w acquireRequest, wait bool, opts []Option) (*Lock, error) {
	var err error
	if w.key, err = l.key(w.name); err != nil {
		return nil, &opError{op: w.op, reason: err}
	}
	return l.call(ctx, &w, opts, func(o *options) (*hold, error) {
		wait := wait && o.maxAttempts != 1
		var last error
		if !wait || w.shared || !l.local.contended(w.key) {
			var h *hold
			if h, last = l.attempt(ctx, w, o); last == nil || !wait {
				return h, last
			}
		}
		return l.wait(ctx, w, o, last)
	})
}

// call carries out a call for a lock, from its options to its outcome, and hands out the first handle. Inside a context
// that carries a hold of what is wanted it joins that.
func (l *Locker) call(
	ctx context.Context, w *acquireRequest, opts []Option, acquire func(*options) (*hold, error),
) (*Lock, error) {
	o := l.opts
	if len(opts) > 0 {
		var err error
		if o, err = applyOptions(l.opts, true, opts); err != nil {
			return nil, failed(w.op, w.name, err)
		}
	}
	if carried, _ := ctx.Value(heldKey{}).(*held); carried != nil && w.joins {
		if joined, err := l.join(carried, w); joined != nil || err != nil {
			return joined, err
		}
	}
	w.observed = l.events.observe(ctx, w.op, w.name)
	h, err := (*hold)(nil), l.begin(ctx)
	if err == nil {
		defer l.calls.end()
		h, err = acquire(o)
	} else {
		err = failed(w.op, w.name, err)
	}
	if err != nil {
		w.observed.notAcquired(err)
		return nil, err
	}
	return l.handOut(h), nil
}

// handOut returns the first handle.
func (l *Locker) handOut(h *hold) *Lock {
	k := &Lock{hold: h}
	h.observed.acquired(h.owner, h.token, h.end())
	h.watch(k)
	return k
}

// attempt asks the nodes for the lock once.
func (l *Locker) attempt(ctx context.Context, w acquireRequest, o *options) (*hold, error) {
	// 1. Draw an owner, and read the clock before anything is sent: the nodes
	// count the TTL from a later moment.
	h := l.newHold(w, o, 0)

	// 2. Ask all nodes at once to set the key to the owner unless it exists, and
	// to accept the token.
	r := l.askToAcquire(h)
	h.asked = r.send(l.nodes, l.all, l.need, h.start.local)

	// 3. Wait until it is certain whether a majority says yes, and no longer.
	// Where a majority gave the lock but knows larger tokens, propose a larger one.
	votes, err := r.wait(ctx)
	for err == nil && votes.verdict(len(l.nodes), l.need) == verdictShort {
		r, votes, err = l.raiseToken(ctx, h, r, votes)
	}

	// 4. It is held if, with the time that passed and the clocks' drift taken
	// off, enough of the TTL is left to trust.
	won := err == nil && votes.verdict(len(l.nodes), l.need) == verdictWon
	if won && h.left(l.opts.clock.now()) >= o.leastValidity() {
		l.tokens.See(h.token)
		r.Done()
		w.observed.attempt(h.start, nil)
		return h, nil
	}

	// 5. If not, undo it on every node that may have said yes or may yet do so.
	// The undo follows what it undoes on the same connection, so no node is too
	// slow for it.
	failure := r.notHeld(ctx, w.op, w.name, votes, err, won)
	undo := h.asked &^ r.refusers(votes)
	r.abandon()
	l.undo(h, undo)
	w.observed.attempt(h.start, failure)
	return nil, failure
}
