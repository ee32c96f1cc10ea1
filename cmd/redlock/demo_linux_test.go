package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestDemoOnATerminal(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	out := s.text()
	for _, want := range []string{
		hideCursor, "●", "○", "3 of 5 up: a majority", "2 of 5 up: no majority", "100 sold, stock says 0",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("not shown: %q", want)
		}
	}
	if !strings.HasSuffix(out[:strings.LastIndex(out, "Summary")], showCursor+"\r\n\x1b[1m") {
		t.Error("the cursor is not back before the summary")
	}
}

func TestDemoWithoutColour(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		s := openTerminal(t, []string{env}, binary, "demo")
		s.await("20 tills open")
		s.press(ctrlC)
		if got := s.code(); got != 130 {
			t.Errorf("%s: got %d, want 130", env, got)
		}
		if strings.Contains(s.text(), "\x1b") {
			t.Errorf("%s: escape sequences in %q", env, s.text())
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	s.await("2  With the lock")
	s.await("20 tills open")
	s.press(ctrlC)
	s.await(showCursor)
	s.await("redlock: demo interrupted")
	if got := s.code(); got != 130 {
		t.Errorf("got %d, want 130", got)
	}
}

func TestDemoCtrlZ(t *testing.T) {
	t.Parallel()
	shell := openShell(t, redlocktest.New(t, 1)) // which the demo does not use
	shell.press("$REDLOCK demo\n")
	shell.await(hideCursor)
	shell.await("5 of 5 up")
	shell.stopsAndGoesOn("of 5 up")
	shell.press(ctrlC)
	shell.await(showCursor)
	shell.await("code=130")
	shell.press("exit\n")
	shell.code()
}
