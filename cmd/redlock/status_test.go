//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestStatus(t *testing.T) {
	c := redlocktest.New(t, 5)
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	eventually(t, "the key on every node", func() bool { return len(owners(t, c, "name")) == 5 })
	owner := owners(t, c, "name")[0]
	c.Kill(1)
	s := begin(t, c, "status", "name")
	host, _ := os.Hostname()
	label := fmt.Sprintf("%s/%d", host, holder.cmd.Process.Pid)
	s.expect(fmt.Sprintf("name: held by %s (%s)", label, owner))
	if got := s.next(); !strings.HasPrefix(got, "token: 17") {
		t.Errorf("got %q", got)
	}
	if got := s.next(); !strings.HasPrefix(got, "left: ") || !strings.HasSuffix(got, "s, unless renewed") {
		t.Errorf("got %q", got)
	}
	s.expect("")
	s.next() // the head of the table
	for i := range 5 {
		line := s.next()
		dead := i == 1
		if dead != strings.Contains(line, "no: not connected") || dead == strings.Contains(line, label) ||
			!strings.HasPrefix(line, c.Addr(i)) {
			t.Errorf("node %d: %q", i, line)
		}
	}
	s.end(0, "", "")

	s = begin(t, c, "status", "name", "--json")
	code := s.code()
	var text strings.Builder
	for line := range s.lines {
		text.WriteString(line)
	}
	var said struct {
		Known, Held bool
		Owner       string
		Label       string
		Remaining   float64 `json:"remaining_seconds"`
		Nodes       []struct {
			Addr   string
			Label  string
			Counts bool
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &said); err != nil || code != 0 {
		t.Fatalf("got %d, %v in %s", code, err, text.String())
	}
	if !said.Known || !said.Held || said.Owner != owner || said.Label != label ||
		said.Nodes[0].Label != label || said.Remaining <= 0 || said.Remaining > 10 ||
		len(said.Nodes) != 5 || said.Nodes[1].Counts {
		t.Errorf("got %+v", said)
	}

	c.Kill(2, 3)
	s = begin(t, c, "status", "name")
	s.expect("name: not known")
	const want = "redlock: inspect name: no quorum: 2 of 5 voted, "
	if got := s.code(); got != exitNoQuorum || !strings.HasPrefix(s.stderr.String(), want) ||
		strings.Count(s.stderr.String(), "\n") > 1 { // the table has the nodes
		t.Errorf("three dead: got %d, %q, want %q", got, s.stderr.String(), want)
	}
}

// A name cannot garble the terminal.
func TestStatusOfAnOddName(t *testing.T) {
	c := redlocktest.New(t, 1)
	const name, shown = "n\x1b[2J", `"n\x1b[2J"`
	begin(t, c, "status", name).expect(shown + ": nobody holds it")
	s := begin(t, c, "top", "--once", name)
	last := ""
	for line := range s.lines {
		last = line
	}
	if !strings.HasSuffix(last, shown) {
		t.Errorf("got %q", last)
	}
}

// Readers hold a name together; each is told of.
func TestStatusOfReaders(t *testing.T) {
	c := redlocktest.New(t, 5)
	l, err := redlock.New(c.URLs())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var want []string
	for range 2 {
		reader, err := l.RWMutex("name").RLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, reader.Owner())
	}
	slices.Sort(want)
	eventually(t, "both on a majority", func() bool {
		i, err := l.Inspect(t.Context(), "name")
		return err == nil && len(i.Readers) == 2
	})
	s := begin(t, c, "status", "name")
	s.expect("name: held by readers")
	s.next() // for how long
	for _, reader := range want {
		if got := s.next(); !strings.HasPrefix(got, "reader: ") || !strings.HasSuffix(got, " ("+reader+")") {
			t.Errorf("got %q, want the reader %s", got, reader)
		}
	}
	s.expect("")
}
