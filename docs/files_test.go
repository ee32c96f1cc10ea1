package docs_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Two files that use each other can only be read together. Where the root has such a pair, architecture.md has it, too,
// with the reason.
func TestMutualFiles(t *testing.T) {
	uses := usesBetweenFiles(t, "..")
	var got []string
	for pair := range uses {
		if back := [2]string{pair[1], pair[0]}; pair[0] < pair[1] && uses[back] != nil {
			got = append(got, pair[0]+" "+pair[1])
		}
	}
	slices.Sort(got)
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)\\.go`, `([a-z_]+)\\.go` \\| \\S.*\\|$")
	for _, pair := range row.FindAllStringSubmatch(string(text), -1) {
		want = append(want, pair[1]+" "+pair[2])
	}
	for _, pair := range got {
		if !slices.Contains(want, pair) {
			a, b, _ := strings.Cut(pair, " ")
			t.Errorf("%s.go and %s.go use each other, and architecture.md gives no reason:\n%s → %s: %v\n%s → %s: %v",
				a, b, a, b, uses[[2]string{a, b}], b, a, uses[[2]string{b, a}])
		}
	}
	for _, pair := range want {
		if !slices.Contains(got, pair) {
			t.Errorf("architecture.md: %s do not use each other any more: delete the row", pair)
		}
	}
	t.Logf("%d mutual pairs", len(got))
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
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	build.Default.CgoEnabled = false // the importer would need a C compiler
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: sources}
	pkg, err := config.Check("github.com/quorumlock/redlock", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	name := func(at token.Pos) string {
		return strings.TrimSuffix(filepath.Base(fset.Position(at).Filename), ".go")
	}
	uses := map[[2]string][]string{}
	for id, object := range info.Uses {
		from, to := name(id.Pos()), name(object.Pos())
		if object.Pkg() != pkg || from == to {
			continue
		}
		pair := [2]string{from, to}
		if text := fmt.Sprint(object.Name()); !slices.Contains(uses[pair], text) {
			uses[pair] = append(uses[pair], text)
		}
	}
	return uses
}
