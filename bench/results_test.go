package main

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

const published = "benchmarks/results.json"

func lastRuns() results { return load("../docs/" + published) }

// A scenario that was measured again replaces the earlier one whole; the others stay. What was written is read as it
// was.
func TestTheLastRunOfAScenarioCounts(t *testing.T) {
	of := func(commit string, figure float64, locks ...string) *outcome {
		one := &outcome{Began: time.Unix(1763923842, 0).UTC(), Commit: commit, Rounds: 3, Round: "3s", Machine: "2 × CPU"}
		for _, lock := range locks {
			one.Rows = append(one.Rows, &row{n: 16, lock: lock, masters: 5, figures: map[string]float64{rate: figure}})
		}
		return one
	}
	dir := t.TempDir()
	cases.NoError(t, os.Mkdir(dir+"/benchmarks", 0o700))
	first := results{"tls": of("1", 1.25, "x"), "slow": of("1", 12345.9, "x"), "silent": of("1", 1, "x", "y")}
	first["tls"].Rows[0].figures[p99] = 0
	first.publish(dir)
	results{"silent": of("2", 2, "z", "y")}.publish(dir)
	want := results{"tls": first["tls"], "slow": of("1", 12345, "x"), "silent": of("2", 2, "z", "y")}
	if got := load(dir + "/" + published); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want.find("silent", "y", 16) != want["silent"].Rows[1] || want.find("silent", "x", 16) != nil {
		t.Error("a row is not found, or one that is not there")
	}
}

// Medians, spreads and sums are those of the rounds, ratios those within each. Who hung has none.
func TestWhatTheRoundsComeTo(t *testing.T) {
	rounds := func(lock string, masters int, rates ...float64) *row {
		r := &row{n: 1, lock: lock, masters: masters}
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
	compare("uncontended", []*row{ours, theirs, stuck, single})
	for name, want := range map[string]float64{
		rate: 20, rate + " least": 10, rate + " most": 30, orphans: 3, longest: 30,
		rateToRedsync: 2, rateToRedsync + " least": .5, rateToRedsync + " most": 3, rateToSingle: 2,
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

// Goroutines share the time in which nobody acquires a lock, and what is before the round does not count.
func TestTheLongestTimeWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var phase atomic.Int32
		var last atomic.Int64
		one, two := &recorder{phase: &phase, last: &last}, &recorder{phase: &phase, last: &last}
		for _, at := range []struct {
			*recorder
			after int // ms
			phase int32
		}{{one, 0, warming}, {two, 90, warming}, {one, 10, running}, {two, 40, running}, {one, 20, stopping}} {
			time.Sleep(time.Duration(at.after) * time.Millisecond)
			phase.Store(at.phase)
			at.acquisition()
		}
		for end, want := range map[int]float64{0: 40, 41: 41} {
			ended := time.Now().Add(time.Duration(end) * time.Millisecond)
			f, _ := figuresOf([]*recorder{one, two}, usage{}, usage{at: ended})
			cases.Equals(t, f[without], want, "the longest of 10, 40 and 20, and %d until the end", end)
		}
	})
}

// What says how a figure is condensed is the name of one that is measured.
func TestFiguresHaveTheirNames(t *testing.T) {
	measured := map[string]bool{hung: true} // which nothing did in the last runs
	for _, o := range lastRuns() {
		for _, r := range o.Rows {
			for name := range r.figures {
				measured[name] = true
			}
		}
	}
	for _, name := range slices.Concat(spreads, slices.Collect(maps.Keys(rounds))) {
		if !measured[name] {
			t.Errorf("%s is no figure", name)
		}
	}
}

// The pages show what the last runs have found.
func TestThePagesShowTheLastRuns(t *testing.T) {
	r := lastRuns()
	for _, page := range pages {
		text := cases.Must(os.ReadFile("../docs/" + page))(t)
		got := r.updated(string(text))
		if got != string(text) {
			t.Errorf("%s is behind results.json: go run -C bench . -scenario none -publish ../docs", page)
		}
		if n := strings.Count(got, "<!-- bench: end -->"); n < 4 {
			t.Errorf("%s has %d tables of the bench's", page, n)
		}
	}
}

func TestAPageNamesATableThatNobodyKnows(t *testing.T) {
	const mark = "<!-- bench: nothing -->\n<!-- bench: end -->"
	if attempt(func() { lastRuns().updated(mark) }) == nil {
		t.Error("want an error")
	}
	const kept = "<!-- bench: limits -->\nas it was\n<!-- bench: end -->"
	if got := (results{}).updated(kept); got != kept {
		t.Errorf("of a crowd that was not measured: got %q", got)
	}
}

// Whoever reads benchmarks.md learns of which library the figures are, also of the scenarios that were measured later.
func TestThePageNamesTheCommits(t *testing.T) {
	text := cases.Must(os.ReadFile("../docs/benchmarks.md"))(t)
	for scenario, one := range lastRuns() {
		if one.Commit == "" || !strings.Contains(string(text), "`"+one.Commit+"`") {
			t.Errorf("%s was measured at commit %q, and docs/benchmarks.md does not say so", scenario, one.Commit)
		}
	}
}

func TestARunNamesTheCommit(t *testing.T) {
	one := newOutcome(1, time.Second)
	if !regexp.MustCompile(`^([0-9a-f]{7,40}\+?)?$`).MatchString(one.Commit) ||
		strings.Contains(one.String(), "commit `"+one.Commit+"`") != (one.Commit != "") {
		t.Errorf("got %q in %q, want a short hash, with a + where code is not committed, or nothing without git",
			one.Commit, one)
	}
}

// A file that somebody has broken is named.
func TestABrokenFileIsNoResult(t *testing.T) {
	file := t.TempDir() + "/results.json"
	for _, text := range []string{
		"", `{"tls":{"Rows":{"N":[1],"Lock":["x"]}}}`, `{"tls":{"Rows":{"N":["one"],"Lock":["x"],"Masters":[5]}}}`,
		`{"tls":{"Rows":{"N":[1],"Lock":["x"],"Masters":[5],"Figures":{"p50":[1,2]}}}}`,
	} {
		cases.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		if err := attempt(func() { load(file) }); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: got %v, want an error that names the file", text, err)
		}
	}
}

func TestBucketsAreWithinTwoPercent(t *testing.T) {
	for d := time.Duration(1); d < 2*time.Minute; d += d/7 + 1 {
		got := middle(bucket(d))
		if diff := (got - d).Abs(); diff > d/50+1 {
			t.Errorf("middle(bucket(%d)) = %d", d, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	var h hist
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{
		0.5: 501 * time.Microsecond, 0.99: 991 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := h.quantile(q); (got - want).Abs() > want/50 {
			t.Errorf("quantile(%v) = %s, want %s", q, got, want)
		}
	}
}
