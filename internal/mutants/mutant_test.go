package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// A mutant whose text is gone from the sources proves nothing: bring the list up to date with the code.
func TestEveryMutantAppliesToTheSources(t *testing.T) {
	all := cases.Must(mutants())(t)
	seen := map[string]bool{}
	for _, m := range all {
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
	for _, m := range all {
		if dir, test := m.where(); m.test != "" && !hasTest(t, dir, test) {
			t.Errorf("%s: there is no test %s in %s", m.name, test, dir)
		}
	}
}

// A mutant that does not compile proves nothing either: no test has caught it.
func TestEveryMutantCompiles(t *testing.T) {
	compiler := newCompiler(t)
	for _, m := range cases.Must(mutants())(t) {
		if err := compiler.check(m, t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	broken := mutant{name: "x", changes: []change{{"attempt.go", "highest + 1", "nothing"}}}
	if err := compiler.check(broken, t.TempDir()); err == nil || !strings.Contains(err.Error(), "undefined: nothing") {
		t.Errorf("a mutant that does not compile: got %v", err)
	}
}

// compiler checks the types of changed packages, in a fraction of the time that it takes to build them.
type compiler struct {
	files    *token.FileSet
	importer types.Importer
	parsed   map[string]map[string]*ast.File // by directory and path
}

func newCompiler(t *testing.T) *compiler {
	t.Helper()
	const form = "{{.ImportPath}} {{.Export}}"
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", form, "./...")
	list.Dir = "../.."
	out := cases.Must(list.Output())(t)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	files := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return &compiler{files, importer.ForCompiler(files, "gc", lookup), map[string]map[string]*ast.File{}}
}

// check returns the first error in a package that the mutant changes.
func (c *compiler) check(m mutant, dir string) error {
	overlay, err := m.overlay("../..", dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(overlay)
	if err != nil {
		return err
	}
	var list struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for path := range list.Replace {
		if filepath.Ext(path) != ".go" {
			continue
		}
		all, err := c.parse(filepath.Dir(path))
		if err != nil {
			return err
		}
		all = maps.Clone(all)
		for path, changed := range list.Replace {
			if all[path] != nil {
				if all[path], err = parser.ParseFile(c.files, changed, nil, parser.SkipObjectResolution); err != nil {
					return err
				}
			}
		}
		config := types.Config{Importer: c.importer}
		if _, err := config.Check("mutated", c.files, slices.Collect(maps.Values(all)), nil); err != nil {
			return err
		}
	}
	return nil
}

// parse returns the files of the package in a directory, without its tests.
func (c *compiler) parse(dir string) (map[string]*ast.File, error) {
	if c.parsed[dir] != nil {
		return c.parsed[dir], nil
	}
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	all := map[string]*ast.File{}
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		if all[path], err = parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	c.parsed[dir] = all
	return all, nil
}

// bugs/README.md has a table of the mutants that the simulation catches, and docs/proof.md the number of all.
func TestProofListsEveryMutant(t *testing.T) {
	all := cases.Must(mutants())(t)
	var bySimulation []string
	for _, m := range all {
		if m.test == "" {
			bySimulation = append(bySimulation, m.name)
		}
	}
	page := cases.Must(os.ReadFile("../../docs/proof.md"))(t)
	_, section, _ := strings.Cut(string(page), "\n## The mutants\n")
	section, _, _ = strings.Cut(section, "\n## ")
	readme := string(cases.Must(os.ReadFile("bugs/README.md"))(t))
	seeds := regexp.MustCompile(`(?m)^\| (.*) \| [a-z ]+ \| \d+ \|$`)
	compareRows(t, seeds.FindAllStringSubmatch(readme, -1), bySimulation)
	if sum := fmt.Sprintf("\nThere are %d: ", len(all)); !strings.Contains(section, sum) {
		t.Errorf("docs/proof.md does not say %q", sum)
	}
}

func compareRows(t *testing.T, found [][]string, want []string) {
	t.Helper()
	var got []string
	for _, row := range found {
		got = append(got, row[1])
	}
	for i, row := range want {
		if i >= len(got) || got[i] != row {
			t.Errorf("bugs/README.md: the table lacks %q as row %d", row, i+1)
			return
		}
	}
	if len(got) > len(want) {
		t.Errorf("bugs/README.md has rows of no mutants: %q", got[len(want):])
	}
}

// hasTest reports whether a test of the package in dir has that name.
func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files := cases.Must(filepath.Glob(filepath.Join("../..", dir, "*_test.go")))(t)
	return slices.ContainsFunc(files, func(file string) bool {
		text := cases.Must(os.ReadFile(file))(t)
		return strings.Contains(string(text), "\nfunc "+test+"(")
	})
}

func TestATextThatIsGoneIsAnError(t *testing.T) {
	m := mutant{name: "x", changes: []change{{"drift.go", "no such text", ""}}}
	if _, err := m.overlay("../..", t.TempDir()); err == nil || !strings.Contains(err.Error(), "0 times, want once") {
		t.Errorf("got %v", err)
	}
}

func TestJudge(t *testing.T) {
	for out, want := range map[string]verdict{
		"    sim_test.go:65: seed 12: 3 nodes, more\n        exclusion: a by b\n        replay: x\n": {
			by: "exclusion", seeds: 10, trace: "seed 12: a by b",
		},
		"panic in seed 4: 5 nodes\n\npanic: deadlock\n": {by: "a run that does not end", seeds: 2, trace: "seed 4: deadlock"},
		"panic: close of nil\n\ngoroutine 7\n":          {by: "a panic", trace: "close of nil"},
	} {
		if got, err := judge(out, seedRange{first: 3}); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", out, got, err)
		}
	}
	if _, err := judge("--- FAIL: too little happened", seedRange{}); err == nil {
		t.Error("a failure without a seed counts as caught")
	}
}
