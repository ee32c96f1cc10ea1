package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Who does not wait for the release is ahead of it by a round trip, and the nodes are not: they get what is asked next behind it.
func TestAsyncUnlock(t *testing.T) {
	for what, lock := range map[string]func(context.Context, *Locker) (*Lock, error){
		"Lock": func(ctx context.Context, l *Locker) (*Lock, error) { return l.Lock(ctx, "job", WithMaxAttempts(1)) },
		"LockAll": func(ctx context.Context, l *Locker) (*Lock, error) {
			return l.LockAll(ctx, []string{"a", "b"}, WithMaxAttempts(1))
		},
		"RLock": func(ctx context.Context, l *Locker) (*Lock, error) { return l.RWMutex("job").RLock(ctx) },
		"Lock of a writer": func(ctx context.Context, l *Locker) (*Lock, error) {
			return l.RWMutex("job").Lock(ctx, WithMaxAttempts(1))
		},
		"Acquire": func(ctx context.Context, l *Locker) (*Lock, error) { return l.Semaphore("job", 1).TryAcquire(ctx) },
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 10 * ms, Max: 10 * ms})
			l := fl.locker("a", WithAsyncUnlock())
			for range 10 {
				k := must(lock(t.Context(), l))(t)
				within(t, 0, what+": Unlock", func() {
					if err := k.Unlock(t.Context()); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
				if err := k.Err(); !errors.Is(err, ErrUnlocked) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			settleNetwork()
			if left := fl.leftovers(); len(left) > 0 {
				t.Errorf("%s: left: %v", what, left)
			}
		})
	}
}

func TestAsyncUnlockReachesNodesThatAreAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithAsyncUnlock())
		k := must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for _, n := range fl.nodes[:2] {
			fl.net.Cut(sim.Link{Client: "a", Node: n.Addr()})
		}
		if err := k.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second) // far less than the TTL: they are reached again, and told
		if got := fl.holding("job"); got != 0 {
			t.Errorf("held on %d nodes", got)
		}
		lost := must(l.Lock(t.Context(), "job", WithTTL(time.Second), WithoutRenewal()))(t)
		time.Sleep(2 * time.Second)
		if err := lost.Unlock(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("got %v, want ErrLost: that is known without asking", err)
		}
	})
}

func TestCloseWaitsForAsyncUnlocks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithAsyncUnlock())
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 10 * ms, Max: 10 * ms})
		k := must(l.Lock(t.Context(), "job"))(t)
		_ = k.Unlock(t.Context())
		_ = l.Close()
		if got := fl.holding("job"); got != 0 {
			t.Errorf("held on %d nodes after Close", got)
		}
	})
}

// WithMaxHold bounds the hold, and not the wait for it; and who comes next gets the lock when it has ended.
func TestAMaximumHoldDoesNotCountTheWait(t *testing.T) {
	const most = 2 * time.Second
	wait := map[string]func(context.Context, *Locker, ...Option) (*Lock, error){
		"Lock": func(ctx context.Context, l *Locker, opts ...Option) (*Lock, error) {
			return l.Lock(ctx, "job", opts...)
		},
		"RLock": func(ctx context.Context, l *Locker, opts ...Option) (*Lock, error) {
			return l.RWMutex("job").RLock(ctx, opts...)
		},
		"Acquire": func(ctx context.Context, l *Locker, opts ...Option) (*Lock, error) {
			return l.Semaphore("job", 1).Acquire(ctx, opts...)
		},
		"Once": func(ctx context.Context, l *Locker, opts ...Option) (k *Lock, err error) {
			err = l.Once(ctx, "job", func(ctx context.Context) error {
				k, _ = FromContext(ctx)
				<-k.Done()
				return nil
			}, opts...)
			if errors.Is(err, ErrMaxHold) {
				err = nil
			}
			return k, err
		},
	}
	for name, wait := range wait {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				a, b, c := fl.locker("a"), fl.locker("b"), fl.locker("c")
				first := must(a.Lock(ctx, "job"))(t)
				if name == "Acquire" {
					_ = first.Unlock(ctx)
					first = must(a.Semaphore("job", 1).Acquire(ctx))(t)
				}
				time.AfterFunc(5*time.Second, func() { _ = first.Unlock(context.Background()) })
				began := time.Now()
				k := must(wait(ctx, b, WithMaxHold(most)))(t)
				if held := k.Until().Sub(began); held < 5*time.Second+most/2 || held > 6*time.Second+most {
					t.Errorf("got it until %s after the wait began, want about 7 s: 5 s of waiting, 2 s of holding", held)
				}
				<-k.Done()
				if err := k.Err(); !errors.Is(err, ErrMaxHold) {
					t.Errorf("it ended with %v, want ErrMaxHold", err)
				}
				after := must(c.Lock(ctx, "job"))(t)
				if waited := time.Since(began); waited > 8*time.Second {
					t.Errorf("the next one got it after %s, want 7 s", waited)
				}
				_ = after.Unlock(ctx)
			})
		})
	}
}
