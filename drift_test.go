package redlock

import (
	"testing"
	"time"
)

func TestDriftValidity(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		d            drift
		ttl, elapsed time.Duration
		want         time.Duration
	}{
		{drift{0.01, 2 * ms}, 10 * time.Second, 0, 9898 * ms},
		{drift{0.01, 2 * ms}, 10 * time.Second, 898 * ms, 9 * time.Second},
		{drift{0.01, 2 * ms}, 100 * ms, 97 * ms, 0},
		{drift{0.01, 2 * ms}, 100 * ms, 200 * ms, -103 * ms},
		{drift{0.1, 2 * ms}, time.Second, 0, 898 * ms},
		{drift{0, 0}, time.Second, 0, time.Second},
	} {
		got := c.d.validity(c.ttl, c.elapsed)
		if got > c.want || got < c.want-2 { // rounding may only shorten the validity
			t.Errorf("%v of %v after %v: got %v, want %v", c.d, c.ttl, c.elapsed, got, c.want)
		}
	}
}

func TestElapsedIsTheLargestDifferenceOfAnyClock(t *testing.T) {
	base := time.Now()
	at := func(mono, boot time.Duration) instant { return instant{local: base.Add(mono), boot: boot} }
	a := at(0, time.Hour)
	equals(t, at(time.Second, time.Hour+time.Second).since(a), time.Second, "all clocks agree")
	equals(t, at(time.Second, time.Hour+10*time.Minute).since(a), 10*time.Minute, "suspended for ten minutes")
	// Without monotonic readings, Sub compares the wall clock.
	wallOnly := instant{local: base.Round(0).Add(30 * time.Second)}
	equals(t, wallOnly.since(instant{local: base.Round(0)}), 30*time.Second, "wall clock set forward")
}
