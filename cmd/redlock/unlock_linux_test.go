package main

import (
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestUnlockAsksOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	for _, answer := range []string{"n\n", "\n", ctrlD} {
		s := openTerminal(t, nodesOf(c), binary, "unlock", "--force", "name")
		s.await("name: held by ")
		s.await("at the latest after its TTL")
		s.await("a larger token")
		s.await("? [y/N] ")
		s.press(answer)
		s.await("redlock: not confirmed: nothing was changed")
		if got := s.code(); got != int(exitFailure) {
			t.Errorf("%q: got %d, want 1", answer, got)
		}
		s.narrow()
	}
	if n := len(owners(t, c, "name")); n != 5 {
		t.Fatalf("not confirmed, and %d of 5 nodes have the lock", n)
	}
	s := openTerminal(t, nodesOf(c), binary, "unlock", "--force", "name")
	s.await("? [y/N] ")
	s.press("y\n")
	s.await("name: taken from ")
	s.await("now nobody holds it")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	if got := holder.code(); got != exitLost {
		t.Errorf("the holder: got %d, want 79", got)
	}
}
