package waiting_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

// Waits of all kinds end when the longest wait is over, at whatever moment that comes: in the nodes' queues, in the
// process's own, in the middle of an attempt. Nothing is left on the masters, and who waits without a limit gets the
// lock.
func TestMaxWaitLeavesNothing(t *testing.T) {
	f := fleet.Start(t, 5)
	holder := f.Locker(t, redlock.WithTTL(fleet.Long))
	held, err := holder.LockAll(t.Context(), []string{name, "second"})
	fleet.Must(t, err)
	permit, err := holder.Semaphore(name, 1).Acquire(t.Context())
	fleet.Must(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var waiters sync.WaitGroup
	for range 3 {
		l := f.Locker(t, redlock.WithTTL(fleet.Long))
		for _, wait := range []func(...redlock.Option) (*redlock.Lock, error){
			func(o ...redlock.Option) (*redlock.Lock, error) { return l.Lock(ctx, name, o...) },
			func(o ...redlock.Option) (*redlock.Lock, error) { return l.LockAll(ctx, []string{"first", name}, o...) },
			func(o ...redlock.Option) (*redlock.Lock, error) {
				return l.LockAll(ctx, []string{"first", "second"}, o...)
			},
			func(o ...redlock.Option) (*redlock.Lock, error) { return l.RWMutex(name).RLock(ctx, o...) },
			func(o ...redlock.Option) (*redlock.Lock, error) { return l.Semaphore(name, 1).Acquire(ctx, o...) },
		} {
			waiters.Go(func() {
				for range sized(20, 500) {
					limit := time.Duration(1 + rand.Int64N(int64(60*time.Millisecond)))
					k, err := wait(redlock.WithMaxWait(limit))
					var q *redlock.QuorumError
					if k != nil || !errors.Is(err, redlock.ErrMaxWait) || !errors.As(err, &q) || ctx.Err() != nil {
						t.Errorf("got %v, %v, want ErrMaxWait", k, err)
						return
					}
				}
			})
		}
	}
	waiters.Wait()

	last := f.Locker(t, redlock.WithTTL(fleet.Long))
	waiters.Go(func() {
		if k, err := last.Lock(ctx, name); err != nil {
			t.Error(err)
		} else {
			fleet.Must(t, k.Unlock(ctx))
		}
	})
	fleet.Must(t, held.Unlock(ctx))
	fleet.Must(t, permit.Unlock(ctx))
	waiters.Wait()
	f.WantClean(t)
}
