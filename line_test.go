package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Who is first in line makes room when its context ends. The next, whose context ends
// in the same moment, must not begin to ask, and then tell that too few nodes answered.
func TestALineThatEndsAtOnceWasTaken(t *testing.T) {
	for _, c := range []struct {
		name    string
		acquire func(l *Locker) func(context.Context, ...Option) (*Lock, error)
	}{
		{"Lock", func(l *Locker) func(context.Context, ...Option) (*Lock, error) {
			return func(ctx context.Context, opts ...Option) (*Lock, error) { return l.Lock(ctx, "job", opts...) }
		}},
		{"Acquire", func(l *Locker) func(context.Context, ...Option) (*Lock, error) { return l.Semaphore("job", 1).Acquire }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range sized(50, 12) {
				bubble(t, 3, func(t *testing.T, fl *fleet) {
					holder := must(c.acquire(fl.locker("holder"))(t.Context()))(t)
					acquire := c.acquire(fl.locker("a"))
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					var all sync.WaitGroup
					for range 20 {
						all.Go(func() {
							if _, err := acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTaken) {
								t.Errorf("got %v, want DeadlineExceeded and ErrTaken", err)
							}
						})
					}
					all.Wait()
					must(0, holder.Unlock(t.Context()))(t)
					settleNetwork()
					if left := fl.leftovers(); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				})
			}
		})
	}
}
