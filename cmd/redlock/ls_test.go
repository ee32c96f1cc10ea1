//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestLs(t *testing.T) {
	c := redlocktest.New(t, 5)
	begin(t, c, "ls").end(exitOK, "", "redlock: no lock is held\n")
	var holders []*session
	for _, name := range []string{"job:b", "job:a", "odd\tname", "other"} {
		holders = append(holders, holding(t, c, "run", "--value", "at:"+name, name))
	}
	s := begin(t, c, "ls", "job:")
	if got := strings.Fields(s.next()); strings.Join(got, " ") != "NAME HOLDER TOKEN AGE LEFT WAITING NODES VALUE" {
		t.Errorf("head: %q", got)
	}
	host, _ := os.Hostname()
	for i, name := range []string{"job:a", "job:b"} {
		holder := fmt.Sprintf("%s/%d", host, holders[1-i].cmd.Process.Pid)
		if got := strings.Fields(s.next()); len(got) != 8 || got[0] != name || got[1] != holder ||
			!strings.HasSuffix(got[3], "s") || got[5] != "0" || got[7] != "at:"+name {
			t.Errorf("got %q, want %s held by %s", got, name, holder)
		}
	}
	s.end(exitOK, "", "")
	begin(t, c, "ls", "none").end(exitOK, "", "redlock: no lock is held whose name begins with \"none\"\n")

	var said struct {
		Locks []struct {
			Name  string
			Held  bool
			Label string
			Value string
			Age   float64 `json:"age_seconds"`
		}
	}
	begin(t, c, "ls", "--json").object(&said)
	if len(said.Locks) != 4 || said.Locks[2].Name != "odd\tname" || !said.Locks[2].Held || said.Locks[2].Label == "" ||
		said.Locks[2].Value != "at:odd\tname" || said.Locks[2].Age <= 0 {
		t.Errorf("got %+v", said)
	}
	c.Kill(0, 1, 2)
	begin(t, c, "ls").end(exitNoQuorum, "", "redlock: list: no quorum: 2 of 5 voted, ")
}
