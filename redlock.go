// Package redlock holds distributed locks on a majority of independent Redis masters.
//
//	locker, err := redlock.New(redlock.ParseNodes(os.Getenv("REDLOCK_NODES"))) // redis://10.0.0.1,redis://10.0.0.2,…
//	…
//	err = locker.Do(ctx, "stock:4711", func(ctx context.Context, lock *redlock.Lock) error {
//		return sell(ctx, lock.Token()) // ctx ends if the lock is lost
//	})
//
// A [Locker] connects to a fixed set of masters, here called nodes, and serves any number of goroutines. A [Lock] is
// one hold, from the grant to its release or loss. The Locker renews it automatically; trust it until [Lock.Done] is
// closed. [Locker.Do] waits for the lock, runs a function with it and unlocks; [Locker.Lock] and [Locker.TryLock]
// return it. [Locker.LockAll] locks several names at once, [Locker.RLock] is for readers, [Locker.Semaphore] for a
// number of holders, and [Locker.Once] for jobs that must run only once. An [Inspector] looks and watches, and takes no
// lock. Package election elects a leader.
//
// A lock cannot stop a holder that was paused and continues after its hold has ended. The resource that the lock
// protects can, if it checks the [fencing token]: see [Lock.Token].
//
// # Times
//
// The nodes keep a lock for 10 s unless it is extended ([WithTTL]), and it is extended every third of that. The
// validity of a hold, the time for which its holder may rely on it, is a little shorter ([WithDrift]). A call waits at
// most 250 ms for a node's answer ([WithNodeTimeout]). A node that has just started may have forgotten what it granted,
// so its vote does not count for the longest TTL that any client may use, 30 s ([WithMaxTTL]).
//
// # Errors
//
// Test errors with errors.Is. [ErrNotAcquired]: the call returns without the lock, and has run nothing; [ErrTaken]:
// because another holder has it; [ErrNoQuorum]: because too few nodes answered to know. [ErrLost]: the hold ended
// before it was unlocked, and work may have run unprotected. [ErrInvalid]: an argument or option is wrong. A
// [*QuorumError] lists what each node said.
//
// # More
//
// Package redlocktest runs masters inside the test process; a test can kill, pause and empty them. The algorithm is
// [Redlock] with a fencing token: [how it works], [what is promised], [all pages].
//
// [fencing token]: https://github.com/quorumlock/redlock/blob/main/docs/fencing.md
// [Redlock]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
// [how it works]: https://github.com/quorumlock/redlock/blob/main/docs/algorithm.md
// [what is promised]: https://github.com/quorumlock/redlock/blob/main/docs/safety.md
// [all pages]: https://github.com/quorumlock/redlock#documentation
package redlock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Lock waits until it gets the lock and returns the hold. ctx bounds only the wait, not the hold. If ctx carries a hold
// of the same name by the same Locker (see [Locker.Do] and [Lock.Context]), Lock joins that hold at once, whatever the
// options.
//
// Waiters get the lock in the order in which they began to wait, across all processes: see [the queue].
//
// The error is usually a [*QuorumError]. It satisfies errors.Is for [ErrTaken] if another holder has the lock, for
// [ErrNoQuorum] if too few nodes answered, and also for ctx.Err() if ctx ended the wait, or for [ErrMaxWait] if
// [WithMaxWait] did. A failed call leaves nothing on the nodes.
//
// [the queue]: https://github.com/quorumlock/redlock/blob/main/docs/algorithm.md
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.lock(ctx, acquisition{op: "lock", name: name, waits: true, joins: true}, opts)
}

// TryLock makes one attempt. It returns the hold, or an error as from [Locker.Lock], within the node timeout (see
// [WithNodeTimeout]). If several callers try a free lock at one moment and their votes split, the oldest of them asks
// again, so that one of them gets it. If connections break that can be made anew at once, the attempt waits for that,
// and is made again, within the node timeout. While no majority is connected, a call that follows a failed one is held
// for half of the node timeout before it fails.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.lock(ctx, acquisition{op: "lock", name: name, joins: true}, opts)
}

// Do waits for the lock as [Locker.Lock] does, runs fn with the hold, and unlocks when fn returns or panics. The
// context given to fn is that of [Lock.Context]: it ends, with the cause, when ctx or the hold ends. fn must then stop,
// because another client may get the lock. [WithMaxWait] bounds the wait alone; to ask once, use TryLock. Do waits for
// fn.
//
// The error satisfies errors.Is for [ErrNotAcquired] if, and only if, fn was not called; it is then that of Lock.
// Otherwise it is that of fn, joined with that of [Lock.Unlock]: [ErrLost] if the hold ended before fn did,
// [ErrNoQuorum] if fn is done and too few nodes have confirmed the release.
func (l *Locker) Do(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	l.work.begin() // before the call is over: the hold may be lost before fn is called
	defer l.work.end()
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

// do runs fn with the hold, and unlocks. Its caller has counted the work.
func (k *Lock) do(ctx context.Context, fn func(context.Context, *Lock) error) (err error) {
	held, cancel := k.Context(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, k.Unlock()) }()
	return calledWith(fn(held, k))
}

// lock acquires one name: it tries, or waits.
func (l *Locker) lock(ctx context.Context, want acquisition, opts []LockOption) (*Lock, error) {
	var err error
	if want.key, err = l.key(want.name); err != nil {
		return nil, notAcquiredError{&opError{op: want.op, reason: err}}
	}
	if want.waits {
		return l.call(ctx, want, opts, (*Locker).tryOrWait)
	}
	return l.call(ctx, want, opts, (*Locker).try)
}

// try makes one attempt.
func (l *Locker) try(ctx context.Context, want acquisition) (*hold, error) {
	want.breaksTies = !want.shared && want.names == nil
	h, _, err := l.attempt(ctx, want)
	return h, err
}

// tryOrWait makes one attempt and, if that fails, joins the queue. It joins without an attempt if goroutines of this
// process wait for the name, or did so a moment ago.
func (l *Locker) tryOrWait(ctx context.Context, want acquisition) (h *hold, err error) {
	var first *waiter
	if want.hasValue() {
		want.waitsSince = l.tokens.time(l.opts.clock.now()) // if only the value fails, it has no place yet
	}
	if want.shared || !l.local.Contended(want.key) {
		want.queues = want.opts.fencing && !want.shared
		if h, first, err = l.attempt(ctx, want); err == nil {
			return h, nil
		}
	}
	return l.wait(ctx, want, err, first)
}

// call does what all calls that acquire have in common: it applies the options, joins the hold that ctx carries if
// there is one, else runs acquire, and returns a handle. If the call may wait, the context that acquire gets ends with
// the longest wait allowed; it is for acquire alone, as everything that outlives the wait belongs to the caller's.
func (l *Locker) call(
	ctx context.Context, want acquisition, opts []LockOption,
	acquire func(*Locker, context.Context, acquisition) (*hold, error),
) (*Lock, error) {
	var err error
	if want.opts, err = l.optionsOf(&want, opts); err != nil {
		return nil, notAcquiredError{failed(want.op, want.name, err)}
	}
	ask := want.opts.asks
	if ask != nil {
		o := *want.opts
		o.asks, want.opts = nil, &o // see asker
	}
	if carried, _ := ctx.Value(heldKey{}).(*held); carried != nil && want.joins {
		if joined, err := l.join(carried, &want); err != nil {
			return nil, notAcquiredError{err}
		} else if joined != nil {
			return joined, nil
		}
	}
	if l.events != nil {
		want.observed = l.events.observe(ctx, want.op, want.name)
	}
	var h *hold
	if err = l.begin(ctx); err == nil {
		defer l.calls.end() // when the outcome is told, and the schedule has the hold: Close looks at both
		// After begin: so Shutdown waits for this call, or the call knows of Shutdown.
		err = cmp.Or(l.isShut(ctx), l.mayLock())
	}
	if err != nil {
		err = failed(want.op, want.name, err)
	} else {
		h, err = l.run(ctx, want, acquire)
	}
	if err != nil {
		err = l.told(ctx, &want, err)
	}
	want.observed.waited(err)
	if err != nil {
		want.observed.notAcquired(err)
		return nil, notAcquiredError{err}
	}
	return l.handOut(h.firstHandle(ctx, ask)), nil
}

// optionsOf returns the options of a call.
func (l *Locker) optionsOf(want *acquisition, opts []LockOption) (*options, error) {
	o, err := applyOptions(l.opts, opts)
	switch {
	case err != nil:
	case want.shared && o.value != l.opts.value:
		err = errReaderValue
	case !want.waits:
		err = onlyOnce(opts)
	}
	return o, err
}

// run runs acquire in a call that is in flight, unless this Locker is refused meanwhile.
func (l *Locker) run(
	ctx context.Context, want acquisition, acquire func(*Locker, context.Context, acquisition) (*hold, error),
) (*hold, error) {
	o := want.opts
	l.peers.agreement.UseTTL(o.ttl)
	waiting := ctx
	if want.waits && o.maxWait > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, o.maxWait, errMaxWaitOver)
		defer cancel()
		waiting = bounded
	}
	if !l.peers.enough.Load() {
		if begun := l.awaitMajority(waiting); !want.waits {
			want.begun = begun
		}
	}
	h, err := l.acquireUnrevoked(waiting, want, acquire)
	if conflict := l.mayLock(); conflict != nil && err == nil && want.from == nil {
		// It was found while the call waited. Each node tells of it before it votes. A node that has not answered yet may
		// put the hold into its queue: so it ends as holds do. Nobody was told of it.
		h.tenure.want.observed = nil
		h.discard(nil)
		return nil, failed(want.op, want.name, conflict)
	}
	return h, err
}

// acquireUnrevoked runs acquire until nobody denies the hold, or once if the call asks once.
func (l *Locker) acquireUnrevoked(
	ctx context.Context, want acquisition, acquire func(*Locker, context.Context, acquisition) (*hold, error),
) (*hold, error) {
	var last error
	for attempts := 1; ; attempts++ {
		h, err := acquire(l, ctx, want)
		if err != nil {
			return nil, lastFound(last, err)
		}
		if last = l.denial(ctx, h, &want); last == nil {
			return h, nil
		}
		h.tenure.want.observed = nil // nobody has been told of it
		h.discard(want.from)
		if want.waits && l.rest(ctx, want.opts.backoff(attempts)) == nil {
			continue
		}
		return nil, waitEnded(last, l.over(ctx))
	}
}

// denial returns nil unless a new hold was revoked. If nodes have told so, it asks all of them for an extension: the
// hold may rest on what they had said before, and anybody who may publish can tell it in their name.
func (l *Locker) denial(ctx context.Context, h *hold, want *acquisition) error {
	for told := quorum.Set(0); ; {
		fresh := l.listeners.revokers(h.owner) &^ told
		if fresh == 0 {
			return nil
		}
		told |= fresh
		r, votes, err := h.confirm(ctx)
		var denial error
		if votes.Verdict() != quorum.Won {
			denial = r.notHeld(ctx, want.op, want.name, votes, err, false)
		}
		if r.abandon(); denial != nil {
			return denial
		}
	}
}

// handOut returns the first handle of a new hold and schedules its renewal or its end.
func (l *Locker) handOut(k *Lock) *Lock {
	h := k.hold
	if observed := h.tenure.want.observed; observed != nil {
		observed.acquired(h.owner, h.token, h.tenure.deadline())
	}
	h.watch(k)
	return k
}

// attempt asks all nodes for the lock: once, unless a token must be raised or a tie broken. A failed attempt is undone,
// unless nodes have put it into their queues: then it returns the waiter, and the caller must go on with that or
// withdraw it.
func (l *Locker) attempt(ctx context.Context, want acquisition) (*hold, *waiter, error) {
	if !want.admitted {
		if want.begun, want.admitted = l.admit(ctx, want.waits, want.begun); !want.admitted {
			return nil, nil, l.notAsked(want.op, want.name, l.over(ctx))
		}
		defer l.endTurn(l.turnBegins())
	}

	// 1. Draw an owner, and read the clock before anything is sent: the nodes count the TTL from a later moment.
	h := l.newHold(&want, 0)

	// 2. Ask all nodes at once to set the key to the owner unless it exists, and to accept the token.
	r := l.askToAcquire(h)
	if want.queues {
		h.expectGrants(r)
	}
	h.tenure.asked = r.send(l.nodes, l.electorate.All, h.tenure.start.local)

	// 3. Wait until it is certain whether a majority grants, and no longer. If callers that do not wait have split the
	// votes, the oldest of them asks again. If a majority gave the lock but some of its nodes know larger tokens, propose
	// a larger one.
	votes, err := r.wait(ctx)
	if err == nil && want.breaksTies && votes.Verdict() == quorum.Lost {
		r, votes, err = l.breakTie(ctx, h, r, votes)
	}
	for err == nil && votes.Verdict() == quorum.Short {
		if want.queues {
			h.setMember() // with the token that the nodes have
		}
		r, votes, err = l.raiseToken(ctx, h, r, votes)
	}
	if err == nil && votes.Verdict() == quorum.Won && want.hasValue() {
		if want.queues {
			h.setMember()
		}
		h.tenure.setValue(h, want.opts.value)
		r.Done()
		r, votes, err = h.confirm(ctx)
	}

	if err == nil && votes.Verdict() == quorum.Lost {
		err = r.tokenAhead(votes)
	}

	// 4. The lock is held if a majority granted it and enough of the TTL is left after subtracting the elapsed time and
	// the allowance for clock drift.
	won, o := err == nil && votes.Verdict() == quorum.Won, want.opts
	if won && h.tenure.left(o.clock.now()) >= leastValidity(o.ttl, o.maxHold) {
		l.tokens.Observe(h.token)
		if want.queues && h.tenure.member == noMember {
			h.followStragglers(r)
		}
		r.Done()
		if want.observed != nil {
			want.observed.attempt(h.tenure.start, nil)
		}
		return h, nil, nil
	}

	// 5. If not, undo it on every node that may have granted or may still do so. The undo follows the acquire on the same
	// connection, so even a slow node executes them in this order.
	again := err == nil && want.breaks < maxBreaks && r.broke(votes)
	if !want.queues {
		r.abandoned.Store(true)
		l.undo(h, h.tenure.asked&^r.refusers(votes))
		if err == nil && !again && votes.Verdict() == quorum.Lost {
			within, begun := ctx, h.tenure.start.local
			if r.Asked.After(begun) { // of a further round, whose time-out is not the call's
				bounded, cancel := context.WithDeadline(ctx, begun.Add(want.opts.nodeTimeout))
				defer cancel()
				within = bounded
			}
			votes = r.waitForReason(within, votes)
		}
	}
	failure := r.notHeld(ctx, want.op, want.name, votes, err, won)
	want.observed.attempt(h.tenure.start, failure)
	if want.queues {
		return nil, h.waiterOf(r, err), failure
	}
	r.Done()
	if begun := h.tenure.start; again && o.clock.now().since(begun) < o.nodeTimeout {
		want.begun, want.breaks = &begun, want.breaks+1
		return l.attempt(ctx, want)
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
func (l *Locker) breakTie(
	ctx context.Context, h *hold, r *round, votes quorum.Count,
) (*round, quorum.Count, error) {
	tie := quorum.Tie{Owner: h.owner.String(), Limit: l.opts.nodeTimeout}
	if tie.Beaten(votes) {
		return r, votes, nil // as always where somebody holds the lock: that needs no deadline
	}
	begun := h.tenure.start
	bounded, cancel := context.WithDeadline(ctx, begun.local.Add(l.opts.nodeTimeout))
	defer cancel()
	for asked := begun; votes.Verdict() == quorum.Lost; {
		now := l.opts.clock.now()
		pause, again := tie.Pause(votes, now.since(asked), now.since(begun))
		if again {
			votes, again = l.pauseInTie(bounded, r, &tie, pause)
		}
		if !again {
			return r, votes, ctx.Err()
		}
		r.abandon()
		if asked = l.opts.clock.now(); h.token > 0 {
			h.token = max(h.token+1, l.tokens.propose(asked)) // a node accepts no token twice
		}
		r = l.askFor(acquireAll, h) // of this one name: free, or ours since the round before
		h.tenure.asked |= r.send(l.nodes, l.electorate.All, asked.local)
		var err error
		if votes, err = r.wait(bounded); err != nil {
			return r, votes, ctx.Err() // nil at the node timeout: the missing votes show that
		}
	}
	return r, votes, nil
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
