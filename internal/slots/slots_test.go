package slots_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/slots"
)

type hold struct{ over bool }

func (h *hold) IsGone() bool { return h.over }

// drawn returns, sorted, what f returns when it is called so often that it hardly ever misses one of a few.
func drawn(f func() int) (all []int) {
	for range 64 {
		if i := f(); !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	return all
}

// A client goes back to a slot that it had; else it tries one that it knows nothing about.
func TestGuess(t *testing.T) {
	now := time.Unix(1763700000, 0)
	s := slots.New(3, quorum.OneList(3))
	held := &hold{}
	for _, c := range []struct {
		what string
		do   func()
		want []int
	}{
		{"nothing is known", func() {}, []int{0, 1, 2}},
		{"a caller is at 1", func() { s.AddCallers(1, 1) }, []int{0, 2}},
		{"0 is held", func() { s.AddCallers(1, -1); s.Record(0, held) }, []int{1, 2}},
		{"an attempt for 0 failed, as it had to", func() { s.Record(0, nil) }, []int{1, 2}},
		{"0 was released", func() { held.over = true }, []int{0}},
		{"another client has it since", func() { s.Record(0, nil) }, []int{0, 1, 2}},
		{"0 and 1 are held, and 2 was", func() { s.Record(0, &hold{}); s.Record(1, &hold{}); s.Record(2, held) }, []int{2}},
		{"contended", func() { s.Contend(now.Add(time.Second)) }, []int{slots.None}},
		{"contended no more", func() { now = now.Add(time.Second) }, []int{2}},
		{"all are held", func() { s.Record(2, &hold{}) }, []int{slots.None}},
	} {
		c.do()
		if got := drawn(func() int { return s.Guess(now) }); !slices.Equal(got, c.want) {
			t.Errorf("%s: guesses %v, want %v", c.what, got, c.want)
		}
	}
}

func TestSurvey(t *testing.T) {
	taken := func(seconds, waiters int) slots.Reply {
		return slots.Reply{Taken: true, Left: time.Duration(seconds) * time.Second, Waiters: waiters}
	}
	free := slots.Reply{}
	s := slots.New(4, quorum.OneList(3))
	seen := s.Survey([][]slots.Reply{
		{taken(3, 2), taken(1, 1), free, free},
		{taken(7, 3), taken(9, 0), taken(8, 0), free},
		nil,
	}, nil)
	if seen.Waiters != 3+1 || seen.Soonest != 0 {
		t.Errorf("got %d waiters, and a slot is free in %v; want 4, and now", seen.Waiters, seen.Soonest)
	}
	if got := s.Free(seen); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("got %v, want the slot that no node has, and then the one that one node has", got)
	}
	s.AddCallers(3, 1)
	if got := s.Free(seen); !slices.Equal(got, []int{2}) {
		t.Errorf("with a caller at 3: got %v, want 2 alone", got)
	}
	s = slots.New(2, quorum.OneList(3))
	seen = s.Survey([][]slots.Reply{{taken(3, 0), taken(1, 0)}, {taken(7, 0), taken(9, 0)}, nil}, nil)
	if got := seen.Soonest; got != 7*time.Second {
		t.Errorf("all are taken: one is free in %v, want 7s, when two of three nodes are", got)
	}
	if got := drawn(func() int { return s.Free(s.Survey([][]slots.Reply{{free, free}}, nil))[0] }); len(got) != 2 {
		t.Errorf("of two that are as good got %v first, want either", got)
	}
}

// A waiter moves when another slot has changed hands time and again since it joined, and its own has not.
func TestStuckSlots(t *testing.T) {
	for name, c := range map[string]struct {
		later  [][]int64 // tokens by survey, after the one with which it joined
		stuck  bool
		moveTo int // where it would move
	}{
		"nothing changes":                {[][]int64{{5, 5, 5}, {5, 5, 5}, {5, 5, 5}}, false, 0},
		"another changes twice":          {[][]int64{{5, 6, 5}, {5, 7, 5}, {5, 7, 5}}, false, 0},
		"another changes three times":    {[][]int64{{5, 6, 5}, {5, 7, 5}, {5, 8, 5}}, true, 1},
		"its own changes, too":           {[][]int64{{5, 6, 5}, {6, 7, 5}, {6, 8, 5}}, false, 1},
		"a node that knew most is away":  {[][]int64{{5, 6, 5}, {5, 4, 5}, {5, 6, 5}, {5, 4, 5}, {5, 6, 5}}, false, 0},
		"many changes between two alone": {[][]int64{{5, 9, 5}, {5, 9, 5}, {5, 9, 5}}, false, 0},
		"it moves to one that does, too": {[][]int64{{5, 5, 6}, {5, 5, 7}, {5, 5, 8}, {5, 6, 8}}, true, 2},
	} {
		s := slots.New(3, quorum.OneList(1))
		tokens := func(of []int64, before *slots.Survey) *slots.Survey {
			var replies []slots.Reply
			for _, token := range of {
				replies = append(replies, slots.Reply{Token: token})
			}
			return s.Survey([][]slots.Reply{replies}, before)
		}
		joined := tokens([]int64{5, 5, 5}, nil)
		seen := joined
		for _, later := range c.later {
			seen = tokens(later, seen)
		}
		cases.Equals(t, seen.Stuck(0, joined), c.stuck, "%s: stuck", name)
		if got := drawn(func() int { return s.ShortestQueue(seen, 0) }); c.moveTo > 0 && !slices.Equal(got, []int{c.moveTo}) {
			t.Errorf("%s: moves to %d, want %d", name, got, c.moveTo)
		}
	}
}

func TestShortestQueue(t *testing.T) {
	s := slots.New(3, quorum.OneList(1))
	waiters := func(n ...int) *slots.Survey {
		var replies []slots.Reply
		for i, n := range n {
			replies = append(replies, slots.Reply{Taken: true, Waiters: n, Left: time.Duration(i) * time.Second})
		}
		return s.Survey([][]slots.Reply{replies}, nil)
	}
	s.AddCallers(0, 2)
	s.AddCallers(1, 1)
	for _, c := range []struct {
		what         string
		seen         *slots.Survey
		except, want int
	}{
		{"no survey: our callers count", nil, slots.None, 2},
		{"no survey, and it leaves 2", nil, 2, 1},
		{"the fewest waiters", waiters(4, 3, 5), slots.None, 1},
		{"ours, which no node has yet, count as well", waiters(0, 3, 2), 2, 0},
		{"equal: the one that expires first", waiters(3, 3, 3), 0, 1},
	} {
		if got := drawn(func() int { return s.ShortestQueue(c.seen, c.except) }); !slices.Equal(got, []int{c.want}) {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
	cases.Equals(t, slots.New(1, quorum.OneList(1)).ShortestQueue(nil, 0), 0, "the only one")
}
