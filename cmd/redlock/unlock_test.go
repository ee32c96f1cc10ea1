//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestUnlock(t *testing.T) {
	c := redlocktest.New(t, 5)
	begin(t, c, "unlock", "--force", "--yes", "name").end(exitOK, "name: nobody held it\n", "")

	holder := begin(t, c, "run", "name", "--", "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
	holder.expect("ready")
	s := begin(t, c, "unlock", "--force", "--yes", "name")
	if got := s.next(); !strings.HasPrefix(got, "name: taken from ") || !strings.HasSuffix(got, "; now nobody holds it") {
		t.Errorf("got %q", got)
	}
	s.end(exitOK, "", "")
	if got := holder.code(); got != exitLost {
		t.Errorf("the holder: got %d, want 79", got)
	}
	free(t, c, "name")
	c.Kill(0, 1, 2)
	begin(t, c, "unlock", "--force", "--yes", "name").end(exitNoQuorum, "",
		"redlock: inspect name: no quorum: 2 of 5 voted, ")
}

// Of the locks whose names begin with the prefix, the old ones are taken, and none of unknown age.
func TestUnlockOlderThan(t *testing.T) {
	c := redlocktest.New(t, 5)
	var holders []*session
	for _, name := range []string{"job:a", "job:b", "other"} {
		holders = append(holders, holding(t, c, "run", name))
	}
	for _, url := range c.URLs() { // a hold without a token
		conn := cases.Must(redis.DialURL(url))(t)
		cases.Must(conn.Do("SET", "job:c", "01a20409-98e1-7c00-82a1-bc5cc850c194", "PX", 60000))(t)
		conn.Close()
	}
	unlock := func(than, prefix, want string) {
		t.Helper()
		nodes := strings.Join(c.URLs(), ",")
		code, out, said := redlocks(t, "unlock", "--nodes", nodes, "--force", "--yes", "--older-than", than, prefix)
		var got []string
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if name, text, is := strings.Cut(line, ": "); is {
				got = append(got, name+" "+strings.Fields(text)[0])
			} else if !strings.HasPrefix(line, "NAME") && !strings.HasPrefix(line, "job:") {
				got = append(got, line)
			}
		}
		cases.Equals(t, strings.Join(got, ", "), want, "older than %s: %s", than, said)
		cases.Equals(t, code, exitOK, "exit code")
	}
	unlock("1h", "job:", "job:c not, 0 taken, 0 failed, 1 of unknown age")
	var said manyObject
	begin(t, c, "unlock", "--force", "--yes", "--json", "--older-than=1ms", "job:c").object(&said)
	if len(said.Locks) != 1 || said.Locks[0].Name != "job:c" || said.Locks[0].Outcome != "age-unknown" {
		t.Errorf("got %+v", said)
	}
	unlock("1ms", "job:", "job:a taken, job:b taken, job:c not, 2 taken, 0 failed, 1 of unknown age")
	unlock("1ms", "none", "0 taken, 0 failed, 0 of unknown age")
	for i, name := range []string{"job:a", "job:b"} {
		cases.Equals(t, holders[i].code(), exitLost, "the holder of %s", name)
	}
	cases.Equals(t, len(owners(t, c, "other")), 5, "nodes that have a lock of another name")
	c.Kill(0, 1, 2)
	begin(t, c, "unlock", "--force", "--yes", "--older-than=1h", "").end(exitNoQuorum, "",
		"redlock: list: no quorum: 2 of 5 voted, ")
}
