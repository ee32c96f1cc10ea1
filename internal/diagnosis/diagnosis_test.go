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
)

var severities = []string{Note: "note", Degraded: "degraded", Unavailable: "unavailable", Unsafe: "unsafe"}

// Each scenario of testdata/findings.txt has the findings that stand there, word for word, and each row of the table is
// in one of them.
func TestFindings(t *testing.T) {
	text, err := os.ReadFile("testdata/findings.txt")
	if err != nil {
		t.Fatal(err)
	}
	untried := slices.Clone(table)
	var name string
	f, want, last := new(Facts), []Finding(nil), (*string)(nil) // last: the text of the line above
	check := func() {
		got := Findings(f)
		for i := range min(len(got), len(want)) {
			switch want[i].Remedy {
			case "":
				want[i].Remedy = got[i].Remedy
			case "none":
				want[i].Remedy = ""
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
		}
		untried = slices.DeleteFunc(untried, func(r row) bool { return r.when(f) })
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case word == "" || word[0] == '#':
		case line[0] != ' ':
			check()
			name = strings.TrimSpace(line)
			f, want = new(Facts), nil
		case strings.HasPrefix(line, "          "):
			*last += " " + strings.TrimSpace(line)
		case word == "finds":
			head, said, _ := strings.Cut(rest, ": ")
			code, severity, _ := strings.Cut(head, ", ")
			want = append(want, Finding{code, Severity(slices.Index(severities, severity)), said, ""})
			last = &want[len(want)-1].Text
		case word == "remedy":
			last = &want[len(want)-1].Remedy
			*last = rest
		default:
			if err := f.set(word, rest); err != nil {
				t.Fatalf("%s: %s: %v", name, word, err)
			}
		}
	}
	check()
	for _, r := range untried {
		t.Errorf("no scenario has %q: %q", r.code, r.text)
	}
}

// An administrator looks up each code.
func TestCodesAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table {
		if !strings.Contains(r.code, "{") && !strings.Contains(string(page), "`"+r.code+"`") {
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
	case *bool:
		*field, err = strconv.ParseBool(value)
	case *int64:
		*field, err = strconv.ParseInt(value, 10, 64)
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
