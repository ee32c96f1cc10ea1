package redisconn

import (
	"context"
	"errors"
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

// every is a setup that checks in this interval.
func (k *checks) every(d time.Duration) setup {
	return func(_ *fake, config *Config) { config.Check, config.CheckEvery = k.check, d }
}

// wants checks how many checks have begun, and how many run.
func (k *checks) wants(t *testing.T, begun, running int32) {
	t.Helper()
	synctest.Wait()
	if k.begun.Load() != begun || k.running.Load() != running {
		t.Errorf("%d checks have begun, %d run, want %d, %d", k.begun.Load(), k.running.Load(), begun, running)
	}
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
		k.wants(t, last+1, 1)
		c.CheckSoon() // twice while one runs
		c.CheckSoon()
		time.Sleep(time.Minute)
		k.wants(t, last+1, 1)
		hold <- struct{}{}
		k.wants(t, last+2, 1) // one after it
		hold <- struct{}{}
		k.wants(t, last+2, 0)
	})
}

// A check may end its connection. It ends with its connection, and the next connection has its own.
func TestACheckAndItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := errors.New("another one answers")
		k := &checks{do: func(context.Context) error { return changed }}
		f, c := connect(t, k.every(time.Hour))
		c.CheckSoon()
		c.is(down, changed, "not connected: another one answers")

		k.do = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c.CheckSoon() // there is no connection: as soon as there is one
		time.Sleep(time.Second)
		c.is(up, nil)
		k.wants(t, 2, 1)
		f.wantsAttempts(t, 2)
		f.cut()
		time.Sleep(time.Second)
		c.is(up, nil)
		k.wants(t, 2, 0)
		f.wantsAttempts(t, 3)

		c.CheckSoon()
		synctest.Wait()
		c.Close()
		k.wants(t, 3, 0)
		c.CheckSoon()
		time.Sleep(2 * time.Hour)
		k.wants(t, 3, 0)
	})
}
