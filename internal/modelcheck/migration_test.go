package modelcheck

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

var (
	abc, abd     = listOf(0, 1, 2), listOf(0, 1, 3) // one node replaced
	cde, def     = listOf(2, 3, 4), listOf(3, 4, 5)
	abcd         = listOf(0, 1, 2, 3)
	abcde, abcdf = listOf(0, 1, 2, 3, 4), listOf(0, 1, 2, 3, 5)
	rolling      = []votesWith{onlyA, both, onlyB}
	backedOut    = []votesWith{onlyA, both, onlyA}
)

type migrationCheck struct {
	name      string
	migration migration
	states    int
}

// Where with is not given, each attempt may have any lists: both directions of a change, backed out of or not, and
// either list may be the larger one.
var migrationChecks = []migrationCheck{
	{"one replaced", migration{a: abc, b: abd, attempts: 3, proposals: 1}, 200_000},
	{"one replaced, rolling", migration{a: abc, b: abd, attempts: 3, proposals: 2, with: rolling}, 50_000},
	{"rolling, repair", migration{a: abc, b: abd, attempts: 3, proposals: 2, with: rolling, repair: true}, 60_000},
	{"one replaced, backed out", migration{a: abc, b: abd, attempts: 3, proposals: 2, with: backedOut}, 50_000},
	{"all replaced", migration{a: abc, b: def, attempts: 3, proposals: 1}, 300_000},
	{"three and five", migration{a: abc, b: abcde, attempts: 3, proposals: 1}, 300_000},
	{"three and four", migration{a: abc, b: abcd, attempts: 2, proposals: 3}, 5_000},
	{"one of five replaced, rolling", migration{a: abcde, b: abcdf, attempts: 3, proposals: 1, with: rolling}, 50_000},
	{"keys go at any moment", migration{a: abc, b: abd, attempts: 2, proposals: 2, lapses: true}, 100_000},
	{
		"keys go at any moment, rolling",
		migration{a: abc, b: abd, attempts: 3, proposals: 1, lapses: true, with: rolling},
		300_000,
	},
}

var deepMigrationChecks = []migrationCheck{
	{"one replaced", migration{a: abc, b: abd, attempts: 3, proposals: 2, repair: true}, 2_000_000},
	{"one replaced, 3 proposals", migration{a: abc, b: abd, attempts: 3, proposals: 3}, 5_000_000},
	{"all replaced", migration{a: abc, b: def, attempts: 3, proposals: 2, repair: true}, 2_000_000},
	{"three and five", migration{a: abc, b: abcde, attempts: 3, proposals: 2}, 2_000_000},
	{"one of five replaced", migration{a: abcde, b: abcdf, attempts: 3, proposals: 1}, 2_000_000},
	{
		"keys go at any moment, rolling",
		migration{a: abc, b: abd, attempts: 3, proposals: 2, lapses: true, with: rolling},
		1_500_000,
	},
	{
		"keys go at any moment, backed out",
		migration{a: abc, b: abd, attempts: 3, proposals: 1, lapses: true, with: backedOut},
		4_000_000,
	},
	{"D=0, one tick", migration{a: abc, b: abd, attempts: 3, horizon: 2, middle: 1, across: true}, 4_000_000},
	{
		"D=1, keys go at any moment",
		migration{a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true, lapses: true},
		1_000_000,
	},
}

func TestMigrationIsClean(t *testing.T) { wantMigrationClean(t, migrationChecks) }

// Exclusion holds at every moment of the change. So does order, but for a hold with the old list alone and one with the
// new list alone: only the time between them orders those. It must be longer than the clocks' disagreement, by a single
// tick. Without a clock, there is no such time.
func TestMigrationStaysWithBothLists(t *testing.T) {
	wantMigrationClean(t, []migrationCheck{
		{"D=0, one tick", migration{a: abc, b: abd, attempts: 2, horizon: 2, middle: 1, across: true}, 20_000},
		{"D=1, two ticks", migration{a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true}, 100_000},
		{
			"D=1, two ticks, rolling",
			migration{a: abc, b: abd, attempts: 3, horizon: 3, skew: 1, middle: 2, across: true, with: rolling},
			100_000,
		},
		{"D=1, two ticks, all replaced", migration{
			a: abc, b: def, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true,
		}, 100_000},
	})
	wantMigrationBroken(t, []migrationBreach{
		{"no clock", migration{a: abc, b: abd, attempts: 2, proposals: 2, across: true}, "unique", 9},
		{"D=0, at once", migration{a: abc, b: abd, attempts: 2, horizon: 2, across: true}, "unique", 9},
		{"D=1, one tick", migration{a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 1, across: true}, "unique", 10},
		{
			"D=2, two ticks",
			migration{a: abc, b: abd, attempts: 2, horizon: 2, skew: 2, middle: 2, across: true},
			"unique", 11,
		},
	})
}

type migrationBreach struct {
	name      string
	migration migration
	property  string
	steps     int
}

func TestMigrationFlawsAreBroken(t *testing.T) {
	wantMigrationBroken(t, []migrationBreach{
		{
			"union, two replaced",
			migration{a: abc, b: cde, attempts: 2, proposals: 2, flaw: unionMajority},
			"exclusion", 9,
		},
		{"union, all replaced", migration{a: abc, b: def, attempts: 2, proposals: 2, flaw: unionMajority}, "exclusion", 10},
		{
			"union, three and five",
			migration{a: abc, b: abcde, attempts: 2, proposals: 2, flaw: unionMajority},
			"exclusion", 9,
		},
		{"to ignored", migration{a: abc, b: abd, attempts: 2, proposals: 2, flaw: toIgnored}, "exclusion", 10},
		{"one list accepts", migration{a: abc, b: abd, attempts: 2, proposals: 2, flaw: oneListAccepts}, "unique", 10},
	})
	// Three of four nodes meet every two of three: where one node is replaced, the union happens to be enough.
	wantMigrationClean(t, []migrationCheck{
		{"union, one replaced", migration{a: abc, b: abd, attempts: 2, proposals: 2, flaw: unionMajority}, 5_000},
	})
}

// Clients of list A beside clients of list B: the story that docs/changing-nodes.md tells.
func TestTwoListsBesideEachOtherAreBroken(t *testing.T) {
	const golden = "testdata/two_lists.txt"
	m := migration{a: abc, b: abd, attempts: 2, proposals: 1, beside: true}
	got := explore(&m)
	story := m.story(got)
	t.Logf("%s\n%s", got, story)
	if !strings.HasPrefix(got.broken, "exclusion:") || len(got.trace) != 8 {
		t.Errorf("got %q in %d steps, want a violation of exclusion in 8", got.broken, len(got.trace))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if story != string(want) {
		t.Errorf("got the story above, want that of %s:\n%s", golden, want)
	}
}

// Leaving states out (migration.key) changes no verdict.
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
		reduced := explore(&m)
		m.unreduced = true
		full := explore(&m)
		t.Logf("reduced %s; full %s", reduced, full)
		if reduced.broken != full.broken || len(reduced.trace) != len(full.trace) {
			t.Errorf("%+v: reduced %q, full %q\n%s", m, reduced.broken, full.broken, m.story(full))
		}
		if full.broken == "" && full.states <= reduced.states {
			t.Errorf("%+v: the full space has %d states, the reduced one %d", m, full.states, reduced.states)
		}
	}
}

// alwaysMeet is the rule by which two lists are compatible: every majority of one shares a node with every majority of
// the other. Of those it needs, each takes as many as it can from what the other does not have; the rest must not fit
// into what they share without overlap.
func alwaysMeet(l, m list) bool {
	shared := (l & m).size()
	fromShared := func(of list) int { return max(0, of.majority()-(of.size()-shared)) }
	return fromShared(l)+fromShared(m) > shared
}

// The rule by which a client refuses to work beside another one (DESIGN.md section 6, a wrong list is noticed), for all
// lists of up to five of seven nodes. A rule that counts what lists share is not enough: four of five in common, a
// majority of each, still leave two majorities that share nobody.
func TestAlwaysMeetIsExact(t *testing.T) {
	shareMajority := func(l, m list) bool { return l.decidedBy(l&m) && m.decidedBy(l&m) }
	var lists []list
	for l := list(1); l < 1<<7; l++ {
		if l.size() <= 5 {
			lists = append(lists, l)
		}
	}
	pairs, compatible, misjudged := 0, 0, 0
	for _, l := range lists {
		for _, m := range lists {
			pairs++
			meet, apart := bruteAlwaysMeet(l, m)
			if got := alwaysMeet(l, m); got != meet {
				t.Errorf("%07b and %07b: got %v, want %v: %s", l, m, got, meet, apart)
			}
			if meet {
				compatible++
			}
			if shareMajority(l, m) && !meet {
				misjudged++
			}
		}
	}
	t.Logf("%d pairs, %d compatible, %d more if the count of shared nodes decided", pairs, compatible, misjudged)
	meet, apart := bruteAlwaysMeet(abcde, abcdf)
	t.Logf("%s; %s: %s", abcde, abcdf, apart)
	if meet || alwaysMeet(abcde, abcdf) || !shareMajority(abcde, abcdf) {
		t.Errorf("%s and %s: want lists that share a majority, but are not compatible", abcde, abcdf)
	}
}

// bruteAlwaysMeet tries every two majorities, and returns two that share nobody if there are any.
func bruteAlwaysMeet(l, m list) (meet bool, apart string) {
	for x := list(1); x <= l; x++ {
		if x&^l != 0 || !l.decidedBy(x) {
			continue
		}
		for y := list(1); y <= m; y++ {
			if y&^m == 0 && m.decidedBy(y) && x&y == 0 {
				return false, fmt.Sprintf("%s share nobody with %s", x, y)
			}
		}
	}
	return true, ""
}

// Lists that always meet are as good as one: their clients may be out together, and tokens are in order. All others
// break exclusion. So the rule is neither too strict nor too lax for the protocol.
func TestListsThatMeetNeedNoMigration(t *testing.T) {
	for sizeA := 1; sizeA <= 4; sizeA++ {
		for sizeB := sizeA; sizeB <= 4; sizeB++ {
			for shared := max(0, sizeA+sizeB-maxListed); shared <= sizeA; shared++ {
				a := list(1)<<sizeA - 1
				b := (list(1)<<sizeB - 1) << (sizeA - shared)
				m := migration{
					a: a, b: b, attempts: 2, proposals: 2, beside: true, across: true, with: []votesWith{onlyA, onlyB},
				}
				got := explore(&m)
				t.Logf("%s; %s: %s", a, b, got)
				if safe := got.broken == ""; safe != alwaysMeet(a, b) || !safe && !strings.HasPrefix(got.broken, "exclusion") {
					t.Errorf("%s; %s: got %q, but always meet: %v\n%s", a, b, got.broken, alwaysMeet(a, b), m.story(got))
				}
			}
		}
	}
}

func wantMigrationClean(t *testing.T, checks []migrationCheck) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			got := explore(&c.migration)
			t.Log(got)
			if got.broken != "" {
				t.Fatalf("got %s, want clean\n%s", got.broken, c.migration.story(got))
			}
			if got.states < c.states {
				t.Errorf("got %d states, want at least %d", got.states, c.states)
			}
		})
	}
}

func wantMigrationBroken(t *testing.T, breaches []migrationBreach) {
	t.Helper()
	for _, b := range breaches {
		t.Run(b.name, func(t *testing.T) {
			got := explore(&b.migration)
			t.Logf("%s\n%s", got, b.migration.story(got))
			if !strings.HasPrefix(got.broken, b.property+":") {
				t.Fatalf("got %q, want a violation of %q", got.broken, b.property)
			}
			if len(got.trace) != b.steps {
				t.Errorf("got %d steps, want %d", len(got.trace), b.steps)
			}
		})
	}
}
