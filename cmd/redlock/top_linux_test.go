package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// A live view: what changes is seen, and Ctrl-C leaves the last state on the screen.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "top", "name")
	s.await("5 of 5 nodes vote")
	s.await("0/5")
	s.press(ctrlZ) // no shell could continue it: nothing is stopped
	holding(t, c, "run", "name")
	s.await("5/5")
	c.Kill(1, 3)
	s.await("3 of 5 nodes vote")
	s.await("\x1b[31m" + c.Addr(1)) // in red
	s.await("unreachable")
	s.press(ctrlC)
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	if text := s.text(); strings.LastIndex(text, "3 of 5 nodes vote") < strings.LastIndex(text, "\x1b[J") {
		t.Errorf("the last state has gone: %q", text)
	}
	s.narrow()
}

// Top reads keys while it runs in the foreground, and leaves the terminal as it was whatever ends or stops it.
func TestTopReadsKeys(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 3)
	s := openShell(t, c)
	was := s.modes()
	top := func(args string) {
		t.Helper()
		s.press("$REDLOCK top name" + args + "; echo co\"\"de=$?\n")
		s.await("3 of 3 nodes vote")
	}
	reads := func() { cases.Eventually(t, "keys are read", func() bool { return s.modes().Lflag&unix.ICANON == 0 }) }
	restored := func(what string) {
		t.Helper()
		s.await("code=0")
		s.await("prompt> ")
		if got := s.modes(); got != was {
			t.Errorf("%s: the terminal's modes are %+v, want %+v", what, got, was)
		}
	}
	for what, end := range map[string]func(){
		"q":       func() { s.press("q") },
		"Ctrl-C":  func() { s.press(ctrlC) },
		"TERM":    func() { kill(t, s.redlocks()[0], syscall.SIGTERM) },
		"HUP":     func() { kill(t, s.redlocks()[0], syscall.SIGHUP) },
		"Ctrl-\\": func() { s.press("\x1c") },
	} {
		top("")
		reads()
		end()
		restored(what)
	}

	top("")
	reads()
	s.stop()
	if got := s.modes(); got != was {
		t.Errorf("stopped: the terminal's modes are %+v, want %+v", got, was)
	}
	s.press("fg; echo co\"\"de=$?\n")
	s.await("3 of 3 nodes vote")
	reads()
	kill(t, s.redlocks()[0], syscall.SIGSTOP) // of which we cannot hear
	s.await("prompt> ")
	s.press("stty icanon echo; fg; echo co\"\"de=$?\n")
	s.await("3 of 3 nodes vote")
	reads()
	s.press("q")
	restored("q after fg")

	// Keys of another program's input are not ours.
	top(" </dev/null")
	holder := holding(t, c, "run", "name")
	s.await("3/3") // a look later
	if got := s.modes(); got != was {
		t.Errorf("without input: the terminal's modes are %+v, want %+v", got, was)
	}
	holder.stdin.Close()
	s.press(ctrlC)
	restored("without input")
}

// Whatever the terminal's size is and becomes, the nodes stay on it, and what does not fit is counted.
func TestTopHeedsTheSize(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 3)
	args := []string{"top"}
	for i := range 40 {
		args = append(args, fmt.Sprintf("job:%d", i))
	}
	s := openTerminal(t, nodesOf(c), binary, args...)
	s.await("0/3\r\nand 11 more\r\n") // 40 rows, of which one is empty and one the cursor's
	s.resize(20, terminalColumns)
	s.await("\x1b[H\x1b[J") // what stood there has scrolled away
	s.await("3 of 3 nodes vote")
	s.await(c.Addr(2))
	s.await("0/3\r\nand 31 more\r\n")
	s.resize(60, terminalColumns)
	s.await("job:39 ")
	s.resize(60, 50)
	s.await("\x1b[H\x1b[J")
	s.await("job:39 ")
	s.press("q")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
