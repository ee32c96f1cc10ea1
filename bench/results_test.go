package main

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

func lastRuns(t *testing.T) *results {
	t.Helper()
	r, err := load("../docs/benchmarks")
	if err != nil || len(r.runs) == 0 {
		t.Fatalf("%d runs, %v", len(r.runs), err)
	}
	return r
}

// A scenario that was measured again replaces the earlier one whole; the others stay, in the scenarios' order. What was
// written is read as it was.
func TestTheLastRunOfAScenarioCounts(t *testing.T) {
	rows := func(scenario string, figure float64, locks ...string) (rows []*row) {
		for _, lock := range locks {
			r := &row{scenario: scenario, n: 16, lock: lock, masters: 5, figures: map[string]float64{rate: figure}}
			rows = append(rows, r)
		}
		return rows
	}
	of := func(scenario, commit string) run {
		return run{
			"scenario": scenario, "began": "2026-11-23T18:50:42Z", "load": "0.58", "commit": commit, "rounds": "3",
			"round": "3s", "machine": "2 × CPU, linux",
		}
	}
	first := &results{}
	first.put(of("tls", "1"), rows("tls", 1.25, "x"))
	first.put(of("contended-slow", "1"), rows("contended-slow", 12345.9, "x"))
	first.put(of("uncontended", "1"), rows("uncontended", 1, "x", "y"))
	dir := t.TempDir()
	cases.NoError(t, first.write(dir))
	r, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.put(of("uncontended", "2"), rows("uncontended", 2, "z"))
	cases.NoError(t, r.write(dir))
	if r, err = load(dir); err != nil {
		t.Fatal(err)
	}
	want := []run{of("uncontended", "2"), of("tls", "1"), of("contended-slow", "1")}
	if !slices.EqualFunc(r.runs, want, maps.Equal[run, run]) {
		t.Errorf("got the runs %v, want %v", r.runs, want)
	}
	for _, of := range []struct {
		scenario, lock string
		want           float64 // 0: none
	}{{"uncontended", "x", 0}, {"uncontended", "z", 2}, {"tls", "x", 1.25}, {"contended-slow", "x", 12345}} {
		found := r.find(of.scenario, of.lock, 16)
		if (found == nil) != (of.want == 0) || found != nil && (found.figures[rate] != of.want || found.masters != 5) {
			t.Errorf("%s: got %+v, want %v", of.scenario, found, of.want)
		}
	}
}

// Medians, spreads and sums are those of the rounds, ratios those within each. Who hung has none.
func TestWhatTheRoundsComeTo(t *testing.T) {
	rounds := func(lock string, masters int, rates ...float64) *row {
		r := &row{scenario: "uncontended", n: 1, lock: lock, masters: masters}
		for i, v := range rates {
			f := map[string]float64{rate: v, orphans: float64(i), longest: v}
			if v == 0 {
				f = map[string]float64{hung: 1, orphans: 7}
			}
			r.samples = append(r.samples, sample{figures: f})
		}
		r.condense()
		return r
	}
	ours, theirs := rounds("redlock", 5, 30, 10, 20), rounds("redsync+redigo", 5, 10, 5, 40)
	stuck, single := rounds("rueidislock", 1, 1000, 0), rounds("bare", 1, 15, 10, 10)
	compare([]*row{ours, theirs, stuck, single})
	for name, want := range map[string]float64{
		rate: 20, leastOf(rate): 10, mostOf(rate): 30, orphans: 3, longest: 30,
		rateToRedsync: 2, leastOf(rateToRedsync): .5, mostOf(rateToRedsync): 3, rateToSingle: 2,
	} {
		cases.Equals(t, ours.figures[name], want, "%s", name)
	}
	if _, ok := theirs.figures[rateToRedsync]; ok {
		t.Error("a contestant is compared with itself")
	}
	if !stuck.hung() || stuck.figures[rate] != 1000 || stuck.figures[orphans] != 7 {
		t.Errorf("hung: got %v", stuck.figures)
	}
}

// Goroutines share the time in which nobody acquires a lock, and what is outside of the round does not count.
func TestTheLongestTimeWithoutALock(t *testing.T) {
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	one := &recorder{since: base, acquired: make([]uint64, 4)}
	two := &recorder{since: base, acquired: make([]uint64, 4)}
	for _, ms := range []int{10, 63, 64, 150, 1000} {
		one.acquisition(at(ms))
	}
	two.acquisition(at(100))
	cases.Equals(t, longestGap([]*recorder{one, two}, at(60), at(160)), 49, "between 100 and 150")
	cases.Equals(t, longestGap([]*recorder{one, two}, at(151), at(200)), 49, "from 151 on")
	cases.Equals(t, longestGap([]*recorder{one}, at(60), at(160)), 85, "of one alone, between 64 and 150")
}

// What stands in the files is what the code knows.
func TestEveryFigureIsDeclared(t *testing.T) {
	known := map[string]bool{}
	for _, name := range figures {
		if known[name] {
			t.Errorf("two figures %q", name)
		}
		known[name] = true
	}
	for _, name := range slices.Concat(spreads, slices.Collect(maps.Keys(rounds))) {
		if !known[name] {
			t.Errorf("%s is no figure", name)
		}
		known[leastOf(name)], known[mostOf(name)] = true, true
	}
	for _, r := range lastRuns(t).rows {
		for name := range r.figures {
			if !known[name] {
				t.Errorf("%s: %s is no figure", r.scenario, name)
			}
		}
	}
}

// The pages show what the last runs have found.
func TestThePagesShowTheLastRuns(t *testing.T) {
	r := lastRuns(t)
	for page, parts := range pages {
		text := cases.Must(os.ReadFile("../docs/" + page))(t)
		got := cases.Must(r.updated(string(text), parts))(t)
		if got != string(text) {
			t.Errorf("%s is behind its CSV files: go run -C bench . -scenario none -publish ../docs", page)
		}
		if n := strings.Count(got, "<!-- bench: end -->"); n < 4 {
			t.Errorf("%s has %d tables of the bench's", page, n)
		}
	}
}

func TestAPageNamesATableThatNobodyKnows(t *testing.T) {
	const mark = "<!-- bench: nothing -->\n<!-- bench: end -->"
	if _, err := lastRuns(t).updated(mark, pages["scale.md"]); err == nil {
		t.Error("want an error")
	}
	const kept = "<!-- bench: limits -->\nas it was\n<!-- bench: end -->"
	if got, err := (&results{}).updated(kept, pages["scale.md"]); err != nil || got != kept {
		t.Errorf("of a crowd that was not measured: got %q, %v", got, err)
	}
}

// Whoever reads benchmarks.md learns of which library the figures are, also of the scenarios that were measured later.
func TestThePageNamesTheCommits(t *testing.T) {
	text := cases.Must(os.ReadFile("../docs/benchmarks.md"))(t)
	for _, one := range lastRuns(t).runs {
		if commit := one["commit"]; commit == "" || !strings.Contains(string(text), "`"+commit+"`") {
			t.Errorf("%s was measured at commit %q, and docs/benchmarks.md does not say so", one["scenario"], commit)
		}
	}
}

func TestARunNamesTheCommit(t *testing.T) {
	if got := commit(); got != "" && !regexp.MustCompile(`^[0-9a-f]{7,40}\+?$`).MatchString(got) {
		t.Errorf("commit() = %q, want a short hash, with a + where code is not committed, or nothing without git", got)
	}
	one := run{"scenario": "crowd", "commit": "0123abc"}
	if text := one.String(); !strings.Contains(text, "measured at commit `0123abc`") {
		t.Errorf("got %q", text)
	}
	if one["commit"] = ""; strings.Contains(one.String(), "commit") {
		t.Errorf("one that names none: got %q", one)
	}
}

// A CSV file that somebody has broken is named.
func TestABrokenFileIsNoResult(t *testing.T) {
	dir := t.TempDir()
	const head = "scenario,n,lock,masters"
	for _, text := range []string{"", head + ",p50\ntls,1,x,5\n", head + "\ntls,one,x,5\n"} {
		cases.NoError(t, os.WriteFile(dir+"/cycles.csv", []byte(text), 0o600))
		if _, err := load(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: got %v, want an error", text, err)
		}
	}
}
