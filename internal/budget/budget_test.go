package budget

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that notes what it is told.
type recorder struct {
	testing.TB
	logs, errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Log(args ...any)   { r.logs = append(r.logs, fmt.Sprint(args...)) }
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

const small = `
# a comment
start:
dials | 1.1 | docs/scale.md
bytes | 100 | -
none  | 0   | -
other:
dials | 5 | -
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJudge(t *testing.T) {
	path := write(t, small)
	kept := map[string]float64{"dials": 1.1, "bytes": 90, "none": 0}
	with := func(name string, value float64) map[string]float64 {
		values := map[string]float64{"dials": 1.1, "bytes": 90, "none": 0}
		values[name] = value
		return values
	}
	for _, c := range []struct {
		name   string
		below  Below
		values map[string]float64
		logs   string // the end of a row that is logged
		errors string // a part of the only error; "": there is none
	}{
		{"all kept", Fails, kept, "", ""},
		{"one exceeded", Told, with("bytes", 101), "", string(Exceeded)},
		{"a fraction exceeded", Told, with("dials", 1.11), "", string(Exceeded)},
		{"none at all exceeded", Told, with("none", 1), "", string(Exceeded)},
		{"one far below", Told, with("bytes", 89), string(Generous), ""},
		{"one far below, which fails", Fails, with("bytes", 89), "", string(Generous)},
		{"a value without a row", Told, with("more", 7), "", `no row for "more" of "start", which is 7`},
		{"a row without a value", Told, map[string]float64{"dials": 1.1, "none": 0}, "", `nobody measures "bytes"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			Judge(r, path, "start", c.below, c.values)
			switch {
			case c.errors == "" && len(r.errors) > 0:
				t.Errorf("got the errors %q, want none", r.errors)
			case c.errors != "" && (len(r.errors) != 1 || !strings.Contains(r.errors[0], c.errors)):
				t.Errorf("got the errors %q, want one with %q", r.errors, c.errors)
			}
			if !slices.ContainsFunc(r.logs, func(row string) bool { return strings.HasSuffix(row, c.logs) }) {
				t.Errorf("logged %q, want a row with %q", r.logs, c.logs)
			}
			if all := len(r.logs) + len(r.errors); all < 3 || all > 4 {
				t.Errorf("%d rows and errors: %q, %q", all, r.logs, r.errors)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, bad := range []string{
		"dials | 1 | -", "start:\ndials | 1", "start:\ndials | one | -", "start:\ndials | -1 | -", "start:\n | 1 | -",
		"start:\ndials | 1 | -\ndials | 2 | -",
	} {
		if table, err := Read(write(t, bad)); err == nil {
			t.Errorf("%q was read as %v", bad, table)
		}
	}
}

// The pages that claim what is counted exist.
func TestTable(t *testing.T) {
	table, err := Read("../../testdata/budgets.txt")
	if err != nil || len(table) < 20 {
		t.Fatalf("%d rows, %v", len(table), err)
	}
	for _, row := range table {
		if row.Page != "" {
			if _, err := os.Stat(filepath.Join("../..", row.Page)); err != nil {
				t.Errorf("%s, %s: %v", row.Section, row.What, err)
			}
		}
	}
}
