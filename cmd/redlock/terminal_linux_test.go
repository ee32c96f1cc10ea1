package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// What a person sees: colours where something matters, unless NO_COLOR is set, a line for each node below an error, and
// tables that are not wider than the terminal.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	up, down := redlocktest.New(t, 5), redlocktest.New(t, 5)
	down.Kill(1, 2, 3)
	holder := holding(t, up, "run", "name")
	cases.Eventually(t, "the key on every node", func() bool { return len(owners(t, up, "name")) == 5 })
	owner := owners(t, up, "name")[0]
	for _, c := range []struct {
		command string
		env     string
		nodes   *redlocktest.Cluster
		code    exitCode
		want    []string // in this order
	}{
		{"status free", "", up, exitOK, []string{"free: nobody holds it\r\n\r\nNODE", "COUNTS\r\n" + up.Addr(0)}},
		{"status name", "", up, exitOK, []string{"(" + owner + ")\r\ntoken: 17", "\r\nleft: ", up.Addr(4), "  yes\r\n"}},
		{"status name", "", down, exitNoQuorum, []string{
			"redlock: inspect name: no quorum: 2 of 5 voted, " + down.Addr(1) + " ",
		}},
		{"run --no-wait name true", "", down, exitNoQuorum, []string{
			"redlock: lock name: no quorum: 2 of 5 ", // can vote, or have voted
			" unreachable\r\n", "\r\n  " + down.Addr(1) + " failed: not connected", "\r\n  " + down.Addr(2),
		}},
		{"doctor", "", up, exitOK, []string{"NODE", "\x1b[32mhealthy\x1b[0m: 5 of 5 nodes vote\r\n"}},
		{"doctor", "", down, exitUnavailable, []string{
			"1. \x1b[33m[unreachable]\x1b[0m " + down.Addr(1), "3. \x1b[33m[unreachable]\x1b[0m " + down.Addr(3),
			"check the address", "4. \x1b[31m[no-majority]\x1b[0m all nodes: 2 of 5 nodes vote, a majority is 3",
			"\x1b[31munavailable\x1b[0m: 2 of 5 nodes vote",
		}},
		{"doctor", "NO_COLOR=1", down, exitUnavailable, []string{"1. [unreachable] ", "unavailable: 2 of 5 nodes vote"}},
		{"top --once name", "", up, exitOK, []string{"5 of 5 nodes vote", "5/5"}},
		{"top --once", "NO_COLOR=1", down, exitNoQuorum, []string{"2 of 5 nodes vote"}},
	} {
		s := openTerminal(t, append(nodesOf(c.nodes), c.env), binary, strings.Fields(c.command)...)
		for _, want := range c.want {
			s.await(want)
		}
		if got := s.code(); got != c.code {
			t.Errorf("%s: got %d, want %d", c.command, got, c.code)
		}
		if c.code != exitNoQuorum { // whose reasons are whole, like all errors
			s.narrow()
		}
		if strings.Count(s.text(), "check the address") > 1 {
			t.Errorf("%s: the same remedy is given more than once", c.command)
		}
		if c.env != "" && strings.Contains(s.text(), "\x1b") {
			t.Errorf("%s: colours with %s: %q", c.command, c.env, s.text())
		}
	}
	holder.stdin.Close()
}

func TestOnceCtrlC(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	interrupt := func(script string, ready func(*pseudoterminal)) {
		t.Helper()
		s := openTerminal(t, nodesOf(c), "sh", "-c", script+`; echo co""de=$?`, binary)
		ready(s)
		s.press(ctrlC)
		s.code()
		if strings.Contains(s.text(), "code=") {
			t.Errorf("the script around redlock went on: %q", s.text())
		}
	}
	interrupt(`"$0" once report -- sh -c 'echo ready; read x'`, func(s *pseudoterminal) { s.await("ready") })
	free(t, c, "report")
	interrupt(`"$0" watch report`, func(s *pseudoterminal) { s.await("  free") })
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 1 begun, the last one failed") {
		t.Errorf("the run that was interrupted: %s", got)
	}

	// While a run is under way elsewhere, Ctrl-C ends the waiting, of "run", too, and no run is counted.
	holder := holding(t, c, "once", "report")
	count := clients(t, c, 0)
	cases.Eventually(t, "one client", func() bool { return count() == 1 })
	for _, verb := range []string{"once", "run"} {
		interrupt(`"$0" `+verb+` report echo must not run`, func(*pseudoterminal) {
			cases.Eventually(t, "a second client", func() bool { return count() == 2 })
		})
		cases.Eventually(t, "one client", func() bool { return count() == 1 })
	}
	holder.stdin.Close()
	holder.code()
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 2 begun, the last one failed") {
		t.Errorf("afterwards: %s", got)
	}
}

func TestUnlockAsksOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holder := holding(t, c, "run", "name")
	for _, answer := range []string{"n\n", "\n", ctrlD} {
		s := openTerminal(t, nodesOf(c), binary, "unlock", "--force", "name")
		s.await("name: held by ")
		s.await("at the latest after its TTL")
		s.await("a larger token")
		s.await("? [y/N] ")
		s.press(answer)
		s.await("redlock: not confirmed: nothing was changed")
		if got := s.code(); got != exitFailure {
			t.Errorf("%q: got %d, want 1", answer, got)
		}
		s.narrow()
	}
	if n := len(owners(t, c, "name")); n != 5 {
		t.Fatalf("not confirmed, and %d of 5 nodes have the lock", n)
	}
	many := openTerminal(t, nodesOf(c), binary, "unlock", "--force", "--older-than=1ms", "")
	many.await("name ")
	many.await("a larger token")
	many.await("Take 1 of these locks from their holders? [y/N] ")
	many.press("n\n")
	many.await("redlock: not confirmed: nothing was changed")
	many.narrow()
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
