// Package redlockgocron lets the schedulers of gocron (github.com/go-co-op/gocron/v2) on several machines share their
// work, by locks on a majority of Redis masters: with a [Locker] each run of a job is one machine's, with an [Elector]
// all runs are the leader's.
package redlockgocron

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/redlock"
)

// prefix is what the names of the adapters' locks begin with, so that a job may lock its own name.
const prefix = "gocron:"

// Locker is a gocron.Locker: each run of a job is that of the scheduler which is first. Give it to
// gocron.WithDistributedLocker, and give the job the same name on all machines (gocron.WithName). The lock is "gocron:"
// and that name.
//
// A run that outlives its hold, because too few masters could be reached, is not told, since gocron has no way to; what
// must stop then should take a lock of its own inside the job (redlock.Locker.Do). A run that must succeed once, with
// others trying when it fails, is what redlock.Locker.Once is for, without this: the others would not try.
type Locker struct {
	locker *redlock.Locker
	splay  time.Duration
	opts   []redlock.LockOption
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a gocron.Locker. Schedulers do not wake at the same moment: those that are late by up to splay find
// the job locked even where the run is over. Choose more than the machines' clocks may differ by, and less than the
// shortest pause between two runs of a job; a second is a good choice for jobs of the minute. Negative counts as 0. The
// options are those of redlock.Locker.TryLock.
func NewLocker(l *redlock.Locker, splay time.Duration, opts ...redlock.LockOption) *Locker {
	return &Locker{locker: l, splay: splay, opts: opts}
}

// Lock asks once for the job's lock. Any error tells gocron to leave this run to others; the job's listener
// gocron.AfterLockError gets it. It is as from redlock.Locker.TryLock: usually redlock.ErrTaken, and
// redlock.ErrNoQuorum where too few masters answered, so that perhaps nobody runs the job.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := l.locker.TryLock(ctx, prefix+job, l.opts...)
	if err != nil {
		return nil, err
	}
	return &run{lock: lock, until: time.Now().Add(l.splay)}, nil
}

// run is one run of a job.
type run struct {
	lock  *redlock.Lock
	until time.Time // until when others may be late
}

// Unlock lets go of the job, and returns at once: where others may still be late, it lets go when that time is over.
// Where the Locker is closed or the process ends before, the lock ends with its TTL.
func (r *run) Unlock(context.Context) error {
	if rest := time.Until(r.until); rest > 0 && r.lock.Err() == nil {
		time.AfterFunc(rest, func() { _ = r.lock.Unlock() })
		return nil
	}
	return r.lock.Unlock()
}

// Elector is a gocron.Elector: all jobs are run by the machine that holds one lock, its leader. Give it to
// gocron.WithDistributedElector.
//
// A scheduler that has a job to run asks: the leader is certain by its own clock, without asking the masters; another
// asks them once, and becomes the leader if there is none. A leader that crashed or lost its hold is followed by
// another when the TTL is over and a job is due. Close resigns.
type Elector struct {
	locker *redlock.Locker
	name   string
	opts   []redlock.LockOption

	mu     sync.Mutex    // guards the fields below; held while the masters are asked
	lock   *redlock.Lock // nil: never the leader
	closed bool
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns a gocron.Elector for the leadership of the given name: the lock is "gocron:" and that name. The
// options are those of redlock.Locker.TryLock.
func NewElector(l *redlock.Locker, name string, opts ...redlock.LockOption) *Elector {
	return &Elector{locker: l, name: name, opts: opts}
}

// IsLeader returns nil where this process is the leader, or has just become it; else why not, as from
// redlock.Locker.TryLock: usually redlock.ErrTaken. The hold may end while a job runs; the job is not told (see
// [Elector.Lock]).
func (e *Elector) IsLeader(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("leadership %q: %w", e.name, redlock.ErrClosed)
	}
	if e.lock != nil && e.lock.Err() == nil {
		return nil
	}
	lock, err := e.locker.TryLock(ctx, prefix+e.name, e.opts...)
	if err != nil {
		return err
	}
	e.lock = lock
	return nil
}

// Lock returns the hold that makes this process the leader, or nil where it is not: for its token, and for a context
// that ends with the leadership.
func (e *Elector) Lock() *redlock.Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock == nil || e.lock.Err() != nil {
		return nil
	}
	return e.lock
}

// Close resigns, so that another can become the leader at once, and makes sure that this process does not. Shut the
// scheduler down before. It returns what redlock.Lock.Unlock does, and nil where this process was not the leader.
func (e *Elector) Close(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.lock == nil {
		return nil
	}
	led := e.lock.Err() == nil
	if err := e.lock.Unlock(); led { // else masters may keep the hold beyond its maximum: redlock.WithMaxHold
		return err
	}
	return nil
}
