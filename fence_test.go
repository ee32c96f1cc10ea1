package redlock

import (
	"errors"
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

// What is asked for after a hold gets no token that is smaller than that hold's, although the nodes have dropped that
// one, and all clocks have been set back since.
func TestTokensThatWereDroppedAreNotUndercut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		k := must(a.Lock(t.Context(), "job"))(t)
		dropped := k.Token()
		must(0, k.Unlock(t.Context()))(t)
		time.Sleep(90 * time.Second)
		for _, n := range fl.nodes {
			if n.Do("ZCARD", tokensName) != int64(0) {
				t.Fatal("the token has not been dropped: this proves nothing")
			}
			n.Step(-time.Hour)
		}
		time.Sleep(2 * probeEvery)
		for range 3 { // each goes on where the others are
			for i, l := range []*Locker{b, fl.locker("c"), a} {
				k := must(l.TryLock(t.Context(), "job"))(t)
				if k.Token() <= dropped {
					t.Errorf("locker %d: token %d after %d", i, k.Token(), dropped)
				}
				dropped = k.Token()
				_ = k.Unlock(t.Context())
				settleNetwork()
			}
		}
		time.Sleep(time.Hour)
		k = must(b.TryLock(t.Context(), "job"))(t) // when the time has caught up
		if k.Token() <= dropped {
			t.Errorf("an hour later: token %d after %d", k.Token(), dropped)
		}
	})
}

// One node's clock is an hour slow all the time, no data is lost, and of two readings the slow one is the median.
func TestTheSlowerOfTwoClocksIsNotTheTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Step(-time.Hour)
		a := fl.locker("a")
		settleNetwork()
		fl.net.Refuse(link0("a", 0)) // which would know the token for an hour, by its own clock
		fl.net.Reset(link0("a", 0))
		k := must(a.Lock(t.Context(), "job"))(t)
		last := k.Token()
		must(0, k.Unlock(t.Context()))(t)
		fl.net.Refuse(link0("b", 2))
		b := fl.locker("b")
		for range 300 { // the token is dropped on the way, and b is not asked to look until it has been
			if k, err := b.TryLock(t.Context(), "job"); err == nil {
				if k.Token() <= last {
					t.Fatalf("token %d after %d", k.Token(), last)
				}
				last = k.Token()
				_ = k.Unlock(t.Context())
			} else if !errors.Is(err, ErrNoQuorum) {
				t.Fatal(err)
			}
			dropped := func() bool { return fl.nodes[1].Do("ZCARD", tokensName) == int64(0) }
			if time.Sleep(time.Second); !dropped() {
				time.Sleep(30 * time.Second)
				for !dropped() {
					time.Sleep(ms)
				}
			}
		}
		fl.net.Accept(link0("b", 2))
		time.Sleep(2 * time.Second)
		k = must(b.TryLock(t.Context(), "job"))(t)
		if k.Token() <= last {
			t.Errorf("all clocks known: token %d after %d", k.Token(), last)
		}
	})
}

// A clock has leapt where it goes forward, more than its reading may be wrong, and the others do not.
func TestLeaps(t *testing.T) {
	const hour, nodes = time.Hour, 3
	start := time.Now()
	// read has a node's clock read, which is ahead by off, with the answer late by trip.
	type read struct {
		node      int
		off, trip time.Duration
	}
	for _, c := range []struct {
		name  string
		reads []read
		want  map[int]time.Duration // in all, by node
	}{
		{"as before", []read{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"one is set forward", []read{{0, hour, 0}, {1, 0, 0}, {2, 0, 0}, {0, hour, 0}}, map[int]time.Duration{0: hour}},
		{"one is set forward, and another one later", []read{{0, hour, 0}, {1, 0, 0}, {0, 0, 0}, {2, 2 * time.Second, 0}, {1, 0, 0}}, map[int]time.Duration{0: hour, 2: 2 * time.Second}},
		{"one is set forward twice", []read{{0, hour, 0}, {1, 0, 0}, {0, 2 * hour, 0}, {1, 0, 0}}, map[int]time.Duration{0: 2 * hour}},
		{"one is set back", []read{{0, -hour, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"one is set back and right again", []read{{0, -hour, 0}, {1, 0, 0}, {2, 0, 0}, {0, 0, 0}, {1, 0, 0}}, map[int]time.Duration{0: hour}},
		{"by less than a second", []read{{0, 900 * ms, 0}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"by less than the reading is good for", []read{{0, 3 * time.Second, 5 * time.Second}, {1, 0, 0}, {2, 0, 0}}, nil},
		{"we were paused", []read{{0, hour, 0}, {1, hour, 0}, {2, hour, 0}, {0, hour, 0}}, nil},
		{"we were paused, the last one first", []read{{2, hour, 0}, {2, hour, 0}, {1, hour, 0}, {0, hour, 0}, {2, hour, 0}}, nil},
		{"nobody to compare with yet", []read{{0, hour, 0}, {0, hour, 0}}, nil},
	} {
		var f fence
		f.init(instant{local: start}, nodes)
		at := start
		got := map[int]time.Duration{}
		look := func(r read) {
			at = at.Add(time.Second)
			asked := instant{local: at}
			at = at.Add(r.trip)
			f.measured(r.node, at.Add(r.off-r.trip/2).UnixMicro(), asked, instant{local: at})
			by, _ := f.leaps()
			for node, d := range by {
				if d > 0 {
					got[node] += d
				}
			}
		}
		for node := range nodes {
			look(read{node: node})
		}
		for _, r := range c.reads {
			look(r)
		}
		for node := range nodes {
			if off := got[node] - c.want[node]; off.Abs() > time.Millisecond {
				t.Errorf("%s: node %d has leapt by %v, want %v", c.name, node, got[node], c.want[node])
			}
		}
	}
}

// With two clocks that disagree there is nobody to ask which is right, and none has leapt.
func TestTwoClocksDoNotLeap(t *testing.T) {
	var f fence
	start := time.Now()
	f.init(instant{local: start}, 2)
	for i, off := range []time.Duration{0, 0, time.Hour, 0, time.Hour} {
		now := instant{local: start.Add(time.Duration(i) * time.Second)}
		f.measured(i%2, now.local.Add(off).UnixMicro(), now, now)
		if by, _ := f.leaps(); by[0] != 0 || by[1] != 0 {
			t.Errorf("reading %d: %v", i, by)
		}
	}
}

// A node whose clock is behind keeps tokens for longer, but not for as long as it is behind.
func TestANodesClockDelaysDropping(t *testing.T) {
	for behind, want := range map[time.Duration]time.Duration{0: time.Minute, 10 * time.Minute: 11 * time.Minute, 24 * time.Hour: time.Hour + time.Minute} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			must(0, must(l.Lock(t.Context(), "job"))(t).Unlock(t.Context()))(t)
			fl.nodes[0].Step(-behind)
			kept := func(node int) bool { return fl.nodes[node].Do("ZCARD", tokensName) == int64(1) }
			time.Sleep(want - time.Second)
			if !kept(0) {
				t.Errorf("%v behind: dropped within %v", behind, want)
			}
			time.Sleep(2 * probeEvery)
			if kept(0) || kept(1) {
				t.Errorf("%v behind: kept after %v", behind, want+2*probeEvery)
			}
		})
	}
}

// A client knew a single clock, which was a day ahead. The tokens that it proposed by that are no measure for others.
func TestAFloorIsNotOneClocksIdeaOfTheTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Step(24 * time.Hour)
		for i := 1; i < 3; i++ {
			fl.net.Refuse(link0("a", i))
		}
		a := fl.locker("a")
		if _, err := a.TryLock(t.Context(), "other"); !errors.Is(err, ErrNoQuorum) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for i := 1; i < 3; i++ {
			fl.net.Accept(link0("a", i))
		}
		time.Sleep(time.Minute)
		k := must(a.TryLock(t.Context(), "job"))(t)
		if ahead := k.Token() - a.fence.time(a.opts.clock.now()); ahead > maxAhead.Microseconds() {
			t.Errorf("the token is %d µs ahead of the time", ahead)
		}
		_ = k.Unlock(t.Context())
		_ = a.Close()
		fl.nodes[0].Crash(false)
		fl.nodes[0].Step(-24 * time.Hour)
		fl.nodes[0].Restart()
		time.Sleep(10 * time.Minute)
		must(0, must(fl.locker("b").TryLock(t.Context(), "job"))(t).Unlock(t.Context()))(t)
	})
}

// What two clocks are apart matters to tokens alone.
func TestTwoClocksMatterToTokensAlone(t *testing.T) {
	for what, down := range map[string]int{"two nodes": -1, "two of three": 2} {
		nodes := 3
		if down < 0 {
			nodes = 2
		}
		bubble(t, nodes, func(t *testing.T, fl *fleet) {
			fl.nodes[0].Step(40 * time.Second)
			if down >= 0 {
				fl.nodes[down].Crash(true)
			}
			if k, err := fl.locker("a", WithoutFencing()).TryLock(t.Context(), "job"); err != nil {
				t.Errorf("%s, without tokens: %v", what, err)
			} else {
				_ = k.Unlock(t.Context())
			}
			if _, err := fl.locker("b").TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("%s, with tokens: got %v, want ErrNoQuorum", what, err)
			}
		})
	}
}
