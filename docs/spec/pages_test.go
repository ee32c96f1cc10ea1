package spec

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// A trace on a page: the name of the run, its steps, and what is broken in the end.
var traceBlock = regexp.MustCompile("(?s)```text\n([^\n]+):\n\n(.+?)\n```")

// quoted checks the trace that the page beside a model quotes from a run, if it does.
func quoted(t *testing.T, model, run string, got result) {
	t.Helper()
	page, err := os.ReadFile(model + ".md")
	if err != nil {
		t.Fatalf("a model has a page: %v", err)
	}
	for _, block := range traceBlock.FindAllStringSubmatch(string(page), -1) {
		if _, want, _ := strings.Cut(got.String(), "\n"); block[1] == run && block[2] != want {
			t.Errorf("%s.md quotes\n%s\nbut the trace of this run is\n%s", model, block[2], want)
		}
	}
}

// A page quotes runs that there are.
func TestPagesQuoteRuns(t *testing.T) {
	for _, page := range cases.Must(filepath.Glob("*.md"))(t) {
		blocks := traceBlock.FindAllStringSubmatch(string(cases.Must(os.ReadFile(page))(t)), -1)
		if len(blocks) == 0 {
			continue
		}
		file := strings.TrimSuffix(page, ".md") + ".pml"
		model := string(cases.Must(os.ReadFile(file))(t))
		for _, block := range blocks {
			if !strings.Contains(model, "run: "+block[1]+" | ") {
				t.Errorf("%s quotes a trace of %q, and %s has no such run", page, block[1], file)
			}
		}
	}
}
