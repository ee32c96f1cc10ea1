// Package examples has programs to read and to run: see README.md.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// Every program says what its README promises.
func TestExamples(t *testing.T) {
	want := map[string][]string{
		"flashsale": {"sold 100, left 0"},
		"fencedsql": {
			"the second till sold one",
			"the first till's token is smaller: true",
			"the first till's write is refused: true",
			"the second till unlocks: <nil>",
			"units left: 9",
		},
		"peruser": {
			"ann, on another machine: 409",
			"ben, meanwhile: 200",
			"cid, with two masters down: 200",
			"ann's first request, done when three are down: 200",
			"ann, with three masters down: 503",
		},
	}
	readme := cases.Must(os.ReadFile("README.md"))(t)
	dirs, err := filepath.Glob("*/main.go")
	if err != nil || len(dirs) != len(want) {
		t.Errorf("got %q and %v, want the %d programs that are tested", dirs, err, len(want))
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, lines := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(readme), "`go run -C examples ./"+name+"`") {
				t.Error("README.md does not say how to run it")
			}
			program, logged := exec.Command(filepath.Join(bin, name)), new(strings.Builder)
			program.Stderr = logged
			out, err := program.Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != strings.Join(lines, "\n") {
				t.Errorf("got %v and\n%s\nwant\n%s", err, got, strings.Join(lines, "\n"))
			}
			if said := logged.String(); name != "peruser" && said != "" ||
				name == "peruser" && (strings.Count(said, "\n") != 1 || !strings.Contains(said, "no quorum")) {
				t.Errorf("logged %q", said)
			}
		})
	}
}
