//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// Where there is no terminal, top shows everything once.
func TestTop(t *testing.T) {
	c := redlocktest.New(t, 5)
	holding(t, c, "run", "--value", "at:8080", "backup")
	cases.Eventually(t, "the key on every node", func() bool { return len(owners(t, c, "backup")) == 5 })
	owner := owners(t, c, "backup")[0]
	c.Kill(1)

	s := begin(t, c, "top", "backup", "n\x1b[2J")
	if got := s.next(); !strings.HasSuffix(got, "  4 of 5 nodes vote") {
		t.Errorf("got %q", got)
	}
	s.expect("")
	s.next() // the head of the table
	for i := range 5 {
		line := s.next()
		if !strings.HasPrefix(line, c.Addr(i)+"  ") || i == 1 != strings.HasSuffix(line, "unreachable") {
			t.Errorf("node %d: %q", i, line)
		}
	}
	s.expect("")
	cases.Equals(t, strings.Join(strings.Fields(s.next()), " "), "NAME HOLDER TOKEN AGE LEFT WAITING NODES VALUE", "as ls")
	got := strings.Fields(s.next())
	if len(got) != 8 || got[0] != "backup" || !strings.Contains(got[1], "/") || !strings.HasSuffix(got[3], "s") ||
		strings.Join(got[5:], " ") != "0 4/5 at:8080" {
		t.Errorf("got %q", got)
	}
	// A name cannot garble the terminal.
	if got := strings.Join(strings.Fields(s.next()), " "); got != `n\x1b[2J - - - - 0 0/5 -` {
		t.Errorf("got %q", got)
	}
	s.end(0, "", "")

	var said struct {
		Voting int
		Nodes  []struct {
			Addr  string
			Votes bool
		}
		Names []struct{ Name, Owner string }
	}
	begin(t, c, "top", "--json", "backup").object(&said)
	if said.Voting != 4 || len(said.Nodes) != 5 || said.Nodes[1].Votes ||
		len(said.Names) != 1 || said.Names[0].Owner != owner {
		t.Errorf("got %+v", said)
	}

	c.Kill(2, 3)
	s = begin(t, c, "top", "backup")
	if code := s.code(); code != exitNoQuorum || s.stderr.String() != "redlock: 2 of 5 nodes vote, a majority is 3\n" {
		t.Errorf("three dead: got %d, %q", code, s.stderr.String())
	}
	begin(t, c, "top", "").end(exitUsage, "", "redlock: ")
}

// The nodes come first, and what does not fit below them is counted.
func TestTopFitsTheTerminal(t *testing.T) {
	v := &view{nodes: make([]redlock.NodeStatus, 3)}
	for i := range 12 {
		name := fmt.Sprintf("job:with-a-name-that-is-as-long-as-names-can-be-on-a-bad-day:%d", i)
		v.names, v.known = append(v.names, redlock.Inspection{Name: name, Token: 1795486216634825}), append(v.known, nil)
	}
	for height, want := range map[int]string{
		0: "", 20: "", 19: "and 2 more", 12: "and 9 more", 10: "and 11 more",
		9: "and 10 more", 8: "and 11 more", 7: "and 12 more", 6: "and 12 more", // without empty lines
		5: "", 4: "and 2 more", 3: "and 3 more", 1: "and 3 more",
	} {
		for width, name := range map[int]string{
			0: "job:", 50: "job:wit…d-day:0  -       -  ", 70: "job:with…ad-day:0  -       17",
		} {
			lines := v.lines(width, height, false)
			last, rows := lines[len(lines)-1], height
			if height == 0 {
				rows = 20
			}
			if len(lines) != rows || strings.HasPrefix(last, "and ") != (want != "") || want != "" && last != want {
				t.Errorf("height %d: got %d lines, the last one %q, want %q", height, len(lines), last, want)
			}
			first := 8 // where the first lock is
			if rows < 10 {
				first = 6
			}
			if height > 7 && (!strings.Contains(lines[0], "3 of 3 nodes vote") ||
				!strings.HasPrefix(lines[first], name)) {
				t.Errorf("height %d, width %d: got %q and %q", height, width, lines[0], lines[first])
			}
		}
	}
}
