package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// panicOf returns the error that f panics with, or nil.
func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func TestMutexExcludes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		here, there := fl.locker("a").Mutex(t.Context(), "job"), fl.locker("b").Mutex(t.Context(), "job")
		var wg sync.WaitGroup
		inside, turns := 0, 0
		for i := range 20 {
			m := []sync.Locker{here, there}[i%2]
			wg.Go(func() {
				m.Lock()
				defer m.Unlock()
				if inside++; inside != 1 {
					t.Errorf("%d inside", inside)
				}
				time.Sleep(ms)
				inside--
				turns++
			})
		}
		wg.Wait()
		if turns != 20 {
			t.Errorf("%d turns, want 20", turns)
		}
	})
}

// A sync.Locker returns no errors, so errors that a caller must not overlook are panics.
func TestMutexPanics(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		if err := panicOf(l.Mutex(t.Context(), "job").Unlock); !errors.Is(err, ErrInvalid) {
			t.Errorf("Unlock without Lock: got %v", err)
		}
		if err := panicOf(l.Mutex(t.Context(), "").Lock); !errors.Is(err, ErrInvalid) {
			t.Errorf("an empty name: got %v", err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(fl.locker("b").Lock(t.Context(), "job"))(t)
		m := l.Mutex(ctx, "job")
		for range 2 { // Lock can be called again after a panic
			if err := panicOf(m.Lock); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the context is done: got %v", err)
			}
		}

		lost := l.Mutex(t.Context(), "lost", WithTTL(time.Second), WithoutRenewal())
		lost.Lock()
		time.Sleep(2 * time.Second)
		if err := panicOf(lost.Unlock); !errors.Is(err, ErrLost) {
			t.Errorf("the hold was lost: got %v", err)
		}
		lost.Lock() // the lock can be acquired again
		for _, n := range fl.nodes {
			n.Pause()
		}
		if err := panicOf(lost.Unlock); err != nil {
			t.Errorf("no node answers: got %v, want no panic", err)
		}
		for _, n := range fl.nodes {
			n.Resume()
		}
		_ = l.Close()
		if err := panicOf(lost.Lock); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: got %v", err)
		}
	})
}
