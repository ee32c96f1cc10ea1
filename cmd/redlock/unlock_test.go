//go:build unix

package main

import (
	"strings"
	"testing"

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
