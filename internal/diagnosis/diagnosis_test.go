package diagnosis

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// Each scenario of testdata/findings.txt has the findings that stand there, word for word, and each row of the table is
// in one of them.
func TestFindings(t *testing.T) {
	text := cases.Must(os.ReadFile("testdata/findings.txt"))(t)
	untried := slices.Clone(table)
	for scenario := range strings.SplitSeq(string(text), "\n\n") {
		facts, want, _ := strings.Cut(scenario, "\n  finds ")
		name, facts, _ := strings.Cut(facts, "\n")
		if name[0] == '#' {
			continue
		}
		f := new(Facts)
		for line := range strings.Lines(facts) {
			word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if err := f.set(word, strings.TrimSpace(value)); err != nil {
				t.Fatalf("%s: %s: %v", name, word, err)
			}
		}
		var found []string
		for _, of := range Findings(f) {
			found = append(found, fmt.Sprintf("%s, %s: %s", of.Code, of.Severity, of.Text))
			if of.Remedy != "" {
				found[len(found)-1] += " remedy " + of.Remedy
			}
		}
		want = strings.Join(strings.Fields(want), " ")
		if got := strings.Join(found, " finds "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		untried = slices.DeleteFunc(untried, func(r row) bool { return r.when(f) })
	}
	for _, r := range untried {
		t.Errorf("no scenario has %q: %q", r.code, r.text)
	}
}

// An administrator looks up each code.
func TestCodesAreExplained(t *testing.T) {
	page := cases.Must(os.ReadFile("../../docs/operations.md"))(t)
	for _, r := range table {
		code := string(r.code)
		if !strings.Contains(code, "{") && !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/operations.md does not explain %s", r.code)
		}
	}
}

// set sets the field of that name.
func (f *Facts) set(name, value string) (err error) {
	at := reflect.ValueOf(f).Elem().FieldByName(name)
	if !at.IsValid() {
		return errors.New("no such fact")
	}
	switch field := at.Addr().Interface().(type) {
	case *string:
		*field = value
	case *bool, *int64:
		_, err = fmt.Sscan(value, field)
	case *time.Duration:
		*field, err = time.ParseDuration(value)
	case *[][]string:
		*field, f.OwnInWords = lists(value), value
	case *map[string]string:
		addr, why, _ := strings.Cut(value, " ")
		*field = map[string]string{addr: why}
	case *[]Clients:
		words := strings.Split(value, ", ")
		c := Clients{Lists: lists(words[0]), InWords: words[0]}
		for _, word := range words[1:] {
			kind, of, _ := strings.Cut(word, " ")
			c.Conflict = c.Conflict || kind == "conflict"
			if kind == "elsewhere" {
				c.Elsewhere = true
				c.InWords += " (where " + of + " is another master)"
			}
			if kind == "seen" || kind == "gone" {
				c.Gone = kind == "gone"
				c.Seen, err = strconv.Atoi(of)
			}
		}
		*field = append(*field, c)
	default:
		err = fmt.Errorf("set does not know %T", field)
	}
	return err
}

// lists parses "a b c", or "a b c to a b d".
func lists(text string) (all [][]string) {
	for list := range strings.SplitSeq(text, " to ") {
		all = append(all, strings.Fields(list))
	}
	return all
}
