package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestRolesInATie(t *testing.T) {
	const older, us, younger, youngest = "0190", "0191", "0192", "0193"
	answers := map[string]Answer{
		"ours": {Vote: Granted}, "outbid": {Vote: Outbid}, "old": {Vote: Taken, Owner: older},
		"young": {Vote: Taken, Owner: younger}, "young2": {Vote: Taken, Owner: youngest},
		"aside": {Vote: Taken, Owner: younger, Uncounted: true}, "reads": {Vote: Taken, Owner: Marker},
		"other": {Vote: Taken}, "alien": {Vote: Taken, Err: errors.New("no lock")}, "-": {Vote: Failed},
	}
	roles := map[string]Role{"beaten": Beaten, "oldest": Oldest, "unknown": unknown}
	for at, line := range cases.Lines(t, "testdata/tie.txt") {
		nodes, outcome, _ := strings.Cut(line, "|")
		want, ok := roles[strings.TrimSpace(outcome)]
		var votes Tally
		var said []Answer
		for i, word := range strings.Fields(nodes) {
			a, voted := answers[word]
			if voted {
				votes += OneList(5).Ballot(i, a.Vote)
			}
			said = append(said, a)
			ok = ok && (voted || word == ".")
		}
		if !ok || len(said) != 5 {
			t.Errorf("%s: bad line: %s", at, line)
		} else if got := WinsTie(votes, said, us, OneList(5)); got != want {
			t.Errorf("%s: %s: got %d, want %d", at, line, got, want)
		}
	}
}

// A majority of one of two lists is none: who asks again is decided by age, as with one list.
func TestRolesInATieWithTwoLists(t *testing.T) {
	const older, us, younger = "0190", "0191", "0192"
	e := New(0b0111, 0b1011)
	for _, c := range []struct {
		owners [4]string
		want   Role
	}{
		{[4]string{us, younger, us, younger}, Oldest},
		{[4]string{us, older, us, older}, Beaten},
		{[4]string{younger, younger, us, younger}, Beaten}, // a majority of each
		{[4]string{younger, younger, us, us}, Beaten},
	} {
		var votes Tally
		var said []Answer
		for i, owner := range c.owners {
			a := Answer{Vote: Taken, Owner: owner}
			if owner == us {
				a = Answer{Vote: Granted}
			}
			votes += e.Ballot(i, a.Vote)
			said = append(said, a)
		}
		equals(t, WinsTie(votes, said, us, e), c.want, "%v", c.owners)
	}
}

// The pause and another round must fit into the node timeout.
func TestTiePause(t *testing.T) {
	for _, c := range []struct {
		round, spent, limit time.Duration
		ok                  bool
	}{
		{ms / 5, ms / 5, 250 * ms, true},
		{62 * ms, 62 * ms, 250 * ms, true},
		{63 * ms, 63 * ms, 250 * ms, false}, // a round this slow is no race
		{50 * ms, 150 * ms, 250 * ms, false},
		{20 * ms, 150 * ms, 250 * ms, true},
		{ms / 5, ms / 5, ms, false},
	} {
		for range 100 {
			pause, ok := TiePause(Oldest, c.round, c.spent, c.limit)
			least := max(c.round, ms)
			if pause < least || pause >= 2*least {
				t.Fatalf("%+v: pause %v, want 1 to 2 times %v", c, pause, least)
			}
			if ok != c.ok && !(c.spent == 150*ms && c.round == 50*ms) {
				t.Fatalf("%+v: got %v", c, ok)
			}
			if ok && c.spent+pause+c.round > c.limit {
				t.Fatalf("%+v: pause %v leaves no time for a round", c, pause)
			}
		}
	}
}
