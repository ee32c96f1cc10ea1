package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/redlock/internal/budget"
	"github.com/quorumlock/redlock/internal/cases"
)

// The budgets of the building: see testdata/budgets.txt. Those of what runs are in redlock_budgets_test.go of the root.
func TestBudgetsOfTheBuilding(t *testing.T) {
	files := cases.Must(filepath.Glob(filepath.Join(root, "*.go")))(t)
	got := map[string]float64{
		"root files":                            0,
		"largest cycle of root files":           largestCycle(t, root),
		"largest cycle in a room below it":      1,
		"exported names and methods":            0,
		"options":                               0,
		"Go lines over 120 characters":          0,
		"Go lines":                              0,
		"pages of docs":                         0,
		"words of docs, docs/adr and docs/spec": 0,
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			got["root files"]++
		}
	}
	for room := range rooms(t) {
		if room != "redlock" {
			got["largest cycle in a room below it"] = max(got["largest cycle in a room below it"], largestCycle(t, "../"+room))
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
	for _, room := range []string{"election", "finding"} {
		for name := range exports(t, room) {
			if capitals.MatchString(name) {
				got["exported names of "+room]++
			}
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
		if dir := path.Dir(name); dir == "docs" || dir == "docs/adr" || dir == "docs/spec" {
			got["words of docs, docs/adr and docs/spec"] += float64(len(strings.Fields(text)))
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

// largestCycle returns how many files the largest cycle of a directory has; 1: there is none.
func largestCycle(t *testing.T, dir string) float64 {
	t.Helper()
	largest := 1
	for _, cycle := range cycles(usesBetweenFiles(t, dir)) {
		largest = max(largest, len(cycle))
	}
	return float64(largest)
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)\S+ v\S+$`)

// requirements returns how many modules a go.mod requires by itself, and not for others' sake.
func requirements(t *testing.T, path string) int {
	t.Helper()
	text := cases.Must(os.ReadFile(path))(t)
	return len(requirement.FindAll(text, -1))
}
