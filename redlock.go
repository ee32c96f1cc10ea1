// Package redlock holds distributed locks on a majority of independent Redis masters.
//
//	locker, err := redlock.New([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	…
//	lock, err := locker.Lock(ctx, "stock:4711") // waits until held, or ctx is done
//	…
//	defer lock.Unlock(ctx)
//
// A [Locker] connects to a fixed set of masters, here called nodes, and serves any number of goroutines. A [Lock] is
// one hold, from the grant to its release or loss. The Locker renews it automatically; trust it until [Lock.Done] is
// closed. [Locker.Do] does all of this around a function. [Locker.LockAll] locks several names at once. There are also
// [Locker.RWMutex], [Locker.Semaphore] and, for jobs that must run only once, [Locker.Once].
//
// A lock cannot stop a holder that was paused and continues after its hold has ended. The resource that the lock
// protects can, if it checks the fencing token: see [Lock.Token].
//
// # Times
//
// The nodes keep a lock for 10 s unless it is extended ([WithTTL]), and it is extended every third of that. The
// validity of a hold, the time for which its holder may rely on it, is a little shorter ([WithDrift]). A call waits at
// most 250 ms for a node's answer ([WithNodeTimeout]). A node that has just started may have forgotten what it granted,
// so its vote does not count for 30 s ([WithRestartGuard]).
//
// # Errors
//
// Test errors with errors.Is. [ErrTaken]: another holder has the lock. [ErrNoQuorum]: too few nodes answered to know
// whether the lock is taken. [ErrLost]: the hold ended before it was unlocked, and work may have run unprotected.
// [ErrInvalid]: an argument or option is wrong. A [*QuorumError] lists what each node said.
//
// # Tests
//
// Package redlocktest runs masters inside the test process; a test can kill, pause and empty them.
//
// # Algorithm
//
// The algorithm is Redlock, as the Redis documentation describes it
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), with a fencing token. The method attempt
// in redlock.go numbers its five steps. The pages under docs in the repository say more.
package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Lock waits until it gets the lock and returns the hold. ctx bounds only the wait, not the hold. If ctx carries a hold
// of the same name by the same Locker (see [Locker.Do] and [NewContext]), Lock joins that hold at once, whatever the
// options.
//
// Waiters get the lock in the order in which they began to wait, across all processes (docs/algorithm.md).
//
// The error is usually a [*QuorumError]. It satisfies errors.Is for [ErrTaken] if another holder has the lock, for
// [ErrNoQuorum] if too few nodes answered, and also for ctx.Err() if ctx ended the wait, or for [ErrMaxWait] if
// [WithMaxWait] did. A failed call leaves nothing on the nodes.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.lock(ctx, acquireRequest{op: "lock", name: name, joins: true}, true, opts)
}

// TryLock makes one attempt. It returns the hold, or an error as from [Locker.Lock], within the node timeout (see
// [WithNodeTimeout]). If several callers try a free lock at one moment and their votes split, the oldest of them asks
// again, so that one of them gets it. If connections break that can be made anew at once, the attempt waits for that,
// and is made again, within the node timeout. While no majority is connected, a call that follows a failed one is held
// for half of the node timeout before it fails.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.lock(ctx, acquireRequest{op: "lock", name: name, joins: true}, false, opts)
}

// Do waits for the lock as [Locker.Lock] does, runs fn while holding it, and unlocks when fn returns or panics. The
// context given to fn carries the hold (see [FromContext]) and ends, with the cause, when ctx or the hold ends: fn must
// then stop, because another client may get the lock. [WithMaxWait] bounds the wait alone. Do waits for fn and joins
// its error with that of [Lock.Unlock]. If Do does not get the lock, it does not call fn and returns an error as from
// Lock.
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

// lock makes one attempt and, if that fails and wait is set, joins the queue. It joins without an attempt if goroutines
// of this process wait for the name, or did so a moment ago.
func (l *Locker) lock(ctx context.Context, w acquireRequest, wait bool, opts []Option) (*Lock, error) {
	var err error
	if w.key, err = l.key(w.name); err != nil {
		return nil, &opError{op: w.op, reason: err}
	}
	return l.call(ctx, &w, wait, opts, func(ctx context.Context, o *options) (*hold, error) {
		wait := wait && o.maxAttempts != 1
		w.breaksTies = !wait && !w.shared
		var last error
		var first *waiter
		if !wait || w.shared || l.local.size.Load() == 0 || !l.local.contended(w.key) {
			w.stands = wait && o.fencing && !w.shared
			var h *hold
			if h, first, last = l.attempt(ctx, w, o); last == nil || !wait {
				return h, last
			}
		}
		return l.wait(ctx, w, o, last, first)
	})
}

// call does what all calls that acquire have in common: it applies the options, joins the hold that ctx carries if
// there is one, else runs acquire, and returns a handle. If the call may wait, the context that acquire gets ends with
// the longest wait allowed; it is for acquire alone, as everything that outlives the wait belongs to the caller's.
func (l *Locker) call(
	ctx context.Context, w *acquireRequest, wait bool, opts []Option,
	acquire func(context.Context, *options) (*hold, error),
) (*Lock, error) {
	o := l.opts
	if len(opts) > 0 {
		var err error
		if o, err = applyOptions(l.opts, true, opts); err == nil && !wait {
			err = onlyOnce(opts)
		}
		if err != nil {
			return nil, failed(w.op, w.name, err)
		}
	}
	if carried, _ := ctx.Value(heldKey{}).(*held); carried != nil && w.joins {
		if joined, err := l.join(carried, w); joined != nil || err != nil {
			return joined, err
		}
	}
	if l.events != nil {
		w.observed = l.events.observe(ctx, w.op, w.name)
	}
	h, err := (*hold)(nil), l.mayLock()
	if err == nil {
		err = l.begin(ctx)
	}
	if err == nil {
		defer l.calls.end()
		if int64(o.ttl) > o.longestTTL.Load() {
			l.tellSettings(o)
		}
		waiting := ctx
		if wait && o.maxWait > 0 {
			bounded, cancel := context.WithTimeoutCause(ctx, o.maxWait, errMaxWaitOver)
			defer cancel()
			waiting = bounded
		}
		if !l.peers.enough.Load() {
			if begun := l.awaitMajority(waiting); !wait || o.maxAttempts == 1 {
				w.begun = begun
			}
		}
		h, err = acquire(waiting, o)
		if conflict := l.mayLock(); conflict != nil && err == nil && w.from == nil {
			// It was found while the call waited. Each node tells of it before it votes. A node that has not answered yet may
			// put the hold into its queue: so it ends as holds do. Nobody was told of it.
			h.observed = nil
			h.discard()
			h, err = nil, failed(w.op, w.name, conflict)
		}
	} else {
		err = failed(w.op, w.name, err)
	}
	if err != nil {
		w.observed.notAcquired(err)
		return nil, err
	}
	return l.handOut(h), nil
}

// handOut returns the first handle of a new hold and schedules its renewal or its end.
func (l *Locker) handOut(h *hold) *Lock {
	k := &Lock{hold: h}
	if h.observed != nil {
		h.observed.acquired(h.owner, h.token, h.end())
	}
	h.watch(k)
	return k
}

// attempt asks all nodes for the lock: once, unless a token must be raised or a tie broken. A failed attempt is undone,
// unless a waiter stands by it: then the caller must go on with that or withdraw it.
func (l *Locker) attempt(ctx context.Context, w acquireRequest, o *options) (*hold, *waiter, error) {
	if !w.admitted {
		begun, admitted := l.admit(ctx, w.begun)
		if !admitted {
			return nil, nil, l.notAsked(w.op, w.name, l.ended(ctx))
		}
		defer l.turns.Release(1)
		w.begun, w.admitted = begun, true
	}

	// 1. Draw an owner, and read the clock before anything is sent: the nodes count the TTL from a later moment.
	h := l.newHold(w, o, 0)

	// 2. Ask all nodes at once to set the key to the owner unless it exists, and to accept the token.
	r := l.askToAcquire(h)
	if w.stands {
		h.enter(r)
	}
	h.asked = r.send(l.nodes, l.electorate.All, h.start.local)

	// 3. Wait until it is certain whether a majority grants, and no longer. If callers that do not wait have split the
	// votes, the oldest of them asks again. If a majority gave the lock but some of its nodes know larger tokens, propose
	// a larger one.
	votes, err := r.wait(ctx)
	if err == nil && w.breaksTies && l.electorate.Verdict(votes) == quorum.Lost {
		r, votes, err = l.breakTie(ctx, h, r, votes)
	}
	for err == nil && l.electorate.Verdict(votes) == quorum.Short {
		if w.stands {
			h.setPlace() // with the token that the nodes have
		}
		r, votes, err = l.raiseToken(ctx, h, r, votes)
	}

	// 4. The lock is held if a majority granted it and enough of the TTL is left after subtracting the elapsed time and
	// the allowance for clock drift.
	won := err == nil && l.electorate.Verdict(votes) == quorum.Won
	if won && h.left(l.opts.clock.now()) >= leastValidity(o.ttl, o.minValidity, o.maxHold) {
		l.tokens.Observe(h.token)
		if w.stands && h.place == nowhere {
			h.entered(r)
		}
		r.Done()
		if w.observed != nil {
			w.observed.attempt(h.start, nil)
		}
		return h, nil, nil
	}

	// 5. If not, undo it on every node that may have granted or may still do so. The undo follows the acquire on the same
	// connection, so even a slow node executes them in this order.
	failure := r.notHeld(ctx, w.op, w.name, votes, err, won)
	w.observed.attempt(h.start, failure)
	if w.stands {
		return nil, h.standBy(r, err), failure
	}
	undo := h.asked &^ r.refusers(votes)
	again := err == nil && w.breaks < maxBreaks && r.broke(votes)
	r.abandon()
	l.undo(h, undo)
	if begun := h.start; again && l.opts.clock.now().since(begun) < l.opts.nodeTimeout {
		w.begun, w.breaks = &begun, w.breaks+1
		return l.attempt(ctx, w, o)
	}
	return nil, nil, failure
}

// maxBreaks is how often an attempt is made again, under a new owner and within the same node timeout, because
// connections broke under it. The first attempt after a pause may be the one that finds them closed by their nodes. It
// is made a second time because not all need break at one moment.
const maxBreaks = 2

// breakTie asks again after a round that was lost, if this caller wins the tie, and returns the round to continue with.
// It takes over the caller's reference to r. All rounds together have one node timeout.
//
// What makes a second question under one owner safe: no undo has been sent, so nothing can overtake one; on each
// connection the question stands behind the first, and the undo, if it comes to that, behind both. Only the votes of
// the last round count, each for its own token, which is as young as the question. The validity counts from the first
// reading of the clock.
func (l *Locker) breakTie(ctx context.Context, h *hold, r *round, votes quorum.Tally) (*round, quorum.Tally, error) {
	owner, asked := h.owner.String(), h.start
	if quorum.WinsTie(votes, r.answers, owner, l.electorate) == quorum.Beaten {
		return r, votes, nil // as always where somebody holds the lock: that needs no deadline
	}
	bounded, cancel := context.WithDeadline(ctx, h.start.local.Add(l.opts.nodeTimeout))
	defer cancel()
	for named, pauses := false, 0; pauses < quorum.TiePauses; {
		role := quorum.WinsTie(votes, r.answers, owner, l.electorate)
		if role == quorum.Oldest {
			pauses++
		} else if role == quorum.Beaten || named {
			return r, votes, nil
		}
		named = true // acquire_all tells the owners
		now := l.opts.clock.now()
		pause, again := quorum.TiePause(role, now.since(asked), now.since(h.start), l.opts.nodeTimeout)
		if again {
			votes, again = l.pauseInTie(bounded, r, owner, pause)
		}
		if !again {
			return r, votes, ctx.Err()
		}
		r.abandon()
		if asked = l.opts.clock.now(); h.token > 0 {
			h.token = max(h.token+1, l.tokens.propose(asked)) // a node accepts no token twice
		}
		r = l.askFor(acquireAll, h) // of this one name: free, or ours since the round before
		h.asked |= r.send(l.nodes, l.electorate.All, asked.local)
		var err error
		if votes, err = r.wait(bounded); err != nil {
			return r, votes, ctx.Err() // nil at the node timeout: the missing votes show that
		}
		if l.electorate.Verdict(votes) != quorum.Lost {
			return r, votes, nil
		}
	}
	return r, votes, nil
}

// pauseInTie pauses between two rounds. It returns the votes of r as they are then, and whether to ask again: not if a
// straggler's answer shows that this caller has lost the tie, or if the time is up.
func (l *Locker) pauseInTie(ctx context.Context, r *round, owner string, pause time.Duration) (quorum.Tally, bool) {
	votes, again := quorum.Tally(r.votes.Load()), true
	look := max(pause/8, time.Millisecond) // no timer is better than a millisecond
	for ; again && pause > 0; pause -= look {
		again = l.rest(ctx, min(pause, look)) == nil
		votes = quorum.Tally(r.votes.Load())
		again = again && quorum.WinsTie(votes, r.answers, owner, l.electorate) != quorum.Beaten
	}
	return votes, again
}
