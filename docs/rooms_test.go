package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

const module = "github.com/quorumlock/redlock"

// The table of rooms in architecture.md says what each package of the library uses: no more and no less than it
// imports. Nothing points up, then, since an import cannot.
func TestRooms(t *testing.T) {
	rooms := rooms(t)
	for room, want := range rooms {
		got := []string{}
		for _, path := range goList(t, "-f", `{{join .Imports "\n"}}`, "./"+strings.TrimPrefix(room, "redlock")) {
			if used, inside := strings.CutPrefix(path, module+"/"); inside {
				got = append(got, used)
			}
		}
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

// rooms returns the packages in the table of architecture.md, each with those that it says it uses.
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	text := cases.Must(os.ReadFile("architecture.md"))(t)
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
	return rooms
}

// goList returns the lines that go list prints of packages of this module, tests aside.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = root
	out := cases.Must(list.Output())(t)
	return strings.Fields(string(out))
}
