package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A mutant whose text is gone from the sources proves nothing: bring the list up to date with the code.
func TestEveryMutantAppliesToTheSources(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutants() {
		if seen[m.name] || m.name == "" {
			t.Errorf("the name %q is not its own", m.name)
		}
		seen[m.name] = true
		if (m.test == "") != (m.why == "") {
			t.Errorf("%s: the simulation or a test, with the reason why: got %q, %q", m.name, m.test, m.why)
		}
		if _, err := m.overlay("../..", t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for _, m := range mutants() {
		if m.test != "" && !rootTests(t).MatchString("func "+m.test+"(") {
			t.Errorf("%s: there is no test %s", m.name, m.test)
		}
	}
}

// rootTests matches the head of each test of the root package.
func rootTests(t *testing.T) *regexp.Regexp {
	t.Helper()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile("../../" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range regexp.MustCompile(`(?m)^func Test\w+\(`).FindAllString(string(text), -1) {
			heads = append(heads, regexp.QuoteMeta(head))
		}
	}
	return regexp.MustCompile(strings.Join(heads, "|"))
}

func TestATextThatIsGoneIsAnError(t *testing.T) {
	m := mutant{name: "x", changes: []change{{"drift.go", "no such text", ""}}}
	if _, err := m.overlay("../..", t.TempDir()); err == nil || !strings.Contains(err.Error(), "0 times, want once") {
		t.Errorf("got %v", err)
	}
}

func TestJudge(t *testing.T) {
	got, err := judge("    sim_test.go:65: seed 12: 3 nodes, more\n        exclusion: a by b\n        replay: x\n", seedRange{first: 3})
	if err != nil || got.by != "exclusion" || got.seeds != 10 || got.trace != "seed 12: a by b" {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = judge("panic in seed 4: 5 nodes\n\npanic: deadlock: main bubble\n", seedRange{first: 1})
	if err != nil || got.by != "a run that does not end" || got.seeds != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err = judge("--- FAIL: too little happened", seedRange{}); err == nil {
		t.Error("a failure without a seed counts as caught")
	}
}
