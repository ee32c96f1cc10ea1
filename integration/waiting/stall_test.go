package waiting_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/tokens"
)

// history is all waits of all contenders.
type history []wait

// holds is the history in the words of the judge of tokens.
func (h history) holds() (all []tokens.Hold) {
	for _, w := range h {
		if !w.granted.IsZero() {
			since := func(t time.Time) time.Duration { return t.Sub(h[0].asked) }
			all = append(all,
				tokens.Hold{Token: w.token, Asked: since(w.asked), Granted: since(w.granted), Ended: since(w.ended)})
		}
	}
	return all
}

// longest returns the longest wait, and the longest stall: a time in which somebody
// waited all along, to be granted the lock in the end, and nobody held it.
func (h history) longest() (longestWait, stall time.Duration) {
	granted := slices.DeleteFunc(slices.Clone(h), func(w wait) bool { return w.granted.IsZero() })
	slices.SortFunc(granted, func(a, b wait) int { return a.granted.Compare(b.granted) })
	for i, w := range granted {
		longestWait = max(longestWait, w.granted.Sub(w.asked))
		idle := w.asked // since when nobody has held the lock and w waited
		for _, other := range granted[:i] {
			if other.ended.Before(w.asked) {
				continue
			}
			stall = max(stall, other.granted.Sub(idle))
			idle = other.ended
		}
		stall = max(stall, w.granted.Sub(idle))
	}
	return longestWait, stall
}

func TestLongestStall(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(100, int64(ms)*1e6) }
	w := func(asked, granted, ended int) wait {
		return wait{asked: at(asked), granted: at(granted), ended: at(ended)}
	}
	never := wait{asked: at(0)}
	for name, c := range map[string]struct {
		history     history
		wait, stall time.Duration
	}{
		"alone":                       {history{w(0, 3, 9)}, 3, 3},
		"one after the other":         {history{w(0, 1, 5), w(2, 7, 8)}, 5, 2},
		"nobody waited":               {history{w(0, 1, 5), w(50, 51, 52)}, 1, 1},
		"the gap before another's":    {history{w(0, 1, 5), w(2, 25, 26), w(3, 28, 30)}, 25, 20},
		"gave up":                     {history{never, w(5, 6, 7)}, 1, 1},
		"began between":               {history{w(0, 1, 5), w(10, 16, 20), w(12, 30, 31)}, 18, 10},
		"in whatever order they came": {history{w(3, 28, 30), w(2, 25, 26), w(0, 1, 5)}, 25, 20},
	} {
		gotWait, gotStall := c.history.longest()
		if gotWait.Milliseconds() != int64(c.wait) || gotStall.Milliseconds() != int64(c.stall) {
			t.Errorf("%s: got %v and %v, want %d and %d ms", name, gotWait, gotStall, c.wait, c.stall)
		}
	}
}
