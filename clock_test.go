package redlock

import (
	"testing"
	"time"
)

// testClock is a clock whose three readings the test sets.
type testClock struct {
	clock
	mono, boot, wallAhead time.Duration
	asked                 int // how often the time since boot was read
}

func newTestClock() *testClock {
	t, start := &testClock{boot: time.Hour}, time.Now()
	t.clock = newClock(
		func() time.Time { return start.Add(t.mono) },
		func() time.Duration { t.asked++; return t.boot },
	)
	t.suspension.wall = func(now time.Time) int64 { return now.Add(t.wallAhead).UnixNano() }
	return t
}

func (t *testClock) pass(d time.Duration) { t.mono, t.boot = t.mono+d, t.boot+d }

// suspend lets time pass that the monotonic clock does not count.
func (t *testClock) suspend(d time.Duration) { t.boot, t.wallAhead = t.boot+d, t.wallAhead+d }

func TestTheTimeSinceBootIsReadOnlyNowAndThen(t *testing.T) {
	c := newTestClock()
	for range 1000 {
		c.pass(time.Millisecond)
		if now := c.now(); now.boot != c.boot {
			t.Fatalf("after %s: %s since boot, want %s", c.mono, now.boot, c.boot)
		}
	}
	between(t, c.asked, 9, 11, "readings in a second")
}

// A suspension is noticed at once, since the wall clock has moved; without it, by the next reading of the time since
// boot. A hold seems too young until then, and none ever seems too young that began after the suspension.
func TestASuspensionIsNoticed(t *testing.T) {
	for what, change := range map[string]struct {
		wall    time.Duration // what the suspension of a minute does to the wall clock
		noticed bool
	}{
		"the wall clock goes on":        {time.Minute, true},
		"it is set back a little, too":  {time.Minute - time.Second, true},
		"it is set back by as much":     {0, false},
		"it is set back by a day, too":  {time.Minute - 24*time.Hour, true},
		"it is set ahead by a day, too": {time.Minute + 24*time.Hour, true},
	} {
		c := newTestClock()
		before := c.now()
		c.boot, c.wallAhead = c.boot+time.Minute, c.wallAhead+change.wall
		c.pass(time.Millisecond)
		after := c.now()
		if noticed := after.boot-before.boot == time.Minute+time.Millisecond; noticed != change.noticed {
			t.Errorf("%s: noticed %v, want %v: %s since boot, want %s", what, noticed, change.noticed, after.boot, c.boot)
		}
		c.pass(maxBootAge)
		if now := c.now(); now.boot != c.boot || now.boot-after.boot < maxBootAge {
			t.Errorf("%s: 100 ms later %s since boot, want %s; and %s at the resumption", what, now.boot, c.boot, after.boot)
		}
	}
}

// Suspensions that are too short to be noticed one by one are noticed together.
func TestShortSuspensionsAreNoticed(t *testing.T) {
	c := newTestClock()
	c.now()
	for range 100 {
		c.suspend(maxWallShift / 2)
		c.pass(time.Microsecond)
		if missing := c.boot - c.now().boot; missing > maxWallShift {
			t.Fatalf("%s are missing", missing)
		}
	}
}

// A suspension in the middle of a reading of the clocks is noticed by the next one.
func TestASuspensionWhileTheClocksAreRead(t *testing.T) {
	for step := range 4 {
		c := newTestClock()
		begun := c.now()
		c.pass(time.Second)
		local, boot, steps := c.local, c.clock.boot, 0
		here := func() {
			if steps++; steps == step+1 {
				c.suspend(time.Minute)
			}
		}
		c.local = func() time.Time { here(); return local() }
		c.clock.boot = func() time.Duration { here(); return boot() }
		c.now()
		if age := c.now().boot - begun.boot; step < steps && age != time.Minute+time.Second {
			t.Errorf("before step %d: age %s, want 1m1s", step, age)
		}
	}
}

// The time since boot that is computed never lies ahead, whoever else reads the clocks.
func TestReadingsOfManyGoroutines(t *testing.T) {
	begun := time.Now() // beside other tests, which run in virtual time, no clock counts the time since boot
	c := newClock(time.Now, func() time.Duration { return time.Hour + time.Since(begun) })
	together(8, func(_ int) {
		last := c.now()
		for range 5000 {
			now := c.now()
			if really := c.boot(); now.boot > really || now.boot < last.boot {
				t.Errorf("%s since boot after %s, want at most %s", now.boot, last.boot, really)
				return
			}
			last = now
		}
	})
}

// A machine that was suspended for longer than a TTL gets its first lock at once.
func TestTheFirstLockAfterASuspension(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		epoch, suspended := time.Now(), time.Duration(0)
		c := newClock(time.Now, func() time.Duration { return time.Hour + time.Since(epoch) + suspended })
		c.suspension.wall = func(now time.Time) int64 { return now.Add(suspended).UnixNano() }
		l := fl.locker("a", newOption(func(o *options) { o.clock = c }))
		for range 2 {
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock(), suspended.String())
			suspended = 30 * time.Second
		}
	})
}
