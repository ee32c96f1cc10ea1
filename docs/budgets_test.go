package docs_test

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/redlock/internal/budget"
)

// The budgets of the building: see testdata/budgets.txt. Those of what runs are in budgets_test.go of the root.
func TestBudgetsOfTheBuilding(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{
		"root files":                          0,
		"largest cycle of root files":         float64(largestCycle(usesBetweenFiles(t, root))),
		"largest cycle of internal/redisconn": float64(largestCycle(usesBetweenFiles(t, "../internal/redisconn"))),
		"exported names and methods":          0,
		"options":                             0,
		"Go lines over 120 characters":        0,
		"Go lines":                            0,
		"pages of docs":                       0,
		"words of docs and docs/adr":          0,
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			got["root files"]++
		}
	}
	capitals := regexp.MustCompile(`^[A-Z]\w*(\.[A-Z]\w*)?$`)
	for name := range exports(t, ".") {
		if capitals.MatchString(name) {
			got["exported names and methods"]++
		}
		if strings.HasPrefix(name, "With") {
			got["options"]++
		}
	}
	r := read(t)
	for _, text := range r.gos {
		for line := range strings.Lines(text) {
			got["Go lines"]++
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120 {
				got["Go lines over 120 characters"]++
			}
		}
	}
	for name, text := range r.texts {
		if dir := path.Dir(name); dir == "docs" || dir == "docs/adr" {
			got["words of docs and docs/adr"] += float64(len(strings.Fields(text)))
			if dir == "docs" {
				got["pages of docs"]++
			}
		}
	}
	for name := range r.paths {
		if path.Base(name) == "go.mod" {
			got["direct requirements of "+name] = float64(requirements(t, filepath.Join(root, name)))
		}
	}
	budget.Judge(t, "../testdata/budgets.txt", "building", budget.Fails, got)
}

// largestCycle returns how many files the largest set has in which each uses each other, directly or through files
// between them. 1: there is no cycle.
func largestCycle(uses map[[2]string][]string) int {
	reach := map[string]map[string]bool{}
	for pair := range uses {
		for _, file := range pair {
			reach[file] = map[string]bool{file: true}
		}
	}
	for grown := true; grown; {
		grown = false
		for pair := range uses {
			before := len(reach[pair[0]])
			maps.Copy(reach[pair[0]], reach[pair[1]])
			grown = grown || len(reach[pair[0]]) > before
		}
	}
	largest := 1
	for file, others := range reach {
		size := 0
		for other := range others {
			if reach[other][file] {
				size++
			}
		}
		largest = max(largest, size)
	}
	return largest
}

func TestLargestCycle(t *testing.T) {
	for _, c := range []struct {
		uses string // pairs
		want int
	}{
		{"", 1},
		{"ab bc ac", 1},
		{"ab ba", 2},
		{"ab bc ca cd", 3},
		{"ab ba cd de ec", 3},
	} {
		uses := map[[2]string][]string{}
		for pair := range strings.FieldsSeq(c.uses) {
			uses[[2]string{pair[:1], pair[1:]}] = []string{"x"}
		}
		if got := largestCycle(uses); got != c.want {
			t.Errorf("%q: got %d, want %d", c.uses, got, c.want)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)\S+ v\S+$`)

// requirements returns how many modules a go.mod requires by itself, and not for others' sake.
func requirements(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return len(requirement.FindAll(text, -1))
}
