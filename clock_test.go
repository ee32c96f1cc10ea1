package redlock

import (
	"testing"
	"time"
)

// A beginning is never taken for later than it is, so that no hold is trusted for too long; a suspension that
// nobody has noticed yet makes it earlier, once.
func TestABeginningIsNeverTooLate(t *testing.T) {
	local, boot, asked := time.Now(), time.Hour, 0
	c := newClock(func() time.Time { return local }, func() time.Duration { asked++; return boot })
	pass := func(d time.Duration) { local, boot = local.Add(d), boot+d }
	check := func(what string, want time.Duration) {
		t.Helper()
		began, really := c.begin(), boot
		pass(time.Second)
		if age := c.now().since(began); began.boot > really || age != want {
			t.Errorf("%s: one second later it seems %s old, began at %s instead of %s; want %s", what, age, began.boot, really, want)
		}
	}
	check("the first one", time.Second)
	asked = 0
	check("the usual one", time.Second)
	if asked != 1 {
		t.Errorf("the boot clock was asked %d times for one beginning and one look, want once", asked)
	}
	boot += time.Minute // suspended: nobody has looked since
	check("the first after a suspension", time.Minute+time.Second)
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
