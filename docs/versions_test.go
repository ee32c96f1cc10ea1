package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// The Go version that pages name is the one of go.mod.
func TestGoVersion(t *testing.T) {
	mod := cases.Must(os.ReadFile(root + "/go.mod"))(t)
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

// Whoever gets one of the modules that are published with this one gets the newest release of it, not what stands in
// the replace directive beside it.
func TestModulesRequireTheNewestRelease(t *testing.T) {
	release := regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$`)
	m := release.FindStringSubmatch(read(t).texts["CHANGELOG.md"])
	if m == nil {
		t.Fatal("CHANGELOG.md names no release")
	}
	for _, module := range []string{"otel", "gocron", "goredis"} {
		mod := cases.Must(os.ReadFile(root + "/" + module + "/go.mod"))(t)
		if want := "github.com/quorumlock/redlock " + m[1] + "\n"; !strings.Contains(string(mod), want) {
			t.Errorf("%s/go.mod: want %s", module, want)
		}
	}
}
