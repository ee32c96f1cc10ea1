package agreement

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

const ms = time.Millisecond

func TestCompareSettings(t *testing.T) {
	read := func(at, text string) (list []settings) {
		for word := range strings.FieldsSeq(text) {
			var d [3]time.Duration
			for i, part := range strings.Split(word, "/") {
				var err error
				if d[i], err = time.ParseDuration(part + "s"); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
			}
			list = append(list, settings{d[0], d[1], d[2]})
		}
		return list
	}
	for at, cells := range cases.Rows(t, "testdata/settings.txt", 4) {
		want, part := cells[2], cells[3]
		unsafe, text, remedy := read(at, cells[0])[0].compare(read(at, cells[1]))
		got := "agree"
		switch {
		case unsafe:
			got = "unsafe"
		case text != "":
			got = "differ"
		}
		if got != want || !strings.Contains(text, part) || (remedy == "") != (text == "") {
			t.Errorf("%s: got %s, %q and %q, want %s and %q", at, got, text, remedy, want, part)
		}
		if strings.Contains(text, "twice") != unsafe {
			t.Errorf("%s: the text %q does not say why it is unsafe, or says so of what is safe", at, text)
		}
	}
}

func TestParseSettings(t *testing.T) {
	if got := readSettings(slices.Repeat([]string{settings{}.String(), "guard"}, 1000)); len(got) != maxTold/2 {
		t.Errorf("got %d settings of two thousand, want %d", len(got), maxTold/2)
	}
	for _, s := range []settings{{}, {30 * time.Second, time.Minute, 10 * time.Second}, {ms, 2 * ms, 3 * ms}} {
		if got, ok := parseSettings(s.String()); !ok || got != s {
			t.Errorf("%v: got %v", s, got)
		}
	}
	for _, text := range []string{
		"", "guard=1", "guard=-1 retention=1 ttl=1", "guard=1 retention=1 ttl=9223372036854775807",
		"guard=x retention=1 ttl=1",
	} {
		if got, ok := parseSettings(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
