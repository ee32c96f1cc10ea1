package redlock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestReentrance(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		err := l.Do(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			outer, ok := FromContext(ctx)
			if !ok {
				t.Fatal("the context carries no hold")
			}
			before := fl.nodes[0].Calls("evalsha")
			inner := must(l.Lock(ctx, "job"))(t)
			if inner.Token() != outer.Token() || inner.Owner() != outer.Owner() {
				t.Error("the inner lock is another hold")
			}
			succeeds(t, l.Do(ctx, "job", func(context.Context, *Lock) error { return nil }))
			succeeds(t, inner.Unlock())
			succeeds(t, inner.Unlock())
			equals(t, fl.nodes[0].Calls("evalsha")-before, 0, "requests")
			if outer.Err() != nil || fl.holding("job") == 0 {
				t.Error("the inner Unlock ended the outer hold")
			}
			// Another name, and inside it the first name again.
			return l.Do(ctx, "other", func(ctx context.Context, _ *Lock) error {
				k, err := l.TryLock(ctx, "job")
				if err != nil {
					return err
				}
				return k.Unlock()
			})
		})
		succeeds(t, err)
		settleNetwork()
		equals(t, fl.holding("job")+fl.holding("other"), 0, "left on nodes")
	})
}

func TestReentranceLastUnlockReleases(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		outer := must(l.Lock(t.Context(), "job"))(t)
		ctx := newContext(t.Context(), outer)
		inner := must(l.Lock(ctx, "job"))(t)
		succeeds(t, outer.Unlock(), "the outer handle, first")
		succeeds(t, inner.Err(), "the inner handle must still hold")
		third := must(l.TryLock(ctx, "job"))(t)
		succeeds(t, third.Unlock())
		succeeds(t, inner.Unlock())
		fl.settles("job", 0)
		// The context outlives the hold; inside it, a new hold is acquired.
		fresh := must(l.TryLock(ctx, "job"))(t)
		if fresh.Token() <= outer.Token() {
			t.Error("not a new hold")
		}
		succeeds(t, fresh.Unlock())
	})
}

func TestLossOfANestedHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		outer := must(l.Lock(t.Context(), "job", WithTTL(time.Second), WithoutRenewal()))(t)
		ctx := newContext(t.Context(), outer)
		inner := must(l.Lock(ctx, "job"))(t)
		work, cancel := inner.Context(ctx)
		defer cancel()
		<-work.Done()
		if !errors.Is(context.Cause(work), ErrLost) || !errors.Is(inner.Err(), ErrLost) || !errors.Is(outer.Err(), ErrLost) {
			t.Errorf("got %v, %v, %v, want ErrLost", context.Cause(work), inner.Err(), outer.Err())
		}
		fails(t, errOf(l.Lock(ctx, "job")), ErrLost, "inside a lost hold")
		for _, k := range []*Lock{inner, outer} {
			fails(t, k.Unlock(), ErrLost, "Unlock")
		}
	})
}

func TestContextEndsWithTheHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		ended, cancelled, live := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		watch := func(parent context.Context, to chan error) context.CancelFunc {
			ctx, cancel := k.Context(parent)
			context.AfterFunc(ctx, func() { to <- context.Cause(ctx) })
			return cancel
		}
		defer watch(t.Context(), ended)()
		watch(t.Context(), cancelled)()
		cause := errors.New("parent")
		parent, stop := context.WithCancelCause(t.Context())
		defer watch(parent, live)()
		stop(cause)
		fails(t, <-cancelled, context.Canceled, "cancelled")
		fails(t, <-live, cause, "parent ended")
		succeeds(t, k.Unlock())
		fails(t, <-ended, ErrUnlocked, "unlocked")
		after, cancel := k.Context(t.Context())
		defer cancel()
		fails(t, context.Cause(after), ErrUnlocked, "made after the end")
		select {
		case <-k.Done():
		default:
			t.Error("Done is open")
		}
	})
}

// After a pause of the process or a suspension of the machine beyond the end of a hold, the context must show the end
// before any timer has run, so that no more write gets through.
func TestContextReadsTheClock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var slept time.Duration
		l := fl.locker("a")
		l.opts.clock.boot = func() time.Duration { return slept }
		k := must(l.Lock(t.Context(), "job"))(t)
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		slept = time.Minute
		select {
		case <-ctx.Done():
		default:
			t.Error("Done is open")
		}
		if ctx.Err() == nil || child.Err() == nil || !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("got %v, %v, %v, want ErrLost", ctx.Err(), child.Err(), context.Cause(ctx))
		}
	})
}
