package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// checks counts the checks of a connection, and how many run. Each does what the test says.
type checks struct {
	begun, running atomic.Int32
	do             func(ctx context.Context) error
}

func (k *checks) check(ctx context.Context) error {
	k.begun.Add(1)
	k.running.Add(1)
	defer k.running.Add(-1)
	return k.do(ctx)
}

// every returns a change of a Config that checks in this interval.
func (k *checks) every(d time.Duration) func(*Config) {
	return func(config *Config) { config.Check, config.CheckEvery = k.check, d }
}

// Checks run now and then, at once if that is asked for, at common moments, and never twice at a time.
func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		k := &checks{do: func(context.Context) error { return nil }}
		_, c := connect(t, k.every(10*time.Second))
		var last int32
		for range 4000 {
			time.Sleep(25 * ms)
			now := time.Now()
			if synctest.Wait(); k.begun.Load() > last && now.UnixNano()%int64(checkGrain) != 0 {
				t.Fatalf("a check at %s", now)
			}
			last = k.begun.Load()
		}
		if last < 100/15 || last > 100/5 {
			t.Errorf("%d checks in 100 s, one in 10 s was wanted", last)
		}

		k.do = func(context.Context) error { <-hold; return nil }
		c.CheckSoon()
		synctest.Wait()
		if got := k.begun.Load(); got != last+1 || k.running.Load() != 1 {
			t.Errorf("asked for one: %d began, %d run", got-last, k.running.Load())
		}
		c.CheckSoon()
		c.CheckSoon()
		time.Sleep(time.Minute)
		if got := k.begun.Load(); got != last+1 {
			t.Errorf("%d began while one runs", got-last-1)
		}
		hold <- struct{}{}
		synctest.Wait()
		if got := k.begun.Load(); got != last+2 {
			t.Errorf("asked for during a check: %d began after it", got-last-1)
		}
		hold <- struct{}{}
		synctest.Wait()
		if got := k.begun.Load(); got != last+2 || k.running.Load() != 0 {
			t.Errorf("asked for twice during a check: %d began after it, %d run", got-last-1, k.running.Load())
		}
	})
}

// A check may end its connection. It ends with its connection, and the next connection has its own.
func TestACheckAndItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &checks{do: func(context.Context) error { return errors.New("another one answers") }}
		f, c := connect(t, k.every(time.Hour))
		c.CheckSoon()
		synctest.Wait()
		if up, err := c.State(); up || err == nil || !strings.Contains(err.Error(), "not connected: another one answers") {
			t.Errorf("after an error: connected %t, %v", up, err)
		}

		k.do = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c.CheckSoon() // there is no connection: as soon as there is one
		time.Sleep(time.Second)
		if up, _ := c.State(); !up || k.begun.Load() != 2 || k.running.Load() != 1 || f.attempts() != 2 {
			t.Errorf("connected %t, %d checks began, %d run, %d attempts",
				up, k.begun.Load(), k.running.Load(), f.attempts())
		}
		f.cut()
		time.Sleep(time.Second)
		if up, _ := c.State(); !up || k.running.Load() != 0 || f.attempts() != 3 {
			t.Errorf("cut: connected %t, %d run, %d attempts", up, k.running.Load(), f.attempts())
		}

		c.CheckSoon()
		synctest.Wait()
		c.Close()
		if k.begun.Load() != 3 || k.running.Load() != 0 {
			t.Errorf("%d began, and %d run after Close", k.begun.Load(), k.running.Load())
		}
		c.CheckSoon()
		time.Sleep(2 * time.Hour)
		if k.begun.Load() != 3 {
			t.Error("a check began after Close")
		}
	})
}
