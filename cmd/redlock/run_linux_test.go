package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

// A terminal's Ctrl-C reaches the command, and reaches it once.
func TestRunCtrlC(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "run", "name", "--", "sh", "-c",
		"trap 'echo interrupted' INT; echo ready; read x; read x; echo got $x; exit 4")
	s.await("ready")
	s.press(ctrlC)
	s.await("interrupted")
	s.press("one\ntwo\nthree\n")
	s.await("got ")
	if got := s.code(); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
	if n := strings.Count(s.text(), "interrupted"); n != 1 {
		t.Errorf("the command was interrupted %d times, want once", n)
	}
	free(t, c, "name")
}

// The hold is lost while the command has the terminal: it is ended, and the shell has its terminal back.
func TestLostOnATerminal(t *testing.T) {
	for _, verb := range []string{"run", "once"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 5)
			shell := openShell(t, c)
			shell.press("$REDLOCK " + verb + " --ttl 2s name -- sh -c 'cat; echo survi\"\"ved'; echo co\"\"de=$?\n")
			shell.press("there\n")
			shell.await("there\r\nthere\r\n")
			c.Kill(0, 2, 4)
			shell.await("redlock: lock name cannot be renewed: ending the command before the lock is lost\r\n")
			shell.await("code=79")
			shell.press("echo al\"\"ive\n")
			shell.await("alive")
			shell.press("exit\n")
			shell.code()
			if strings.Contains(shell.text(), "survived") {
				t.Error("the command went on without the lock")
			}
		})
	}
}

// Redlock itself is killed: the command is ended, and the shell has its terminal back.
func TestRunKilledOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	shell := openShell(t, c)
	shell.press("$REDLOCK run --ttl 1s name -- sh -c " +
		"'trap \"echo en\"\"ded; exit\" TERM; kill -KILL $PPID; while :; do sleep 0.02; done'\n")
	shell.await("ended\r\n") // before the prompt or behind it: they come from different processes
	shell.press("echo al\"\"ive\n")
	shell.await("alive")
	free(t, c, "name") // after its TTL
	shell.press("exit\n")
	shell.code()
}

// Ctrl-Z stops redlock and the command, fg continues both; a lock that was lost meanwhile ends the command.
func TestRunCtrlZ(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	shell := openShell(t, c)
	// Each line that cat repeats shows that the command is in the foreground, and past its start: a dash that
	// is stopped while it starts cat (vfork) hangs, with or without redlock.
	shell.press("$REDLOCK run name -- sh -c 'cat; exit 6'\n")
	shell.press("there\n")
	shell.await("there\r\nthere\r\n") // the terminal's echo, and cat's
	shell.press(ctrlZ)
	shell.await("prompt> ")
	shell.press("fg\n")
	shell.await("cat; exit 6")
	shell.press("back\n")
	shell.await("back\r\nback\r\n")
	shell.press(ctrlD)
	shell.await("prompt> ")

	shell.press("$REDLOCK run --ttl 1s name -- sh -c 'cat; echo survi\"\"ved'\n")
	shell.press("again\n")
	shell.await("again\r\nagain\r\n")
	shell.press(ctrlZ)
	shell.await("prompt> ")
	free(t, c, "name") // nothing is renewed while all is stopped
	shell.press("fg; echo co\"\"de=$?\n")
	shell.await("is lost: killing the command")
	shell.await("code=79")
	shell.press("exit\n")
	shell.code()
	if strings.Contains(shell.text(), "survived") {
		t.Error("the command went on without the lock")
	}
}
