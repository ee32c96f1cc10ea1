package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
)

// Once runs fn under the lock of the name, unless a run has succeeded already. It is for a job that several machines
// start, or that is started repeatedly, and that should be done once. At most one run is in progress at a time. After a
// run has succeeded, no client begins another for the done TTL ([WithDoneTTL], 2 h by default). After a run has failed,
// another may begin, up to [WithMaxRuns] in all (3 by default). See [the recipe].
//
// While another client's run is in progress, Once waits as [Locker.Lock] does, and then reads that run's outcome. The
// context that fn gets ends with the hold, as in [Locker.Do]. Once returns nil if fn has returned nil and a majority of
// the nodes has recorded it. If, and only if, fn was not called, the error satisfies errors.Is for [ErrNotAcquired]:
//
//   - [ErrAlreadyRun] if a run has succeeded before, and [ErrRunsExhausted] if all runs that are allowed have failed;
//   - an error as from Lock if the lock could not be acquired;
//   - [ErrLost] if the hold ended before the run began, and [ErrNoQuorum] if too few nodes could record its beginning
//     before that, before ctx ended, or for as long as nodes remember the hold's token: the run may count nevertheless.
//
// Otherwise it is
//
//   - the error of fn: the run has failed;
//   - [ErrLost], joined with the error of fn, if the hold ended before the run did, or before any node could record its
//     success: this counts as a failed run;
//   - [ErrNoQuorum] if too few nodes could record the success before the hold ended, or within one TTL after the run:
//     it is unknown whether it counts.
//
// A panic of fn counts as a failed run, and Once panics with it; in the end a crash of the process counts as one, too.
// A run counts from just before fn is called. If the process crashes, before or after fn did its work, the nodes only
// know that the run began. So fn may be called again although it has succeeded, if the process crashes or loses its
// hold just afterwards: a job whose work must not be repeated passes on its token ([Lock.Token]).
//
// The count and the success are kept for the done TTL after the end of the last run, by a majority of the nodes, and by
// the other nodes as soon as they can be reached, if that is before the Locker is closed. They are lost if too many
// nodes lose their data: see [the recipe]. Once needs the fencing token: with [WithoutFencing], and inside a hold of
// the same name, it returns [ErrInvalid].
//
// [the recipe]: https://github.com/quorumlock/redlock/blob/main/docs/recipes.md
func (l *Locker) Once(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...OnceOption,
) error {
	return l.once(ctx, name, true, fn, opts)
}

// TryOnce is Once for a caller that does not wait: while another run is in progress, its error satisfies errors.Is for
// [ErrTaken]. [ErrAlreadyRun] and [ErrRunsExhausted] are as with Once.
func (l *Locker) TryOnce(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...OnceOption,
) error {
	return l.once(ctx, name, false, fn, opts)
}

func (l *Locker) once(
	ctx context.Context, name string, waits bool, fn func(context.Context, *Lock) error, opts []OnceOption,
) (err error) {
	l.work.begin()
	defer l.work.end()
	var token int64 // of the run
	begun := l.opts.clock.now()
	defer func() { l.events.ran(ctx, name, token, begun, err) }()
	j, forLock, err := l.newJob(ctx, "once", name, opts)
	if err == nil && !waits {
		err = onlyOnce(forLock)
	}
	if err != nil {
		return notAcquiredError{failed("once", name, err)}
	}

	// 1. If no run may begin, the lock is not needed. Read the nodes' clocks as well: each write to a register ends at a
	// time by these clocks, which may have been set since the last probe.
	for _, n := range l.nodes {
		n.measureSoon()
	}
	if read, err := j.read(ctx, 0); err == nil {
		if refused := j.refusal(read, false); refused != nil {
			j.repair(read)
			return notAcquiredError{refused}
		}
	}

	// 2. Take the lock, and with it the right to write: earlier holders can no longer write. An error of Unlock does not
	// change the job's outcome: the lock is then free when its TTL is over.
	lock, err := l.lock(ctx, acquisition{op: "lock", name: name, waits: waits}, forLock)
	if err != nil {
		return j.notLocked(ctx, err)
	}
	defer func() { _ = lock.Unlock() }()

	// 3. Read again under the lock. If another run may begin, record its beginning first, so that it counts even if the
	// process crashes.
	if err := j.begin(ctx, lock); err != nil {
		return notAcquiredError{err}
	}

	// 4. Run, and record the success. After fn has returned, the end of ctx does not undo the success. The end of the hold
	// does, until a majority has recorded it: another client may have begun a run.
	token, err = lock.Token(), errPanicked
	if err = j.run(ctx, lock, fn); err != nil {
		return err
	}
	return j.succeed(ctx, lock)
}

// errPanicked is what the observer is told of a run that panics.
var errPanicked = errors.New("redlock: once: the run panicked")

// succeed records the success of the run. It counts as soon as a majority has recorded it, on nodes where this hold had
// the lock at that moment: every later holder reads it, even if the hold's validity is over by now.
func (j *job) succeed(ctx context.Context, lock *Lock) error {
	caller := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(caller, j.opts.ttl)
	defer cancel()
	held, stop := lock.Context(ctx)
	defer stop()
	j.setEntry(lock, runs.Done)
	var may quorum.Set // the nodes that may have recorded the success or may do so later: a later holder may read it
	var last error     // of the last write that was sent
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
			return j.unknownOutcome(caller, last, err)
		}
		if sleep(held, retryAfter(j.opts.ttl)) != nil && ctx.Err() != nil {
			return j.unknownOutcome(caller, last, nil)
		} // if only the hold is over, the next write returns ErrLost
	}
}

// run calls fn, and records the failure if it fails.
func (j *job) run(ctx context.Context, lock *Lock, fn func(context.Context, *Lock) error) (err error) {
	held, cancel := lock.Context(ctx)
	// The run continues until fn returns, even if ctx ends first.
	kept, stop := lock.Context(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { j.keep(kept, lock) })
	succeeded := false
	defer func() {
		cancel()
		stop()
		keeping.Wait()
		if !succeeded {
			// This only lets other clients know at once. If the write is lost, the next holder concludes from Begun that
			// the run has failed: it has the lock, so the run is not in progress.
			state, notBegun := runs.Failed, errors.Is(err, runs.ErrNotBegun)
			if notBegun {
				state = runs.NotBegun
			}
			j.setEntry(lock, state)
			if _, lost := j.write(context.WithoutCancel(ctx), lock, j.opts.doneTTL); notBegun && lost != nil {
				err = errors.Join(err, lost)
			}
		}
	}()
	err = calledWith(fn(held, lock))
	switch ended := j.valid(lock); {
	case err == nil:
		err = ended
	case errors.Is(ended, ErrLost):
		err = errors.Join(err, ended)
	}
	succeeded = err == nil
	return err
}

// keepEvery is the longest interval at which a run's entry is written again: so the entry outlives the run by the done
// TTL, and nodes that are restarted one after the other get it back.
const keepEvery = 30 * time.Second

// keep rewrites the job's entry on the nodes until ctx is done.
func (j *job) keep(ctx context.Context, lock *Lock) {
	every := time.NewTicker(min(j.opts.doneTTL/3, keepEvery))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_, _ = j.write(ctx, lock, j.opts.doneTTL) // a failed write is repeated by the next
		case <-ctx.Done():
			return
		}
	}
}

// Forget makes the nodes forget the runs of a job ([Locker.Once]), so that the next call of Once begins the first run:
// after a job is exhausted and what made it fail is mended, or when one that is done has to be done again. It returns
// what was known of the runs before.
//
// It takes the job's lock for a moment and does not wait for it. So while a run is in progress it returns an error that
// satisfies errors.Is for [ErrTaken], and no run that is in progress can be forgotten. If it returns nil, a majority of
// the nodes has noted that there are no runs. They keep this note for the done TTL, which should therefore be that of
// the job ([WithDoneTTL]), so that no older entry on a node that is out of reach counts again. If too few nodes can
// note it before the hold of the lock is over, or ctx is done, the error satisfies errors.Is for [ErrNoQuorum], and it
// is unknown which counts. As Once, it needs the fencing token: with [WithoutFencing] it returns [ErrInvalid].
func (l *Locker) Forget(ctx context.Context, name string, opts ...OnceOption) (Runs, error) {
	j, forLock, err := l.newJob(ctx, "forget", name, opts)
	if err != nil {
		return Runs{}, notAcquiredError{failed("forget", name, err)}
	}
	lock, err := l.lock(ctx, acquisition{op: j.op, name: name}, forLock)
	if err != nil {
		return Runs{}, j.notLocked(ctx, err)
	}
	defer func() { _ = lock.Unlock() }()
	var r reading
	if err := j.retry(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, lock.Token())
		return err
	}); err != nil {
		return Runs{}, err
	}
	if r.Text == "" && r.Have == l.electorate.All {
		return Runs{}, nil // nor can any node remember one later
	}
	j.setEntry(lock, runs.Forgotten)
	err = j.retry(ctx, lock, func(ctx context.Context) error {
		_, err := j.write(ctx, lock, max(j.opts.doneTTL, r.Left+time.Second))
		return err
	})
	if err != nil {
		return Runs{}, err
	}
	return runsOf(&r.Entry), nil
}
