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
	return l.lock(ctx, plan{op: "lock", name: name, waits: true, joins: true}, opts)
}

// TryLock makes one attempt. It returns the hold, or an error as from [Locker.Lock], within the node timeout (see
// [WithNodeTimeout]). If several callers try a free lock at one moment and their votes split, the oldest of them asks
// again, so that one of them gets it. If connections break that can be made anew at once, the attempt waits for that,
// and is made again, within the node timeout. While no majority is connected, a call that follows a failed one is held
// for half of the node timeout before it fails.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.lock(ctx, plan{op: "lock", name: name, joins: true}, opts)
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
func (l *Locker) lock(ctx context.Context, p plan, opts []LockOption) (*Lock, error) {
	var err error
	if p.key, err = l.key(p.name); err != nil {
		return nil, notAcquiredError{&opError{op: p.op, reason: err}}
	}
	if p.waits {
		return l.call(ctx, p, opts, (*Locker).tryOrWait)
	}
	return l.call(ctx, p, opts, (*Locker).try)
}

// try makes one attempt.
func (l *Locker) try(ctx context.Context, p plan) (*hold, error) {
	refused := giveUp
	if p.mode == exclusive {
		refused = winTie
	}
	got := l.attempt(ctx, p, refused)
	return got.hold, got.err
}

// tryOrWait makes one attempt and, if that fails, joins the queue. It joins without an attempt if goroutines of this
// process wait for the name, or did so a moment ago.
func (l *Locker) tryOrWait(ctx context.Context, p plan) (*hold, error) {
	if p.hasValue() {
		p.since = l.tokens.time(l.opts.clock.now()) // if only the value fails, it has no place yet
	}
	var got outcome
	if p.reads() || !l.local.Contended(p.key) {
		refused := giveUp
		if p.opts.fencing && !p.reads() {
			refused = queueUp
		}
		if got = l.attempt(ctx, p, refused); got.hold != nil {
			return got.hold, nil
		}
	}
	return l.wait(ctx, p, got.err, got.queued)
}

// acquisition is how a call acquires what it plans.
type acquisition = func(l *Locker, ctx context.Context, p plan) (*hold, error)

// call does what all calls that acquire have in common: it applies the options, joins the hold that ctx carries if
// there is one, else runs acquire, and returns a handle. If the call may wait, the context that acquire gets ends with
// the longest wait allowed; it is for acquire alone, as everything that outlives the wait belongs to the caller's.
func (l *Locker) call(ctx context.Context, p plan, opts []LockOption, acquire acquisition) (*Lock, error) {
	var err error
	if p.opts, err = l.optionsOf(&p, opts); err != nil {
		return nil, notAcquiredError{failed(p.op, p.name, err)}
	}
	ask := p.opts.asks
	if ask != nil {
		without := *p.opts
		without.asks, p.opts = nil, &without // see asker
	}
	if carried := carriedBy(ctx); carried != nil && p.joins {
		if joined, err := l.join(carried, &p); err != nil {
			return nil, notAcquiredError{err}
		} else if joined != nil {
			return joined, nil
		}
	}
	if l.events != nil {
		p.observed = l.events.observe(ctx, p.op, p.name)
	}
	var h *hold
	if err = l.begin(ctx); err == nil {
		defer l.calls.end() // when the outcome is told, and the schedule has the hold: Close looks at both
		// After begin: so Shutdown waits for this call, or the call knows of Shutdown.
		err = cmp.Or(l.isShut(ctx), l.mayLock())
	}
	if err != nil {
		err = failed(p.op, p.name, err)
	} else {
		h, err = l.run(ctx, p, acquire)
	}
	if err != nil {
		err = l.told(ctx, &p, err)
	}
	p.observed.waited(err)
	if err != nil {
		p.observed.notAcquired(err)
		return nil, notAcquiredError{err}
	}
	return l.handOut(h.firstHandle(ctx, ask)), nil
}

// optionsOf returns the options of a call.
func (l *Locker) optionsOf(p *plan, opts []LockOption) (*options, error) {
	o, err := applyOptions(l.opts, opts)
	switch {
	case err != nil:
	case p.reads() && o.value != l.opts.value:
		err = errReaderValue
	case !p.waits:
		err = onlyOnce(opts)
	}
	return o, err
}

// run runs acquire in a call that is in flight, unless this Locker is refused meanwhile.
func (l *Locker) run(ctx context.Context, p plan, acquire acquisition) (*hold, error) {
	o := p.opts
	l.peers.agreement.UseTTL(o.ttl)
	waiting := ctx
	if p.waits && o.maxWait > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, o.maxWait, errMaxWaitOver)
		defer cancel()
		waiting = bounded
	}
	if !l.peers.enough.Load() {
		if begun := l.awaitMajority(waiting); !p.waits {
			p.began = begun
		}
	}
	h, err := l.acquireUnrevoked(waiting, p, acquire)
	if conflict := l.mayLock(); conflict != nil && err == nil && p.mode != adopted {
		// It was found while the call waited. Each node tells of it before it votes. A node that has not answered yet may
		// put the hold into its queue: so it ends as holds do. Nobody was told of it.
		h.discard()
		return nil, failed(p.op, p.name, conflict)
	}
	return h, err
}

// acquireUnrevoked runs acquire until nobody denies the hold, or once if the call asks once.
func (l *Locker) acquireUnrevoked(ctx context.Context, p plan, acquire acquisition) (*hold, error) {
	var last error
	for attempts := 1; ; attempts++ {
		h, err := acquire(l, ctx, p)
		if err != nil {
			return nil, lastFound(last, err)
		}
		if last = l.denial(ctx, h, &p); last == nil {
			return h, nil
		}
		h.discard()
		if p.waits && l.rest(ctx, p.opts.backoff(attempts)) == nil {
			continue
		}
		return nil, waitEnded(last, l.over(ctx))
	}
}

// denial returns nil unless a new hold was revoked. If nodes have told so, it asks all of them for an extension: the
// hold may rest on what they had said before, and anybody who may publish can tell it in their name.
func (l *Locker) denial(ctx context.Context, h *hold, p *plan) error {
	for told := quorum.Set(0); ; {
		fresh := l.listeners.revokers(h.owner) &^ told
		if fresh == 0 {
			return nil
		}
		told |= fresh
		b := h.tenure.attempt.confirm(ctx)
		var denial error
		if b.votes.Verdict() == quorum.Won {
			h.tenure.grant = h.tenure.grant.extended(b.start)
		} else {
			denial = b.notHeld(ctx, p)
		}
		if b.round.abandon(); denial != nil {
			return denial
		}
	}
}

// handOut returns the first handle of a new hold and schedules its renewal or its end.
func (l *Locker) handOut(k *Lock) *Lock {
	h := k.hold
	h.tenure.observed().acquired(h.owner, h.token, h.tenure.grant.deadline())
	h.begin(k)
	return k
}

// outcome is what an attempt has come to: a hold, or an error.
type outcome struct {
	hold   *hold
	err    error
	queued *waiter // with an error: the nodes have put it into their queues, and the caller goes on with it or undoes it
}

// attempt asks all nodes for the lock: once, unless a token must be raised, a tie broken, or connections broke under
// it. A failed attempt is undone, unless nodes have put it into their queues.
func (l *Locker) attempt(ctx context.Context, p plan, refused onRefusal) outcome {
	began, admitted := l.admit(ctx, &p)
	if !admitted {
		return outcome{err: l.notAsked(p.op, p.name, l.over(ctx))}
	}
	defer l.endTurn(l.turnBegins())
	p.began = began
	for breaks := 0; ; breaks++ {
		// 1. Draw an owner, and read the clock before anything is sent: the nodes count the TTL from a later moment.
		a := l.newAttempt(&p, 0)

		// 2. Ask all nodes at once to set the key to the owner unless it exists, and to accept the token.
		// 3. Wait until it is certain whether a majority grants, and no longer.
		b := a.ask(ctx, refused)

		// 4. The lock is held if a majority granted it and enough of the TTL is left after subtracting the elapsed time and
		// the allowance for clock drift.
		g, won := a.granted(&b), b.is(quorum.Won)
		if won && g.enough(l.opts.clock.now()) {
			return outcome{hold: l.heldBy(a, &b, g, refused)}
		}

		// 5. If not, undo it on every node that may have granted or may still do so. The undo follows the acquire on the
		// same connection, so even a slow node executes them in this order.
		again := b.err == nil && breaks < maxBreaks && b.round.broke(b.votes)
		if refused != queueUp {
			b.round.abandoned.Store(true)
			a.undo(a.asked &^ b.round.refusers(b.votes))
			if b.is(quorum.Lost) && !again {
				b.votes = a.reason(ctx, &b)
			}
		}
		failure := b.notHeld(ctx, &p)
		asked := a.start
		if won {
			asked = b.start
		}
		p.observed.attempt(asked, failure)
		if refused == queueUp {
			return outcome{err: failure, queued: a.inQueues(&b)}
		}
		b.round.Done()
		if begun := a.start; again && l.opts.clock.now().since(begun) < l.opts.nodeTimeout {
			p.began = &begun
			continue
		}
		return outcome{err: failure}
	}
}

// maxBreaks is how often an attempt is made again, under a new owner and within the same node timeout, because
// connections broke under it. The first attempt after a pause may be the one that finds them closed by their nodes. It
// is made a second time because not all need break at one moment.
const maxBreaks = 2

// heldBy returns the hold that an attempt has got.
func (l *Locker) heldBy(a *attempt, b *ballot, g grant, refused onRefusal) *hold {
	l.tokens.Observe(a.token)
	h := newHold(a, g)
	if refused == queueUp && a.member == "" {
		b.round.follower = h
	}
	b.round.Done()
	a.plan.observed.attempt(b.start, nil)
	return h
}

// reason waits after an attempt was lost until it is certain why, and returns the votes then.
func (a *attempt) reason(ctx context.Context, b *ballot) quorum.Count {
	if begun := a.start.local; b.round.Asked.After(begun) { // of a further round, whose time-out is not the call's
		bounded, cancel := context.WithDeadline(ctx, begun.Add(a.plan.opts.nodeTimeout))
		defer cancel()
		ctx = bounded
	}
	return b.round.waitForReason(ctx, b.votes)
}
