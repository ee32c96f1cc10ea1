package redlock

import (
	"testing"
	"time"
)

// A beginning is never taken for later than it is, so that no hold is trusted for too long; a suspension that
// no clock but that of the time since boot shows makes it earlier, once.
func TestABeginningIsNeverTooLate(t *testing.T) {
	local, boot, asked, suspended := time.Now(), time.Hour, 0, time.Duration(0)
	c := newClock(func() time.Time { return local }, func() time.Duration { asked++; return boot })
	pass := func(d time.Duration) { local, boot = local.Add(d), boot+d }
	check := func(what string, want time.Duration) {
		t.Helper()
		began, really := c.begin(), boot
		pass(time.Second)
		if age := c.now().since(began); began.boot > really || age != want {
			t.Errorf("%s: one second later it seems %s old, began at %s instead of %s; want %s",
				what, age, began.boot, really, want)
		}
	}
	check("the first one", time.Second)
	asked = 0
	check("the usual one", time.Second)
	if asked != 1 {
		t.Errorf("the boot clock was asked %d times for one beginning and one look, want once", asked)
	}
	boot += time.Minute // suspended: nobody has looked since, and the wall clock does not tell
	check("the first after a suspension that does not show", time.Minute+time.Second)
	check("the next", time.Second)

	c.suspension.wall = func(now time.Time) int64 { return now.UnixNano() + int64(suspended) }
	boot, suspended = boot+time.Minute, suspended+time.Minute
	check("the first after a suspension", time.Second)
	check("the next", time.Second)

	began := c.begin()
	boot += time.Minute // suspended while held
	pass(time.Second)
	if age := c.now().since(began); age != time.Minute+time.Second {
		t.Errorf("suspended while it is held, it seems %s old, want a minute more than a second", age)
	}
}

// Where there is no such clock, the others decide.
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
