package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// at is an instant so many milliseconds into virtual time.
func at(ms int) time.Time { return bubbleEpoch.Add(time.Duration(ms) * time.Millisecond) }

func TestCheck(t *testing.T) {
	type holds = []Hold
	hold := func(token int64, start, granted, until, ended int) Hold {
		h := Hold{Name: "n", Client: "c", Token: token, Start: at(start), Granted: at(granted), Until: at(until)}
		if ended > 0 {
			h.Ended, h.How = at(ended), Released
		}
		return h
	}
	revoked := func(h Hold, ms int) Hold { h.Revoked = at(ms); return h }
	working := func(h Hold, ms int) Hold { h.Works = at(ms); return h }
	emptied := func(ms int) Assume { return Assume{Emptied: []time.Time{at(ms)}} }
	sound, unsound := Assume{Clocks: true}, Assume{}
	cases := []struct {
		name   string
		holds  holds
		assume Assume
		want   string // the invariants broken, in order
	}{
		{"one after the other", holds{hold(1, 0, 1, 10, 5), hold(2, 4, 6, 16, 0)}, sound, ""},
		{"granted at the instant of release", holds{hold(1, 0, 1, 10, 5), hold(2, 4, 5, 16, 0)}, sound, ""},
		{"granted at the instant of expiry", holds{hold(1, 0, 1, 10, 0), hold(2, 4, 10, 16, 0)}, sound, ""},
		{"overlap", holds{hold(1, 0, 1, 10, 0), hold(2, 4, 6, 16, 0)}, sound, "exclusion"},
		{"overlap with broken clocks", holds{hold(1, 0, 1, 10, 0), hold(2, 4, 6, 16, 0)}, unsound, ""},
		{
			"overlap with work that went on after its hold",
			holds{working(hold(1, 0, 1, 10, 5), 7), hold(2, 4, 6, 16, 0)},
			sound, "exclusion",
		},
		{
			"granted at the instant at which that work stopped",
			holds{working(hold(1, 0, 1, 10, 5), 6), hold(2, 4, 6, 16, 0)},
			sound, "",
		},
		{
			"overlap with such work, whose lock was taken away",
			holds{revoked(working(hold(1, 0, 1, 10, 5), 7), 6), hold(2, 4, 6, 16, 0)},
			sound, "",
		},
		{
			"overlap with one before last",
			holds{hold(1, 0, 1, 30, 0), hold(2, 2, 3, 4, 0), hold(3, 5, 6, 16, 0)},
			sound, "exclusion exclusion",
		},
		{"same token", holds{hold(1, 0, 1, 10, 0), hold(1, 0, 11, 16, 0)}, unsound, "uniqueness"},
		{"same token, ordered", holds{hold(1, 0, 1, 10, 0), hold(1, 10, 11, 16, 0)}, unsound, "uniqueness order"},
		{"smaller token", holds{hold(2, 0, 1, 10, 0), hold(1, 2, 11, 16, 0)}, unsound, "order"},
		{
			"smaller token, asked for before the other was granted",
			holds{hold(2, 0, 5, 10, 0), hold(1, 4, 11, 16, 0)},
			unsound, "",
		},
		{"the same with good clocks", holds{hold(2, 0, 5, 10, 0), hold(1, 4, 11, 16, 0)}, sound, "order"},
		{
			"the same, taken away before it was granted",
			holds{hold(2, 0, 5, 10, 0), revoked(hold(1, 4, 11, 16, 0), 11)},
			sound, "",
		},
		{"the same, taken away later", holds{hold(2, 0, 5, 10, 0), revoked(hold(1, 4, 11, 16, 0), 12)}, sound, "order"},
		{
			"smaller than one before last",
			holds{hold(5, 0, 1, 2, 0), hold(7, 2, 3, 4, 0), hold(6, 5, 6, 7, 0)},
			unsound, "order",
		},
		{"smaller token, a node emptied in between", holds{hold(2, 0, 1, 10, 0), hold(1, 4, 6, 16, 0)}, emptied(3), ""},
		{"a node emptied before both", holds{hold(2, 2, 3, 10, 0), hold(1, 4, 6, 16, 0)}, emptied(1), "order"},
		{"a node emptied after both", holds{hold(2, 2, 3, 10, 0), hold(1, 4, 6, 16, 0)}, emptied(7), "order"},
		{"a node emptied, far apart", holds{hold(2, 0, 1, 10, 0), hold(1, 16000, 16001, 16010, 0)}, emptied(3), "order"},
		{"one of two excused", holds{hold(5, 0, 1, 2, 0), hold(4, 4, 5, 6, 0), hold(3, 7, 8, 9, 0)}, emptied(3), "order"},
		{
			"same token, a node emptied in between",
			holds{hold(1, 0, 1, 10, 0), hold(1, 4, 6, 16, 0)},
			emptied(3), "uniqueness",
		},
		{"no tokens", holds{hold(0, 0, 1, 2, 0), hold(0, 2, 3, 4, 0)}, sound, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var holds []*Hold
			for i := range tc.holds {
				holds = append(holds, &tc.holds[i])
			}
			h := HistoryOf(holds)
			var got []string
			for _, v := range h.Check(tc.assume) {
				got = append(got, v.Invariant)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q: %v", s, tc.want, h.Check(tc.assume))
			}
		})
	}
}

func TestHonesty(t *testing.T) {
	cases := []struct {
		name string
		run  func(h *History, x *Hold)
		bad  bool
	}{
		{"told in time", func(h *History, x *Hold) { time.Sleep(10 * time.Second); h.Done(x) }, false},
		{"told late", func(h *History, x *Hold) { time.Sleep(10*time.Second + 1); h.Done(x) }, true},
		{"extended", func(h *History, x *Hold) {
			h.Extended(x, time.Now().Add(time.Minute))
			time.Sleep(time.Minute)
			h.Done(x)
		}, false},
		{"extended after loss", func(h *History, x *Hold) { h.Done(x); h.Extended(x, time.Now().Add(time.Minute)) }, true},
		{"extended into the past", func(h *History, x *Hold) { h.Extended(x, time.Now()) }, true},
		{"unlocked in time", func(h *History, x *Hold) { h.Releasing(x); h.Unlocked(x, time.Now(), nil) }, false},
		{"unlocked too late", func(h *History, x *Hold) {
			time.Sleep(10 * time.Second)
			h.Unlocked(x, time.Now(), nil)
		}, true},
		{"unlock said lost", func(h *History, x *Hold) {
			time.Sleep(time.Minute)
			h.Unlocked(x, time.Now(), errors.New("lost"))
		}, false},
	}
	for _, tc := range cases {
		synctest.Test(t, func(t *testing.T) {
			h := &History{}
			x := h.Granted("n", "c", 1, time.Now(), time.Now().Add(10*time.Second))
			tc.run(h, x)
			if got := h.Check(Assume{}); (len(got) > 0) != tc.bad {
				t.Errorf("%s: got %v, want a violation: %v", tc.name, got, tc.bad)
			}
		})
	}
}

// TestCheckAgainstPairs compares the sweeps with the definition, which looks at all pairs.
func TestCheckAgainstPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	broken := 0
	for range 2000 {
		h := &History{}
		for i := range 1 + r.IntN(6) {
			start := r.IntN(30)
			granted := start + r.IntN(4)
			x := &Hold{
				Name: "n", Token: int64(1 + r.IntN(12)), Start: at(start), Granted: at(granted),
				Until: at(granted + 1 + r.IntN(8)), id: i,
			}
			h.holds = append(h.holds, x)
		}
		want := false
		for _, a := range h.holds {
			for _, b := range h.holds {
				if a == b {
					continue
				}
				want = want || a.Token == b.Token || a.Granted.Before(b.over()) && b.Granted.Before(a.over()) ||
					!a.Granted.After(b.Start) && a.Token >= b.Token && a.Granted.Before(b.Granted) ||
					!a.over().After(b.Granted) && a.Token >= b.Token
			}
		}
		got := h.Check(Assume{Clocks: true})
		if (len(got) > 0) != want {
			t.Fatalf("got %v, want a violation: %v\n%v", got, want, h.holds)
		}
		if want {
			broken++
		}
	}
	if broken < 100 || broken > 1950 {
		t.Errorf("%d of 2000 histories were broken: no test", broken)
	}
}
