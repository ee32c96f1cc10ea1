package main

import (
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestStatusOnATerminal(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "status", "name")
	s.await("name: nobody holds it\r\n\r\nNODE")
	s.await("COUNTS\r\n" + c.Addr(0))
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}

	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	eventually(t, "the key on every node", func() bool { return len(owners(t, c, "name")) == 5 })
	owner := owners(t, c, "name")[0]
	s = openTerminal(t, nodesOf(c), binary, "status", "name")
	s.await(" (" + owner + ")\r\ntoken: 17")
	s.await("\r\nleft: ")
	for i := range 5 {
		s.await(c.Addr(i))
		s.await("  yes\r\n")
	}
	s.code()
	s.narrow()

	c.Kill(0, 1, 2)
	s = openTerminal(t, nodesOf(c), binary, "status", "name")
	s.await("redlock: inspect name: no quorum: 2 of 5 voted, " + c.Addr(0) + " ")
	if got := s.code(); got != int(exitNoQuorum) {
		t.Errorf("got %d, want 69", got)
	}
}
