package redlock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Once runs fn under the lock of the name, unless that has been done: for a job that is started on several machines, or
// again and again, and is to be carried out once. At any time at most one run is under way. When one has succeeded,
// nobody begins another for the done TTL ([WithDoneTTL], 2 h by default). When one has failed, another may begin, at
// most [WithMaxRuns] in all (3 by default). See docs/scheduled-jobs.md.
//
// Once waits as [Locker.Lock] does while somebody else's run is under way, and then finds out what came of it. It
// returns
//
//   - nil if fn has returned nil and a majority of the nodes knows it;
//   - an error that satisfies errors.Is for [ErrDone] where a run has succeeded before, and for [ErrExhausted] where as
//     many have failed as may; fn has not been called then;
//   - an error as from Lock where the lock was not to be had, for example [ErrTaken] with WithMaxAttempts(1) while
//     somebody's run is under way; fn has not been called;
//   - the error of fn, whose run has failed;
//   - an error that satisfies errors.Is for [ErrLost] where the hold ended before the run, whatever fn has returned, or
//     before any node could learn of its success: this counts as a failed run. The context that fn gets ends with the
//     hold, as in [Locker.Do]. Where the hold ended before the run began, fn has not been called, and the run may count
//     nevertheless;
//   - an error that satisfies errors.Is for [ErrNoQuorum], and not for [ErrLost], where too few nodes could be told of
//     the run before the hold ended, or within one TTL after the run; and before that began also where ctx ended first,
//     or within the time for which the nodes remember the hold's token ([WithFenceRetention]). If fn was called, nobody
//     can say whether its success counts, and if not, whether the run does.
//
// A panic of fn counts as a failed run and is passed on; so does, in the end, the crash of the process. A run counts
// from just before fn is called: of a run that crashed before or after fn did its work, the count knows nothing but
// that it began. So fn may have succeeded and be called once more, if the process crashes or loses its hold just after:
// a job whose work must not be repeated passes on its token ([FromContext], [Lock.Token]).
//
// The count and the success are kept for the done TTL after the last run has ended, by a majority of the nodes, and by
// the others as soon as they can be reached, if that is before the Locker is closed. They are lost where too many nodes
// lose their data: see docs/scheduled-jobs.md. Once needs the fencing token, and cannot be called inside a hold of the
// same name: [ErrInvalid].
func (l *Locker) Once(ctx context.Context, name string, fn func(context.Context) error, opts ...Option) error {
	j, opts, err := l.newJob(ctx, name, opts)
	if err != nil {
		return failed("once", name, err)
	}

	// 1. Who comes when all is over need not lock at all. The clocks are read on this occasion, since what is written
	// has its end by them, and between probes they may have been set.
	for _, n := range l.nodes {
		n.measureSoon()
	}
	if read, err := j.read(ctx, 0); err == nil {
		if over := j.over(read, false); over != nil {
			j.repair(read)
			return over
		}
	}

	// 2. Take the lock, and with it the right to write. Whoever had it before can write no more. What became of the job
	// stays true where the unlocking fails: the lock is then free when its TTL is over.
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return j.notBegun(ctx, err)
	}
	defer func() { _ = lock.Unlock(ctx) }()

	// 3. See once more. If it is not over, say that another run begins, so
	// that it counts even if nobody lives to tell how it ended.
	if err := j.begin(ctx, lock); err != nil {
		return err
	}

	// 4. Run, and say that it succeeded. Whatever ends ctx now cannot undo what was done. The
	// end of the hold can, before a majority knows: then somebody else may have begun.
	if err := j.run(ctx, lock, fn); err != nil {
		return err
	}
	return j.succeed(ctx, lock)
}

// succeed makes the success of the run known. It counts from when a majority has it, on nodes that had the lock given
// to us then: every later holder sees it, whatever our clock says by now.
func (j *job) succeed(ctx context.Context, lock *Lock) error {
	caller := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(caller, j.opts.ttl)
	defer cancel()
	held, stop := lock.Context(ctx)
	defer stop()
	j.enter(lock, RunDone)
	var may nodeSet // where it may stand, or may yet arrive, for some later holder to see or not
	var last error  // of a write that was sent
	for {
		some, err := j.write(ctx, lock, j.opts.doneTTL)
		may |= some
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrLost):
			last = err
		case may == 0:
			return err
		default:
			return j.unclear(caller, last, err)
		}
		if sleep(held, j.opts.retryAfter()) != nil && ctx.Err() != nil {
			return j.unclear(caller, last, nil)
		} // where the hold is over, write says so
	}
}

// run calls fn, and says that it failed where it did.
func (j *job) run(ctx context.Context, lock *Lock, fn func(context.Context) error) (err error) {
	held, cancel := lock.Context(NewContext(ctx, lock))
	// A run goes on until fn returns, whatever ends ctx.
	kept, stop := lock.Context(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { j.keep(kept, lock) })
	succeeded := false
	defer func() {
		cancel()
		stop()
		keeping.Wait()
		if !succeeded {
			// Only for others to know at once. If it does not get there, who has the lock next
			// finds that a run was begun and is no longer under way.
			j.enter(lock, RunFailed)
			_, _ = j.write(context.WithoutCancel(ctx), lock, j.opts.doneTTL)
		}
	}()
	err = fn(held)
	switch over := j.valid(lock); {
	case err == nil:
		err = over
	case errors.Is(over, ErrLost):
		err = errors.Join(err, over)
	}
	succeeded = err == nil
	return err
}

// keepEvery is how often at least what was written is written again during a run: so it outlives the run by the done
// TTL, and nodes that are restarted one by one have it again.
const keepEvery = 30 * time.Second

// keep keeps the register as it is until ctx is done.
func (j *job) keep(ctx context.Context, lock *Lock) {
	every := time.NewTicker(min(j.opts.doneTTL/3, keepEvery))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_, _ = j.write(ctx, lock, j.opts.doneTTL) // it was written before, and will be again
		case <-ctx.Done():
			return
		}
	}
}
