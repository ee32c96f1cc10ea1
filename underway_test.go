package redlock

import (
	"context"
	"errors"
	"testing"
)

// Closed goes before cancelled, and a call that is refused is not counted.
func TestBegin(t *testing.T) {
	cause := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	l := &Locker{}
	l.underway.idle = make(chan struct{})
	if err := l.begin(cancelled); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Errorf("cancelled: got %v, want Canceled and its cause", err)
	}
	if err := l.begin(t.Context()); err != nil {
		t.Errorf("open: got %v", err)
	}
	l.underway.refuse()
	for what, ctx := range map[string]context.Context{"closed": t.Context(), "closed and cancelled": cancelled} {
		if err := l.begin(ctx); err != ErrClosed { //nolint:errorlint // as it says
			t.Errorf("%s: got %v, want ErrClosed", what, err)
		}
	}
	if isClosed(l.underway.idle) {
		t.Error("idle with a call under way")
	}
	l.underway.end()
	if !isClosed(l.underway.idle) {
		t.Error("not idle when the last call has ended")
	}
}

// Who has heard from one call that the Locker is closed hears it from the next, also while Close is under way.
func TestNobodyBeginsAnewDuringClose(t *testing.T) {
	for range 100 {
		bubble(t, 1, func(t *testing.T, fl *fleet) {
			must(fl.locker("b").Lock(t.Context(), "job"))(t)
			l := fl.locker("a")
			again := make(chan error, 1)
			go func() {
				_, _ = l.Lock(t.Context(), "job")
				_, err := l.TryLock(t.Context(), "free")
				again <- err
			}()
			settleNetwork()
			_ = l.Close()
			if err := <-again; !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
