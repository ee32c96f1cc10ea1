package redlock

import (
	"context"
	"time"
)

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
func (l *Locker) Forget(ctx context.Context, name string, opts ...Option) (Runs, error) {
	j, opts, err := l.newJob(ctx, "forget", name, opts)
	if err != nil {
		return Runs{}, failed("forget", name, err)
	}
	lock, err := l.lock(ctx, acquisition{op: j.op, name: name}, opts)
	if err != nil {
		return Runs{}, j.notLocked(ctx, err)
	}
	defer func() { _ = lock.Unlock(ctx) }()
	var r reading
	if err := j.retry(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, lock.Token())
		return err
	}); err != nil {
		return Runs{}, err
	}
	if r.text == "" && r.have == l.electorate.All {
		return Runs{}, nil // nor can any node remember one later
	}
	j.setEntry(lock, runsForgotten)
	err = j.retry(ctx, lock, func(ctx context.Context) error {
		_, err := j.write(ctx, lock, max(j.opts.doneTTL, r.left+time.Second))
		return err
	})
	if err != nil {
		return Runs{}, err
	}
	return r.known(), nil
}
