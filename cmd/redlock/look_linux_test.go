package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/redlock/redlocktest"
)

// narrow checks that no line is broken by the terminal.
func (s *terminal) narrow() {
	s.t.Helper()
	for line := range strings.Lines(s.text()) {
		if n := utf8.RuneCountInString(plain(strings.TrimRight(line, "\r\n"))); n > terminalColumns {
			s.t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}

// plain leaves out the colours.
func plain(text string) string {
	for _, colour := range []string{bold, dim, red, green, yellow, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+colour+"m", "")
	}
	return text
}

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
	s.await("name: held by " + owner + "\r\ntoken: 17")
	s.await("\r\nleft: ")
	for i := range 5 {
		s.await(c.Addr(i))
		s.await(brief(owner))
	}
	s.code()
	s.narrow()

	c.Kill(0, 1, 2)
	s = openTerminal(t, nodesOf(c), binary, "status", "name")
	s.await("redlock: inspect \"name\": no quorum (2 of 5 nodes granted, 3 needed)\r\n")
	if got := s.code(); got != int(exitNoQuorum) {
		t.Errorf("got %d, want 69", got)
	}
}

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
	s.await("4. \x1b[31m[no-majority]\x1b[0m all nodes: 2 of 5 nodes vote, 3 are needed")
	s.await("\x1b[31munsafe\x1b[0m: 2 of 5 nodes vote")
	if got := s.code(); got != int(exitUnsafe) {
		t.Errorf("got %d, want 2", got)
	}
	s.narrow()
	if n := strings.Count(s.text(), "check the address"); n != 1 {
		t.Errorf("the same remedy is given %d times, want once", n)
	}

	s = openTerminal(t, append(nodesOf(c), "NO_COLOR=1"), binary, "doctor")
	s.await("1. [unreachable] " + c.Addr(1))
	s.await("unsafe: 2 of 5 nodes vote")
	s.code()
	if strings.Contains(s.text(), "\x1b") {
		t.Errorf("colours with NO_COLOR: %q", s.text())
	}
}

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
