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

// Each row of track-record.md can be run again: it has an ID of its own, commits that exist, the oldest that has the
// defect before the mend, and a command of a form that scripts/track-record takes. The script reads the same rows.
func TestTrackRecord(t *testing.T) {
	const commit = "`([0-9a-f]{7})(?:\\.\\.([0-9a-f]{7}))?`"
	row := regexp.MustCompile("^\\| `([a-z0-9-]+)` \\| [^|]+ \\| [^|]+ \\| (?:first|" + commit + ") \\| " + commit +
		" \\| `go test(?: -race| -C [a-z]+)* \\.[a-z/]* -run Test\\w+(?: -(?:seeds?|count) \\d+)*` \\|$")
	mended := map[string]bool{} // pairs of commits, the one with the defect before the one without
	var ids []string
	text := string(cases.Must(os.ReadFile("track-record.md"))(t))
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("this is no row of which scripts/track-record knows what to run: %s", line)
			continue
		}
		if slices.Contains(ids, m[1]) {
			t.Errorf("%s: two rows have this ID", m[1])
		}
		ids = append(ids, m[1])
		if m[2] != "" {
			mended[m[2]+" "+m[4]] = true
		}
		if m[5] != "" {
			mended[m[4]+" "+m[5]] = true
		}
	}
	listed, err := exec.Command("../scripts/track-record").Output()
	cases.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(listed)) {
		got = append(got, strings.Fields(line)[0])
	}
	if !slices.Equal(got, ids) {
		t.Errorf("scripts/track-record lists\n%v, want\n%v", got, ids)
	}

	needHistory(t)
	for _, m := range regexp.MustCompile(commit).FindAllStringSubmatch(text, -1) {
		if _, err := git("merge-base", "--is-ancestor", m[1], "HEAD"); err != nil {
			t.Errorf("no commit before this one is %s: %v", m[1], err)
		}
	}
	for pair := range mended {
		older, newer, _ := strings.Cut(pair, " ")
		if _, err := git("merge-base", "--is-ancestor", older, newer); err != nil {
			t.Errorf("%s does not come before %s: %v", older, newer, err)
		}
	}
}
