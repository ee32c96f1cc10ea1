package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// How old the figures of a page may become: so many commits may have changed the library since it was measured. Then
// somebody measures again, or the page says why not. Few commits change how fast a lock is, and measuring all of it
// takes half an hour; what a crowd costs has grown unseen before.
var ages = []struct {
	page    string
	commits int
}{
	{"scale.md", 15},
	{"benchmarks.md", 50},
}

func TestFiguresAreOfThisLibrary(t *testing.T) {
	needHistory(t)
	changes := libraryChanges(t)
	for _, a := range ages {
		text, err := os.ReadFile(a.page)
		if err != nil {
			t.Fatal(err)
		}
		said, err := tooOld(string(text), a.commits, changes)
		if err != nil {
			t.Errorf("%s: %v", a.page, err)
			continue
		}
		t.Logf("%s: %s", a.page, said)
	}
}

var (
	measuredAt = regexp.MustCompile("(?i)\\bmeasured at commit `([0-9a-f]{7,40})\\+?`") // +: some code was not committed
	excused    = regexp.MustCompile("\\bNot measured again since `([0-9a-f]{7,40})`, because \\S")
)

// tooOld fails if a page is older than it may be, and says else how old it is. changes are the commits that changed the
// library since another.
func tooOld(text string, limit int, changes func(commit string) ([]string, error)) (string, error) {
	m := measuredAt.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("want a commit, as in %q", "measured at commit `0123abc`")
	}
	since := m[1]
	all, err := changes(since)
	if err != nil {
		return "", err
	}
	if m := excused.FindStringSubmatch(text); m != nil {
		rest, err := changes(m[1])
		if err != nil {
			return "", err
		}
		if len(rest) > len(all) {
			return "", fmt.Errorf("measured at %s, which is later than %s: delete the sentence with the reason", since, m[1])
		}
		since, all = m[1], rest
	}
	if len(all) > limit {
		return "", fmt.Errorf("%d commits have changed the library since %s, want %d at most: measure again "+
			"(benchmarks.md says how), or write \"Not measured again since `%s`, because …\"; they are\n%s",
			len(all), since, limit, strings.Fields(all[0])[0], strings.Join(all, "\n"))
	}
	return fmt.Sprintf("%d of %d commits since %s", len(all), limit, since), nil
}

func TestAPageIsTooOld(t *testing.T) {
	history := []string{"aaaaaa1", "aaaaaa2", "aaaaaa3", "aaaaaa4"} // the newest is the first
	changes := func(commit string) ([]string, error) {
		for i, c := range history {
			if c == commit {
				return history[:i], nil
			}
		}
		return nil, fmt.Errorf("unknown commit %s", commit)
	}
	const old = "Measured at commit `aaaaaa4`, long ago."
	const since, why = " Not measured again since ", ", because only words changed."
	for text, want := range map[string]string{ // an error that contains this; "": none
		"No figures.":                       "want a commit",
		old:                                 "3 commits",
		"x; measured at commit `aaaaaa2`":   "",
		"measured at commit `aaaaaa3+`.":    "",
		"measured at commit `bbbbbbb`":      "unknown commit bbbbbbb",
		old + since + "`aaaaaa2`" + why:     "",
		old + since + "`aaaaaa2`, because ": "3 commits",
		old + since + "`aaaaaa2`.":          "3 commits",
		old + since + "`bbbbbbb`" + why:     "unknown commit bbbbbbb",
		"measured at commit `aaaaaa1`." + since + "`aaaaaa2`" + why: "later than aaaaaa2",
	} {
		said, err := tooOld(text, 2, changes)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %q, %v; want an error with %q", text, said, err, want)
		}
	}
}

// needHistory skips a test where the commits are not all there: in an archive, in a shallow clone, without git.
func needHistory(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(root + "/.git"); err != nil {
		t.Skip("this is no clone: nobody can say what became of the commits that pages name")
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		t.Skipf("git does not read this clone: nobody can say what became of the commits that pages name: %v", err)
	}
	if shallow == "true" {
		t.Skip("this clone is shallow, so nobody can say what became of the commits that pages name: git fetch --unshallow")
	}
	// go test repeats a result that it has kept as long as the files are the same that a test has looked at. Commits are
	// made in other files; this one grows with each.
	if log, err := git("rev-parse", "--git-path", "logs/HEAD"); err == nil {
		if !filepath.IsAbs(log) {
			log = filepath.Join(root, log)
		}
		_, _ = os.Stat(log) // an unborn log is no reason to fail
	}
}

func git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// libraryChanges returns a function that lists the commits since another that changed what the library consists of:
// without tests, as they cost no user anything.
func libraryChanges(t *testing.T) func(commit string) ([]string, error) {
	t.Helper()
	paths := []string{":(glob)*.go"}
	for _, path := range goList(t, "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", ".") {
		if pkg, inside := strings.CutPrefix(path, module+"/"); inside {
			paths = append(paths, pkg)
		}
	}
	paths = append(paths, ":(exclude,glob)**/*_test.go", ":(exclude,glob)**/testdata/**")
	return func(commit string) ([]string, error) {
		if _, err := git("merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
			return nil, fmt.Errorf("the commit %s is no part of the history: was it amended, or never pushed? %w", commit, err)
		}
		out, err := git(append([]string{"log", "--format=%h %s", commit + "..HEAD", "--"}, paths...)...)
		if out == "" || err != nil {
			return nil, err
		}
		return strings.Split(out, "\n"), nil
	}
}
