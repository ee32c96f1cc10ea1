// Package budget compares counts with their limits, which stand in testdata/budgets.txt at the root of the module. The
// tests that take the counts are redlock_budgets_test.go there and budgets_test.go in docs.
package budget

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Row is one line of the table.
type Row struct {
	Section string
	What    string
	Limit   float64 // the largest value that is kept
	Page    string  // that claims it, from the root of the module; "": none
}

// Read reads the table. The head of the file describes it.
func Read(path string) (table []Row, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	section, known := "", make(map[string]bool)
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for at := 1; lines.Scan(); at++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutSuffix(line, ":"); ok {
			section = name
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 3 || section == "" {
			return nil, fmt.Errorf("%s:%d: want a section and a colon, then lines of what | limit | page", path, at)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		row := Row{Section: section, What: cells[0], Page: strings.TrimPrefix(cells[2], "-")}
		if row.Limit, err = strconv.ParseFloat(cells[1], 64); err != nil || row.Limit < 0 {
			return nil, fmt.Errorf("%s:%d: %q is no limit", path, at, cells[1])
		}
		key := section + "|" + row.What
		if row.What == "" || known[key] {
			return nil, fmt.Errorf("%s:%d: no name, or one that the section has above", path, at)
		}
		known[key] = true
		table = append(table, row)
	}
	return table, lines.Err()
}

// Below says what comes of a value that is more than a tenth below its limit.
type Below int

const (
	// Told is for values that vary a little, or with the version of Go: the table says that the limit may be lowered.
	Told Below = iota
	// Fails is for whole numbers that change only when somebody changes them: a gain that nobody writes down is lost again
	// unnoticed.
	Fails
)

// Verdict is how a value compares with its limit.
type Verdict string

// The verdicts, as the table shows them.
const (
	Kept     Verdict = ""
	Exceeded Verdict = "EXCEEDED"
	Generous Verdict = "lower the limit" // the value is more than a tenth below it
)

func (r Row) judge(value float64) Verdict {
	switch {
	case value > r.Limit:
		return Exceeded
	case value < r.Limit*0.9:
		return Generous
	default:
		return Kept
	}
}

// Judge fails the test for each value of the section that exceeds its limit, for each row without a value and for each
// value without a row. It logs the other rows, so that make budgets can print them all.
func Judge(t testing.TB, path, section string, below Below, values map[string]float64) {
	t.Helper()
	table, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(values)
	for _, row := range table {
		if row.Section != section {
			continue
		}
		value, counted := left[row.What]
		delete(left, row.What)
		if !counted {
			t.Errorf("%s: nobody measures %q of %q", path, row.What, section)
			continue
		}
		verdict := row.judge(value)
		text := fmt.Sprintf("%-8s  %-80s %8s %8s  %-21s %s",
			section, row.What, number(value), number(row.Limit), row.Page, verdict)
		if verdict == Exceeded || verdict == Generous && below == Fails {
			t.Error(text)
		} else {
			t.Log(text)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s: there is no row for %q of %q, which is %s", path, what, section, number(values[what]))
	}
}

// number is a value or a limit as the table shows it.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return strconv.FormatInt(int64(v), 10)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
}
