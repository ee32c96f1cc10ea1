package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A scenario that was measured again replaces the earlier one whole; the others stay, in their order.
func TestTheLastRunOfAScenarioCounts(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, scenarios ...*result) string {
		file := filepath.Join(dir, name)
		text, err := json.Marshal(&report{Machine: name, Scenarios: scenarios})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	of := func(name string, contestants ...string) *result {
		res := &result{Name: name}
		for _, c := range contestants {
			res.Rows = append(res.Rows, &row{Contestant: c, Samples: []sample{{PerSecond: 1}}})
		}
		return res
	}
	first := write("first", of("a", "x", "y"), of("b", "x"))
	second := write("second", of("c", "z"), of("a", "z"))
	r, err := load(first + "," + second)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, res := range r.Scenarios {
		got += res.Name
		for _, row := range res.Rows {
			got += row.Contestant
		}
		got += " "
	}
	if want := "az bx cz "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Machine != "first" {
		t.Errorf("machine of %q, want that of the first", r.Machine)
	}
	if other, same := r.Scenarios[0], r.Scenarios[1]; other.Machine != "second" || same.Machine != "" ||
		!strings.Contains(r.markdown(), "On another machine: second.") {
		t.Errorf("machines of %q and %q, want the second where it is not the report's", other.Machine, same.Machine)
	}
}

// Whoever reads benchmarks.md learns of which library the figures are, also of the scenarios that were measured later.
func TestThePageNamesTheCommits(t *testing.T) {
	r, err := load("../docs/benchmarks/results.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Scenarios {
		if res.Commit == "" || !strings.Contains(string(text), "`"+res.Commit+"`") {
			t.Errorf("%s was measured at commit %q, and docs/benchmarks.md does not say so", res.Name, res.Commit)
		}
	}
}

func TestAReportNamesTheCommit(t *testing.T) {
	if got := commit(); got != "" && !regexp.MustCompile(`^[0-9a-f]{7,40}\+?$`).MatchString(got) {
		t.Errorf("commit() = %q, want a short hash, with a + where code is not committed, or nothing without git", got)
	}
	res := &result{Name: "crowd", Commit: "0123abc", Rows: []*row{{Samples: []sample{{Crowd: &crowd{}}}}}}
	for what, text := range map[string]string{"a page": res.where(&report{}), "the tables": res.markdown()} {
		if !strings.Contains(strings.ToLower(text), "measured at commit `0123abc`") {
			t.Errorf("%s does not name it:\n%s", what, text)
		}
	}
	res.Commit = ""
	if text := res.where(&report{}); strings.Contains(text, "commit") {
		t.Errorf("an earlier result, which names none: got\n%s", text)
	}
}
