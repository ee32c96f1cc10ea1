package docs_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/quorumlock/redlock"

// The table of rooms in architecture.md says what each package of the library uses: no more and no less than it
// imports. Nothing points up, then, since an import cannot.
func TestRooms(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]*\\|[^|]*\\| ([^|]*) \\|$")
	for _, row := range row.FindAllStringSubmatch(string(text), -1) {
		uses := []string{}
		for _, name := range code.FindAllString(row[2], -1) {
			uses = append(uses, strings.Trim(name, "`"))
		}
		rooms[row[1]] = uses
	}
	if len(rooms) < 6 {
		t.Fatalf("the table has %d rooms", len(rooms))
	}
	for room, want := range rooms {
		dir := filepath.Join("..", strings.TrimPrefix(room, "redlock"))
		got := imports(t, dir)
		if !slices.Equal(got, want) {
			t.Errorf("%s uses %v, and architecture.md says %v", room, got, want)
		}
		for _, used := range got {
			if rooms[used] == nil {
				t.Errorf("%s uses %s, which is no room of architecture.md", room, used)
			}
		}
	}
}

// imports returns what the package in dir imports of this module, tests aside.
func imports(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no sources, %v", dir, err)
	}
	ours := []string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range source.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if inside, ok := strings.CutPrefix(path, module+"/"); ok && !slices.Contains(ours, inside) {
				ours = append(ours, inside)
			}
		}
	}
	slices.Sort(ours)
	return ours
}
