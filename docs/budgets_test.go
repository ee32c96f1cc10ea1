package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
		"root files":                       0,
		"largest cycle of root files":      largestCycle(t, root),
		"largest cycle in a room below it": 1,
		"exported names and methods":       0,
		"options":                          0,
		"Go lines over 120 characters":     0,
		"pages of docs":                    0,
		"words of README, CHANGELOG, docs, docs/adr and docs/spec": 0,
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
	capitals := regexp.MustCompile(`^([A-Z]\w*(\.[A-Z]\w*)?|core\.[A-Z]\w*)$`) // a Locker and an Inspector are a core
	for name := range exports(t, ".") {
		if capitals.MatchString(name) {
			got["exported names and methods"]++
		}
		if strings.HasPrefix(name, "With") {
			got["options"]++
		}
	}
	for _, room := range []string{"election", "fence", "fence/fencetest", "finding"} {
		for name := range exports(t, room) {
			if capitals.MatchString(name) {
				got["exported names of "+room]++
			}
		}
	}
	r := read(t)
	for _, text := range r.gos {
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120 {
				got["Go lines over 120 characters"]++
			}
		}
	}
	for name, text := range r.texts {
		dir := path.Dir(name)
		if dir == "docs" || dir == "docs/adr" || dir == "docs/spec" || name == "README.md" || name == "CHANGELOG.md" {
			got["words of README, CHANGELOG, docs, docs/adr and docs/spec"] += float64(len(strings.Fields(text)))
		}
		if dir == "docs" {
			got["pages of docs"]++
		}
	}
	lines, rooms := map[string]float64{}, rooms(t)
	for name, text := range r.gos {
		lines[share(name, rooms)] += float64(strings.Count(text, "\n"))
	}
	got["Go lines that a program links"] = lines[linked]
	got["Go lines of tests, times what they test"] = lines[tests] / (lines[linked] + lines[beside])
	got["Go lines of the laboratory, times what a program links"] = lines[laboratory] / lines[linked]
	got["Go lines of bench and examples"] = lines[shows]
	got["tracked kilobytes"] = trackedBytes(t) / 1000
	for name := range r.paths {
		if path.Base(name) == "go.mod" {
			got["direct requirements of "+name] = float64(requirements(t, filepath.Join(root, name)))
		}
	}
	budget.Judge(t, "../testdata/budgets.txt", "building", budget.Fails, got)
}

// Shares of the Go files.
const (
	linked     = "linked"     // by a user's program: the rooms of architecture.md
	beside     = "beside"     // the product's other packages: the command, what users' tests and other libraries need
	tests      = "tests"      // of these two, beside them
	laboratory = "laboratory" // simulation, real masters, mutants, and what checks the building
	shows      = "shows"      // bench and examples
)

// share returns to which share a Go file belongs.
func share(name string, rooms map[string][]string) string {
	dir, _, _ := strings.Cut(name, "/")
	switch _, room := rooms[path.Dir(name)]; {
	case dir == "bench" || dir == "examples":
		return shows
	case room || dir == name || slices.Contains(strings.Fields("cmd election fence gocron goredis otel redlocktest"), dir):
		if strings.HasSuffix(name, "_test.go") {
			return tests
		}
		if room || dir == name {
			return linked
		}
		return beside
	default:
		return laboratory
	}
}

// trackedBytes returns the size of all files that git knows, as they are here. Of an archive without git's data, these
// are all that there are.
func trackedBytes(t *testing.T) (sum float64) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if err != nil {
		names = slices.Collect(maps.Keys(read(t).paths))
	}
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && !info.IsDir() { // or gone, and not yet committed
			sum += float64(info.Size())
		}
	}
	return sum
}

// The price of a feature in all layers: lines of the files and functions whose names speak of it. Nothing is judged.
var features = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"Once", regexp.MustCompile(`(?i)once|/runs/|job`)},
	{"two lists, registry", regexp.MustCompile(`(?i)lists|rivals|registry|refusal|conflict|exclude|change(of)?nodes`)},
	{"Watch, values", regexp.MustCompile(`(?i)watch|value|shown`)},
	{"semaphore", regexp.MustCompile(`(?i)semaphore|slots/|permit`)},
	{"readers", regexp.MustCompile(`(?i)reader|rlock`)},
	{"LockAll", regexp.MustCompile(`(?i)lockall|several|allnames`)},
	{"ForceUnlock", regexp.MustCompile(`(?i)force|revo[ck]`)},
	{"ticket", regexp.MustCompile(`(?i)ticket|handover|handedover|adopt`)},
	{"maximum hold", regexp.MustCompile(`(?i)hold_?max|maxhold|maximum`)},
	{"shutdown", regexp.MustCompile(`(?i)shutdown`)},
	{"ties", regexp.MustCompile(`(?i)(^|[a-z_/])ties?[._A-Z]|^ties?[A-Z_.]`)},
}

func TestBudgetsOfFeatures(t *testing.T) {
	r, rooms := read(t), rooms(t)
	count := func(pattern *regexp.Regexp, text string, of *regexp.Regexp) (n int) {
		for _, m := range of.FindAllStringSubmatch(text, -1) {
			if pattern.MatchString(m[1]) {
				n++
			}
		}
		return n
	}
	var bugs strings.Builder
	for _, name := range cases.Must(filepath.Glob("../internal/mutants/bugs/*.txt"))(t) {
		bugs.Write(cases.Must(os.ReadFile(name))(t))
	}
	defects := string(cases.Must(os.ReadFile("track-record/defects.txt"))(t))
	prices := make([]map[string]int, len(features))
	for i := range prices {
		prices[i] = map[string]int{}
	}
	for name, text := range r.gos {
		declared := functions(t, name, text)
		for i, f := range features {
			if f.pattern.MatchString(name) {
				prices[i][share(name, rooms)] += strings.Count(text, "\n")
				continue
			}
			for function, lines := range declared {
				if f.pattern.MatchString(function) {
					prices[i][share(name, rooms)] += lines
				}
			}
		}
	}
	t.Logf("%-20s %8s %8s %10s %8s %8s", "price", "product", "tests", "laboratory", "mutants", "defects")
	for i, f := range features {
		lines, pattern := prices[i], f.pattern
		t.Logf("%-20s %8d %8d %10d %8d %8d", f.name, lines[linked]+lines[beside], lines[tests], lines[laboratory],
			count(pattern, bugs.String(), regexp.MustCompile(`(?m)^(\S.*)$`)),
			count(pattern, defects, regexp.MustCompile(`(?m)^([^#\s][^|]*\|[^|]*)\|`)))
	}
}

// functions returns how many lines each function of a file has, by its receiver and its name.
func functions(t *testing.T, name, text string) map[string]int {
	t.Helper()
	files, lines := token.NewFileSet(), map[string]int{}
	for _, decl := range cases.Must(parser.ParseFile(files, name, text, parser.SkipObjectResolution))(t).Decls {
		if f, is := decl.(*ast.FuncDecl); is {
			receiver := ""
			if f.Recv != nil {
				receiver = types.ExprString(f.Recv.List[0].Type)
			}
			lines[receiver+"."+f.Name.Name] += files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
		}
	}
	return lines
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
