package main

import (
	"strings"
	"testing"
)

func TestDemoOnATerminal(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	out := s.text()
	for _, want := range []string{
		"●", "○", "3 of 5 up: a majority", "2 of 5 up: no majority", "100 sold, stock says 0",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("not shown: %q", want)
		}
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
