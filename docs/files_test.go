package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// Files that use each other, directly or through files between them, can only be read together. Where a room has such a
// cycle, architecture.md has it, too, with the reason.
func TestCyclesOfFiles(t *testing.T) {
	text := cases.Must(os.ReadFile("architecture.md"))(t)
	want := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+\\.go`(?:, )?){2,})(?: of `([a-z/]+)`)? \\| \\S.*\\|$")
	for _, row := range row.FindAllStringSubmatch(string(text), -1) {
		want[strings.ReplaceAll(strings.ReplaceAll(row[1], "`", ""), ",", "")+" of "+cmp.Or(row[2], "redlock")] = true
	}
	for room := range rooms(t) {
		dir := filepath.Join("..", strings.TrimPrefix(room, "redlock"))
		uses := usesBetweenFiles(t, dir)
		for _, cycle := range cycles(uses) {
			name := strings.Join(cycle, ".go ") + ".go of " + room
			if !want[name] {
				t.Errorf("a cycle for which architecture.md gives no reason: %s", name)
				for pair, names := range uses {
					if slices.Contains(cycle, pair[0]) && slices.Contains(cycle, pair[1]) {
						t.Logf("%s → %s: %v", pair[0], pair[1], names)
					}
				}
			}
			delete(want, name)
		}
	}
	for name := range want {
		t.Errorf("architecture.md: this is no cycle any more: delete the row: %s", name)
	}
}

// cycles returns the largest sets of files in which each uses each other, directly or through files between them.
func cycles(uses map[[2]string][]string) (all [][]string) {
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
	for file, others := range reach {
		var cycle []string
		for other := range others {
			if reach[other][file] {
				cycle = append(cycle, other)
			}
		}
		if slices.Sort(cycle); len(cycle) > 1 && cycle[0] == file {
			all = append(all, cycle)
		}
	}
	return all
}

func TestCycles(t *testing.T) {
	for _, c := range []struct{ uses, want string }{
		{"", "[]"},
		{"ab bc ac", "[]"},
		{"ab ba", "[[a b]]"},
		{"ab bc ca cd", "[[a b c]]"},
		{"ab ba cd de ec", "[[a b] [c d e]]"},
	} {
		uses := map[[2]string][]string{}
		for pair := range strings.FieldsSeq(c.uses) {
			uses[[2]string{pair[:1], pair[1:]}] = []string{"x"}
		}
		got := cycles(uses)
		slices.SortFunc(got, slices.Compare[[]string])
		cases.Equals(t, fmt.Sprint(got), c.want, "%q", c.uses)
	}
}

// The package comment of internal/redisconn says in which order its files can be read.
func TestOrderOfFiles(t *testing.T) {
	text := cases.Must(os.ReadFile("../internal/redisconn/redisconn.go"))(t)
	_, list, _ := strings.Cut(string(text), "in this order: ")
	list, _, _ = strings.Cut(list, ".")
	order := strings.FieldsFunc(list, func(r rune) bool { return r < 'a' })
	for pair, what := range usesBetweenFiles(t, "../internal/redisconn") {
		if user, used := slices.Index(order, pair[0]), slices.Index(order, pair[1]); used < 0 || user < used {
			t.Errorf("%s.go uses %v of %s.go, which is not before it", pair[0], what, pair[1])
		}
	}
}

// Tests stand beside what they test, under its name: in a file that begins with the name of the source. Files of
// helpers alone and of examples may have any name.
func TestTestsStandBesideWhatTheyTest(t *testing.T) {
	tests := regexp.MustCompile(`(?m)^func (Test([^M]|M[^a])|Fuzz|Benchmark)`)
	for room := range rooms(t) {
		dir := filepath.Join("..", strings.TrimPrefix(room, "redlock"))
		for _, path := range cases.Must(filepath.Glob(filepath.Join(dir, "*_test.go")))(t) {
			text := cases.Must(os.ReadFile(path))(t)
			paired := !tests.Match(text) || strings.HasPrefix(filepath.Base(path), "example_")
			words := strings.Split(strings.TrimSuffix(filepath.Base(path), "_test.go"), "_")
			for n := range words {
				_, err := os.Stat(filepath.Join(dir, strings.Join(words[:n+1], "_")+".go"))
				paired = paired || err == nil
			}
			if !paired {
				t.Errorf("%s: there is no source file of this name", path)
			}
		}
	}
}

// What the importer has read of other packages serves all calls of usesBetweenFiles.
var (
	fset    = token.NewFileSet()
	sources = importer.ForCompiler(fset, "source", nil)
)

// usesBetweenFiles returns, for each pair of files of the package in dir, what the first uses that the second declares:
// functions, methods, types, variables. A field counts where it is declared, as it would not compile without that.
func usesBetweenFiles(t *testing.T, dir string) map[[2]string][]string {
	t.Helper()
	build.Default.CgoEnabled = false // the importer would need a C compiler
	var files []*ast.File
	for _, path := range cases.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t) {
		if built, err := build.Default.MatchFile(dir, filepath.Base(path)); !built || strings.HasSuffix(path, "_test.go") {
			cases.NoError(t, err)
			continue
		}
		files = append(files, cases.Must(parser.ParseFile(fset, path, nil, 0))(t))
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: sources}
	pkg := cases.Must(config.Check("github.com/quorumlock/redlock", fset, files, &info))(t)
	name := func(at token.Pos) string { return strings.TrimSuffix(filepath.Base(fset.Position(at).Filename), ".go") }
	uses := map[[2]string][]string{}
	for id, object := range info.Uses {
		from, to := name(id.Pos()), name(object.Pos())
		if object.Pkg() != pkg || from == to {
			continue
		}
		pair := [2]string{from, to}
		if text := object.Name(); !slices.Contains(uses[pair], text) {
			uses[pair] = append(uses[pair], text)
		}
	}
	return uses
}
