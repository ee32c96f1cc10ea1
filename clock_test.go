package redlock

import (
	"testing"
	"time"
)

// begin never returns a time later than now, so no hold is trusted for too long. After a suspension that only the boot
// clock shows, it returns an earlier time once.
func TestBeginIsNeverTooLate(t *testing.T) {
	local, boot, asked, suspended := time.Now(), time.Hour, 0, time.Duration(0)
	c := newClock(func() time.Time { return local }, func() time.Duration { asked++; return boot })
	pass := func(d time.Duration) { local, boot = local.Add(d), boot+d }
	check := func(what string, want time.Duration) {
		t.Helper()
		began, really := c.begin(), boot
		pass(time.Second)
		if age := c.now().since(began); began.boot > really || age != want {
			t.Errorf("%s: age %s after one second, began at %s instead of %s; want age %s",
				what, age, began.boot, really, want)
		}
	}
	check("first call", time.Second)
	asked = 0
	check("later call", time.Second)
	if asked != 1 {
		t.Errorf("begin and now read the boot clock %d times, want once", asked)
	}
	boot += time.Minute // a suspension that the wall clock does not show
	check("first call after a suspension that the wall clock does not show", time.Minute+time.Second)
	check("next call", time.Second)

	c.suspension.wall = func(now time.Time) int64 { return now.UnixNano() + int64(suspended) }
	boot, suspended = boot+time.Minute, suspended+time.Minute
	check("first call after a suspension", time.Second)
	check("next call", time.Second)

	began := c.begin()
	boot += time.Minute // suspended while held
	pass(time.Second)
	if age := c.now().since(began); age != time.Minute+time.Second {
		t.Errorf("suspended for a minute while held: age %s, want 1m1s", age)
	}
}

// Without a boot clock, the other clocks decide.
func TestNoBootClock(t *testing.T) {
	local := time.Now()
	c := newClock(func() time.Time { return local }, func() time.Duration { return 0 })
	began := c.begin()
	local = local.Add(time.Second)
	if age := c.now().since(began); age != time.Second || began.boot != 0 {
		t.Errorf("got %s after a second, began at %s", age, began.boot)
	}
}

// A machine that was suspended for longer than a TTL gets its first lock at once.
func TestTheFirstLockAfterASuspension(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		epoch, suspended := time.Now(), time.Duration(0)
		c := newClock(time.Now, func() time.Duration { return time.Hour + time.Since(epoch) + suspended })
		c.suspension.wall = func(now time.Time) int64 { return now.Add(suspended).UnixNano() }
		l := fl.locker("a", Option{name: "clock", newOnly: true, apply: func(o *options) { o.clock = c }})
		for range 2 {
			k, err := l.TryLock(t.Context(), "job")
			if err != nil {
				t.Fatalf("after %s: %v", suspended, err)
			}
			if err := k.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			suspended = 30 * time.Second
		}
	})
}
