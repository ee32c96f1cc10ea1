package redlock

import (
	"testing"
	"time"
)

func TestMedianOffset(t *testing.T) {
	off := func(values ...int64) (o []nodeOffset) {
		for _, v := range values {
			o = append(o, nodeOffset{known: v != -1, offset: v})
		}
		return o
	}
	for _, c := range []struct {
		offsets []nodeOffset
		want    int64
	}{
		{off(7), 7},
		{off(1, 9), 1},
		{off(5, 1, 9), 5},
		{off(5, 1e12, 6), 6},
		{off(5, -1e12, 6), 5},
		{off(-1, 4, -1), 4},
		{off(1, 2, 3, 4, 5), 3},
	} {
		if got := medianOffset(c.offsets); got != c.want {
			t.Errorf("%v: got %d, want %d", c.offsets, got, c.want)
		}
	}
}

func TestProposalsGrowWhateverTheClocksDo(t *testing.T) {
	var f fence
	start := time.Now()
	at := func(d time.Duration) instant { return instant{local: start.Add(d)} }
	f.init(at(0), 3)
	last := int64(0)
	propose := func(now instant, why string) {
		got := f.propose(now)
		if got <= last {
			t.Errorf("%s: got %d after %d", why, got, last)
		}
		if got >= 1<<53 || got < 1e15 {
			t.Errorf("%s: %d has not 16 digits", why, got)
		}
		f.see(got)
		last = got
	}
	propose(at(0), "at first")
	propose(at(0), "at the same moment")
	f.measured(0, start.Add(30*time.Second).UnixMicro(), at(0), at(0))
	propose(at(time.Millisecond), "one node's clock is 30 s ahead and the only one known")
	for node := range 3 {
		f.measured(node, start.UnixMicro(), at(0), at(0))
	}
	propose(at(2*time.Millisecond), "set back by 30 s")
	f.see(last + 500_000)
	last += 500_000
	propose(at(3*time.Millisecond), "a larger one was seen")
	f.see(1)
	propose(at(4*time.Millisecond), "an old one was seen")
}

func TestNodesTimeIgnoresTheWallClock(t *testing.T) {
	var f fence
	start := time.Now()
	f.init(instant{local: start, boot: time.Hour}, 3)
	for node, off := range []time.Duration{-2 * time.Second, 0, 40 * time.Minute} {
		f.measured(node, start.Add(off).UnixMicro(), instant{start, time.Hour}, instant{start, time.Hour})
	}
	later := instant{local: start.Round(0).Add(-time.Hour), boot: time.Hour + time.Second}
	if got, want := f.time(later), start.Add(time.Second).UnixMicro(); got != want {
		t.Errorf("wall clock set back by an hour: got %d, want %d", got, want)
	}
	if !f.tooFarAhead(f.time(later)+1_000_001, later) || f.tooFarAhead(f.time(later)+999_999, later) {
		t.Error("the limit is not at one second")
	}
}
