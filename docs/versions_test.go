package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The Go version that pages name is the one of go.mod.
func TestGoVersion(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if m == nil {
		t.Fatal("go.mod names no Go version")
	}
	want := "Go " + string(m[1])
	texts := read(t).texts
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/getting-started.md", "docs/versions.md"} {
		if !strings.Contains(texts[page], want) {
			t.Errorf("%s: want %s", page, want)
		}
	}
}
