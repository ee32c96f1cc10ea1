//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestRunForwardsSignals(t *testing.T) {
	c := redlocktest.New(t, 5)
	script := ""
	all := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM,
	}
	for name := range all {
		script += fmt.Sprintf("trap 'echo %s' %s; ", name, name)
	}
	script += "trap 'echo TERM; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
	s := begin(t, c, "run", "name", "--", "sh", "-c", script)
	s.expect("ready")
	for _, sig := range all {
		s.signal(sig)
	}
	for len(all) > 0 {
		name := s.next()
		if _, sent := all[name]; !sent {
			t.Fatalf("got %q, want one of %v", name, all)
		}
		delete(all, name)
	}
	s.signal(syscall.SIGTERM)
	s.expect("TERM")
	s.expect("(end of output)") // each arrived once
	if got := s.code(); got != 5 {
		t.Errorf("got %d, %q, want the command's 5", got, s.stderr.String())
	}
	free(t, c, "name")
}

func TestRunKeepsIgnoredSignalsIgnored(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := beginCmd(t, c, exec.Command("sh", "-c", `trap '' HUP; exec "$@"`, "nohup", binary, "run", "name", "--",
		"sh", "-c", "trap 'echo USR1' USR1; echo ready; while :; do sleep 0.02; done"))
	s.expect("ready")
	s.signal(syscall.SIGHUP)
	s.signal(syscall.SIGUSR1)
	s.expect("USR1")
	s.signal(syscall.SIGTERM)
	if got := s.code(); got != 143 {
		t.Errorf("got %d, want 143: TERM ended it, HUP did not", got)
	}
}

func TestRunSignalledWhileWaiting(t *testing.T) {
	c := redlocktest.New(t, 5)
	holding(t, c, "run", "name")
	var before []string
	cases.Eventually(t, "the key on every node", func() bool { // it is held as soon as a majority has it
		before = owners(t, c, "name")
		return len(before) == len(c.URLs())
	})
	count := clients(t, c, 0)
	cases.Eventually(t, "one client", func() bool { return count() == 1 })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := begin(t, c, "run", "name", "echo", "must not run")
		// A signal that came before it was caught would end redlock as well, but with no exit code. It is caught
		// before redlock connects.
		cases.Eventually(t, "a second client", func() bool { return count() == 2 })
		s.signal(syscall.SIGUSR1) // for the command: dropped
		s.signal(sig)
		if got, want := s.code(), exitSignal+exitCode(sig); got != want {
			t.Errorf("%s: got %d, want %d", sig, got, want)
		}
		s.expect("(end of output)")
		if said := s.stderr.String(); strings.Count(said, "name") != 1 || !strings.HasSuffix(said, " ended the waiting\n") {
			t.Errorf("%s: got %q", sig, said)
		}
		cases.Eventually(t, "one client", func() bool { return count() == 1 })
	}
	if after := owners(t, c, "name"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the holder's keys: %q before and %q after", before, after)
	}
}

func TestRunKilledTakesTheCommandAlong(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("only Linux can do that")
	}
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "name", "--",
		"sh", "-c", "trap 'echo TERM; exit' TERM; echo ready; while :; do sleep 0.02; done")
	s.expect("ready")
	s.signal(syscall.SIGKILL)
	s.expect("TERM")
}
