package modelcheck

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

var (
	abc, abd     = setOf(0, 1, 2), setOf(0, 1, 3) // one node replaced
	cde, def     = setOf(2, 3, 4), setOf(3, 4, 5)
	abcd         = setOf(0, 1, 2, 3)
	abcde, abcdf = setOf(0, 1, 2, 3, 4), setOf(0, 1, 2, 3, 5)
	rolling      = []votesWith{onlyA, both, onlyB}
	backedOut    = []votesWith{onlyA, both, onlyA}
)

// Where with is not given, each attempt may have any lists: both directions of a change, backed out of or not, and
// either list may be the larger one.
func TestMigrationIsClean(t *testing.T) {
	explored(t, []check{
		clean("one replaced", 200_000, &migration{a: abc, b: abd, attempts: 3, proposals: 1}),
		clean("one replaced, rolling", 50_000, &migration{a: abc, b: abd, attempts: 3, proposals: 2, with: rolling}),
		clean("rolling, repair", 60_000, &migration{a: abc, b: abd, attempts: 3, proposals: 2, with: rolling, repair: true}),
		clean("one replaced, backed out", 50_000, &migration{a: abc, b: abd, attempts: 3, proposals: 2, with: backedOut}),
		clean("all replaced", 300_000, &migration{a: abc, b: def, attempts: 3, proposals: 1}),
		clean("three and five", 300_000, &migration{a: abc, b: abcde, attempts: 3, proposals: 1}),
		clean("three and four", 5_000, &migration{a: abc, b: abcd, attempts: 2, proposals: 3}),
		clean("one of five replaced", 50_000, &migration{a: abcde, b: abcdf, attempts: 3, proposals: 1, with: rolling}),
		clean("keys go at any moment", 100_000, &migration{a: abc, b: abd, attempts: 2, proposals: 2, lapses: true}),
		clean("keys go at any moment, rolling", 300_000, &migration{
			a: abc, b: abd, attempts: 3, proposals: 1, lapses: true, with: rolling,
		}),
	})
}

// Exclusion holds at every moment of the change. So does order, but for a hold with the old list alone and one with the
// new list alone: only the time between them orders those. It must be longer than the clocks' disagreement, by a single
// tick. Without a clock, there is no such time.
func TestMigrationStaysWithBothLists(t *testing.T) {
	explored(t, []check{
		clean("D=0, one tick", 20_000, &migration{a: abc, b: abd, attempts: 2, horizon: 2, middle: 1, across: true}),
		clean("D=1, two ticks", 100_000, &migration{
			a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true,
		}),
		clean("D=1, two ticks, rolling", 100_000, &migration{
			a: abc, b: abd, attempts: 3, horizon: 3, skew: 1, middle: 2, across: true, with: rolling,
		}),
		clean("D=1, two ticks, all replaced", 100_000, &migration{
			a: abc, b: def, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true,
		}),
		breaks("no clock", "unique:", 9, &migration{a: abc, b: abd, attempts: 2, proposals: 2, across: true}),
		breaks("D=0, at once", "unique:", 9, &migration{a: abc, b: abd, attempts: 2, horizon: 2, across: true}),
		breaks("D=1, one tick", "unique:", 10, &migration{
			a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 1, across: true,
		}),
		breaks("D=2, two ticks", "unique:", 11, &migration{
			a: abc, b: abd, attempts: 2, horizon: 2, skew: 2, middle: 2, across: true,
		}),
	})
}

func TestMigrationFlawsAreBroken(t *testing.T) {
	explored(t, []check{
		breaks("union, two replaced", "exclusion:", 9, &migration{
			a: abc, b: cde, attempts: 2, proposals: 2, flaw: unionMajority,
		}),
		breaks("union, all replaced", "exclusion:", 10, &migration{
			a: abc, b: def, attempts: 2, proposals: 2, flaw: unionMajority,
		}),
		breaks("union, three and five", "exclusion:", 9, &migration{
			a: abc, b: abcde, attempts: 2, proposals: 2, flaw: unionMajority,
		}),
		breaks("to ignored", "exclusion:", 10, &migration{a: abc, b: abd, attempts: 2, proposals: 2, flaw: toIgnored}),
		breaks("one list accepts", "unique:", 10, &migration{
			a: abc, b: abd, attempts: 2, proposals: 2, flaw: oneListAccepts,
		}),
		// Three of four nodes meet every two of three: where one node is replaced, the union happens to be enough.
		clean("union, one replaced", 5_000, &migration{a: abc, b: abd, attempts: 2, proposals: 2, flaw: unionMajority}),
	})
}

// Clients of list A beside clients of list B: the story that docs/changing-nodes.md tells.
func TestTwoListsBesideEachOtherAreBroken(t *testing.T) {
	m := migration{a: abc, b: abd, attempts: 2, proposals: 1, beside: true}
	explored(t, []check{breaks("beside", "exclusion:", 8, &m)})
	const golden = "testdata/two_lists.txt"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("list A is %s; list B is %s\n\n%s", m.a, m.b, m.explore().story()); got != string(want) {
		t.Errorf("got %s\nwant that of %s:\n%s", got, golden, want)
	}
}

// Leaving states out (migration.merged) changes no verdict.
func TestMigrationReductionKeepsVerdicts(t *testing.T) {
	for _, m := range []migration{
		{a: abc, b: abd, attempts: 2, proposals: 2},
		{a: abc, b: abd, attempts: 2, proposals: 1, lapses: true},
		{a: abc, b: abd, attempts: 3, proposals: 1, with: rolling, repair: true},
		{a: abc, b: abd, attempts: 2, horizon: 2, middle: 1, across: true},
		{a: abc, b: abd, attempts: 2, horizon: 2, across: true},
		{a: abc, b: abd, attempts: 2, proposals: 2, beside: true},
		{a: abc, b: abd, attempts: 2, proposals: 2, across: true},
		{a: abc, b: cde, attempts: 2, proposals: 2, flaw: unionMajority},
		{a: abc, b: abd, attempts: 2, proposals: 2, flaw: toIgnored},
		{a: abc, b: abd, attempts: 2, proposals: 2, flaw: oneListAccepts},
	} {
		reduced := m.explore()
		m.unreduced = true
		full := m.explore()
		t.Logf("reduced %s; full %s", reduced, full)
		if reduced.broken != full.broken || len(reduced.trace) != len(full.trace) {
			t.Errorf("%+v: reduced %q, full %q", m, reduced.broken, full.broken)
		}
		if full.broken == "" && full.states <= reduced.states {
			t.Errorf("%+v: the full space has %d states, the reduced one %d", m, full.states, reduced.states)
		}
	}
}

// alwaysMeet reports whether every majority of one list shares a node with every majority of the other: the rule by
// which a client refuses to work beside another one.
func alwaysMeet(l, m nodeSet) bool {
	for x := range l.subsets {
		for y := range m.subsets {
			if l.decidedBy(x) && m.decidedBy(y) && x&y == 0 {
				return false
			}
		}
	}
	return true
}

// Lists that always meet are as good as one: their clients may be out together, and tokens are in order. All others
// break exclusion. So the rule is neither too strict nor too lax for the protocol.
func TestListsThatMeetNeedNoMigration(t *testing.T) {
	for sizeA := 1; sizeA <= 4; sizeA++ {
		for sizeB := sizeA; sizeB <= 4; sizeB++ {
			for shared := max(0, sizeA+sizeB-maxListed); shared <= sizeA; shared++ {
				a := nodeSet(1)<<sizeA - 1
				b := (nodeSet(1)<<sizeB - 1) << (sizeA - shared)
				m := migration{
					a: a, b: b, attempts: 2, proposals: 2, beside: true, across: true, with: []votesWith{onlyA, onlyB},
				}
				got := m.explore()
				if safe := got.broken == ""; safe != alwaysMeet(a, b) || !safe && !strings.HasPrefix(got.broken, "exclusion") {
					t.Errorf("%s; %s: got %s, but always meet: %v", a, b, got, alwaysMeet(a, b))
				}
			}
		}
	}
}
