package quorum

import (
	"errors"
	"fmt"
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
	roles := map[string]role{"beaten": beaten, "oldest": oldest, "unknown": unknown}
	for at, cells := range cases.Rows(t, "testdata/tie.txt", 2) {
		want, ok := roles[cells[1]]
		p, words := poll(OneList(5)), strings.Fields(cells[0])
		for i, word := range words {
			a, voted := answers[word]
			if voted {
				p.Cast(i, a)
			}
			ok = ok && len(words) == 5 && (voted || word == ".")
		}
		if !ok {
			t.Errorf("%s: bad line: %v", at, cells)
		} else if got := p.SoFar().role(us); got != want {
			t.Errorf("%s: %v: got %d, want %d", at, cells, got, want)
		}
	}
}

// A majority of one of two lists is none: who asks again is decided by age, as with one list.
func TestRolesInATieWithTwoLists(t *testing.T) {
	const older, us, younger = "0190", "0191", "0192"
	e := New(0b0111, 0b1011)
	for _, c := range []struct {
		owners [4]string
		want   role
	}{
		{[4]string{us, younger, us, younger}, oldest},
		{[4]string{us, older, us, older}, beaten},
		{[4]string{younger, younger, us, younger}, beaten}, // a majority of each
		{[4]string{younger, younger, us, us}, beaten},
	} {
		p := poll(e)
		for i, owner := range c.owners {
			a := Answer{Vote: Taken, Owner: owner}
			if owner == us {
				a = Answer{Vote: Granted}
			}
			p.Cast(i, a)
		}
		cases.Equals(t, p.SoFar().role(us), c.want, "%v", c.owners)
	}
}

// The pause and another round must fit into the node timeout. The oldest pauses twice at most, and whoever must learn
// the names asks for them once.
func TestTiePause(t *testing.T) {
	split, unnamed := poll(OneList(5)), poll(OneList(5))
	for i := range 5 {
		a := Answer{Vote: Granted}
		if i > 1 {
			a = Answer{Vote: Taken, Owner: fmt.Sprint("0192", i/4)}
		}
		split.Cast(i, a)
		a.Owner = ""
		unnamed.Cast(i, a)
	}
	for _, c := range []struct {
		round, spent, limit time.Duration
		again               bool
	}{
		{ms / 5, ms / 5, 250 * ms, true},
		{62 * ms, 62 * ms, 250 * ms, true},
		{63 * ms, 63 * ms, 250 * ms, false}, // a round this slow is no race
		{50 * ms, 150 * ms, 250 * ms, false},
		{20 * ms, 150 * ms, 250 * ms, true},
		{ms / 5, ms / 5, ms, false},
	} {
		for range 100 {
			tie := Tie{Owner: "0191", Limit: c.limit}
			pause, again := tie.Pause(split.SoFar(), c.round, c.spent)
			least := max(c.round, ms)
			if pause < least || pause >= 2*least {
				t.Fatalf("%+v: pause %v, want 1 to 2 times %v", c, pause, least)
			}
			if again != c.again && !(c.spent == 150*ms && c.round == 50*ms) {
				t.Fatalf("%+v: got %v", c, again)
			}
			if again && c.spent+pause+c.round > c.limit {
				t.Fatalf("%+v: pause %v leaves no time for a round", c, pause)
			}
		}
	}
	learns, eldest := Tie{Owner: "0191", Limit: 250 * ms}, Tie{Owner: "0191", Limit: 250 * ms}
	for i, c := range []struct {
		tie   *Tie
		votes Count
		want  bool
	}{
		{&learns, unnamed.SoFar(), true},
		{&learns, unnamed.SoFar(), false},
		{&learns, split.SoFar(), true},
		{&eldest, split.SoFar(), true},
		{&eldest, split.SoFar(), true},
		{&eldest, split.SoFar(), false},
	} {
		_, again := c.tie.Pause(c.votes, ms, ms)
		cases.Equals(t, again, c.want, "question %d", i)
	}
}
