package redlock

import (
	"context"
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
		equals(t, turns, 20, "turns")
	})
}

// A sync.Locker returns no errors, so errors that a caller must not overlook are panics.
func TestMutexPanics(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fails(t, panicOf(l.Mutex(t.Context(), "job").Unlock), ErrInvalid, "Unlock without Lock")
		fails(t, panicOf(l.Mutex(t.Context(), "").Lock), ErrInvalid, "an empty name")

		ctx := expiring(t, time.Second)
		must(fl.locker("b").Lock(t.Context(), "job"))(t)
		m := l.Mutex(ctx, "job")
		for range 2 { // Lock can be called again after a panic
			fails(t, panicOf(m.Lock), context.DeadlineExceeded, "the context is done")
		}

		lost := l.Mutex(t.Context(), "lost", WithTTL(time.Second), WithoutRenewal())
		lost.Lock()
		time.Sleep(2 * time.Second)
		fails(t, panicOf(lost.Unlock), ErrLost, "the hold was lost")
		lost.Lock() // the lock can be acquired again
		fl.nodes.pause()
		succeeds(t, panicOf(lost.Unlock), "no node answers")
		fl.nodes.resume()
		_ = l.Close()
		fails(t, panicOf(lost.Lock), ErrClosed, "closed")
	})
}
