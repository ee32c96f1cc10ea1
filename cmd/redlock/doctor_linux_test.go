package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestDoctorOnATerminal(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "doctor")
	s.await("NODE")
	s.await("\x1b[32mhealthy\x1b[0m: 5 of 5 nodes vote\r\n")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	s.narrow()

	c.Kill(1, 2, 3)
	s = openTerminal(t, nodesOf(c), binary, "doctor")
	s.await("1. \x1b[33m[unreachable]\x1b[0m " + c.Addr(1))
	s.await("3. \x1b[33m[unreachable]\x1b[0m " + c.Addr(3))
	s.await("check the address")
	s.await("4. \x1b[31m[no-majority]\x1b[0m all nodes: 2 of 5 nodes vote, a majority is 3")
	s.await("\x1b[31munavailable\x1b[0m: 2 of 5 nodes vote")
	if got := s.code(); got != int(exitUnavailable) {
		t.Errorf("got %d, want 3", got)
	}
	s.narrow()
	if n := strings.Count(s.text(), "check the address"); n != 1 {
		t.Errorf("the same remedy is given %d times, want once", n)
	}

	s = openTerminal(t, append(nodesOf(c), "NO_COLOR=1"), binary, "doctor")
	s.await("1. [unreachable] " + c.Addr(1))
	s.await("unavailable: 2 of 5 nodes vote")
	s.code()
	if strings.Contains(s.text(), "\x1b") {
		t.Errorf("colours with NO_COLOR: %q", s.text())
	}
}
