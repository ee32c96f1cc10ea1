package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

// A live view: what changes is seen, and Ctrl-C leaves the last state on the screen.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "top", "name")
	s.await(hideCursor)
	s.await("5 of 5 nodes vote")
	s.await("0/5")
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	s.await("5/5")
	c.Kill(1, 3)
	s.await("3 of 5 nodes vote")
	s.await("\x1b[31m" + c.Addr(1)) // in red
	s.await("unreachable")
	s.press(ctrlC)
	s.await(showCursor)
	s.await("3 of 5 nodes vote")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	s.narrow()

	shell := openShell(t, c)
	shell.press("$REDLOCK top name\n")
	shell.await(hideCursor)
	shell.await("3 of 5 nodes vote")
	shell.stopsAndGoesOn("3 of 5 nodes vote")
	shell.press(ctrlC)
	shell.await(showCursor)
	shell.await("code=0")

	s = openTerminal(t, nodesOf(c), binary, "top", "--once", "name")
	s.await("3 of 5 nodes vote")
	if got := s.code(); got != 0 {
		t.Errorf("--once: got %d, want 0", got)
	}

	s = openTerminal(t, append(nodesOf(c), "NO_COLOR=1"), binary, "top")
	s.await("3 of 5 nodes vote")
	s.press(ctrlC)
	s.code()
	if strings.Contains(s.text(), "\x1b[3") {
		t.Errorf("colours with NO_COLOR: %q", s.text())
	}
}
