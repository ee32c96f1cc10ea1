package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// Each defect of track-record/defects.txt can be run again: it has an ID of its own, commits that exist, the one that
// brought it before its mend, and a command of a form that scripts/track-record takes. The script reads the same lines.
// Those without an ID have no command, and say what stands for it.
func TestTrackRecord(t *testing.T) {
	const commit = "([0-9a-f]{7})(?:\\.\\.([0-9a-f]{7}))?"
	row := regexp.MustCompile(`^(?:([a-z0-9]+(?:-[a-z0-9]+)*)|-) \| [^|]+ \| [^|]+ \| (?:first|` + commit + `) \| ` +
		commit + ` \| (go test(?: -race| -C [a-z]+)* \.[a-z/]* -run Test\w+(?: -(?:seeds?|count) \d+)*|[^|]+)$`)
	mended := map[string]bool{} // pairs of commits, the one with the defect before the one without
	var commits, ids []string
	text := string(cases.Must(os.ReadFile("track-record/defects.txt"))(t))
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' || strings.HasSuffix(line, ":") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[6], "go test ") != (m[1] != "") {
			t.Errorf("this is no line of which scripts/track-record knows what to run: %s", line)
			continue
		}
		if slices.Contains(ids, m[1]) {
			t.Errorf("%s: two lines have this ID", m[1])
		}
		if m[1] != "" {
			ids = append(ids, m[1])
		}
		commits = append(commits, m[2:6]...)
		if m[2] != "" {
			mended[m[2]+" "+m[4]] = true
		}
		if m[5] != "" {
			mended[m[4]+" "+m[5]] = true
		}
	}
	_, page, _ := strings.Cut(string(cases.Must(os.ReadFile("proof.md"))(t)), "\n## The track record\n")
	page, _, _ = strings.Cut(page, "\n## ")
	if page == "" {
		t.Error("proof.md has no track record")
	}
	for _, m := range regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+)*)`").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(ids, m[1]) {
			t.Errorf("proof.md: there is no defect %s in track-record/defects.txt", m[1])
		}
	}
	listed := cases.Must(exec.Command("../scripts/track-record").Output())(t)
	var got []string
	for line := range strings.Lines(string(listed)) {
		got = append(got, strings.Fields(line)[0])
	}
	if !slices.Equal(got, ids) {
		t.Errorf("scripts/track-record lists\n%v, want\n%v", got, ids)
	}

	needHistory(t)
	for _, commit := range commits {
		if _, err := git("merge-base", "--is-ancestor", commit, "HEAD"); commit != "" && err != nil {
			t.Errorf("no commit before this one is %s: %v", commit, err)
		}
	}
	for pair := range mended {
		older, newer, _ := strings.Cut(pair, " ")
		if _, err := git("merge-base", "--is-ancestor", older, newer); err != nil {
			t.Errorf("%s does not come before %s: %v", older, newer, err)
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
