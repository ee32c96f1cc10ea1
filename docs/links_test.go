// Package docs_test checks the documentation against the repository.
package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/quorumlock/redlock/internal/cases"
)

const (
	root    = ".."
	folders = `cmd|internal|integration|bench|docs|redlocktest|examples|scripts|lua`
)

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```[ \t]*$")
	indented = regexp.MustCompile(`(?m)^    .*$`)
	code     = regexp.MustCompile("`[^`\n]+`")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?)\s*$`)

	// What a span of code is taken for. Names of other things have no slash or no such ending.
	file     = regexp.MustCompile(`^(?:[\w.-]+/)*[\w.-]+\.(?:go|lua|md|yml|json|svg)$`)
	dir      = regexp.MustCompile(`^(?:` + folders + `)(?:/[\w.-]+)*/?$`)
	testName = regexp.MustCompile(`^(?:Test|Example|Fuzz|Benchmark)[A-Z]\w*$`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
)

// repository is what the texts can refer to.
type repository struct {
	texts map[string]string // *.md: path from the root, content
	gos   map[string]string // *.go
	paths map[string]bool   // all files and directories
	bases map[string]bool   // the last elements of their paths
	tests map[string]bool   // tests, examples, fuzz targets, benchmarks
}

func read(t *testing.T) *repository {
	t.Helper()
	r := &repository{
		texts: map[string]string{}, gos: map[string]string{},
		paths: map[string]bool{}, bases: map[string]bool{}, tests: map[string]bool{},
	}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (rel == ".git" || rel == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		r.paths[rel], r.bases[path.Base(rel)] = true, true
		into := map[string]map[string]string{".md": r.texts, ".go": r.gos}[path.Ext(rel)]
		if d.IsDir() || into == nil {
			return nil
		}
		content, err := os.ReadFile(name)
		into[rel] = string(content)
		return err
	})
	cases.NoError(t, err)
	for _, content := range r.gos {
		for _, m := range function.FindAllStringSubmatch(content, -1) {
			r.tests[m[1]] = true
		}
	}
	if len(r.texts) == 0 || len(r.tests) == 0 {
		t.Fatal("nothing found: this checks nothing")
	}
	return r
}

// anchors returns the fragments of a text's headings, made as code hosts make them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found[anchor(m[1])] = true
	}
	return found
}

func anchor(title string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, title)
}

func TestAnchor(t *testing.T) {
	for title, want := range map[string]string{
		"Restarts":               "restarts",
		"redlock demo":           "redlock-demo",
		"Nothing fails, but…":    "nothing-fails-but",
		"From bsm/redislock":     "from-bsmredislock",
		"SQL: one table for all": "sql-one-table-for-all",
	} {
		cases.Equals(t, anchor(title), want, "%q", title)
	}
}

// Links to other hosts are not followed: this test needs no network.
func TestLinks(t *testing.T) {
	r := read(t)
	for name, text := range r.texts {
		text = code.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %q: %v", name, m[1], err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if !r.paths[to] {
				t.Errorf("%s: there is no %s", name, to)
			} else if u.Fragment != "" && path.Ext(to) == ".md" && !anchors(r.texts[to])[u.Fragment] {
				t.Errorf("%s: %s has no heading #%s", name, to, u.Fragment)
			}
		}
	}
}

// Files, directories and tests that a text names in code type exist.
func TestNames(t *testing.T) {
	r := read(t)
	// Files that readers make.
	readers := map[string]bool{"main.go": true, "cpu.pprof": true, "a.json": true, "b.json": true}
	for name, text := range r.texts {
		text = indented.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, span := range code.FindAllString(text, -1) {
			span = strings.Trim(span, "`")
			if in, test, ok := strings.Cut(span, ".Test"); ok && r.paths[in] {
				span = "Test" + test // of another package than the root
			}
			switch {
			case testName.MatchString(span):
				if !r.tests[span] {
					t.Errorf("%s: there is no test or example %s", name, span)
				}
			case file.MatchString(span) && !readers[span], dir.MatchString(span):
				at := strings.TrimSuffix(span, "/")
				if !r.paths[at] && !r.paths[path.Join(path.Dir(name), at)] && (strings.Contains(at, "/") || !r.bases[at]) {
					t.Errorf("%s: there is no %s", name, span)
				}
			}
		}
	}
}

// Some page links to each page.
func TestEveryPageIsLinked(t *testing.T) {
	r := read(t)
	linked := map[string]bool{"README.md": true, "CHANGELOG.md": true}
	for name, text := range r.texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, _, _ := strings.Cut(m[1], "#")
			linked[path.Join(path.Dir(name), to)] = true
		}
	}
	for name := range r.texts {
		if strings.HasPrefix(name, "docs/") && !linked[name] {
			t.Errorf("no page links to %s", name)
		}
	}
}
