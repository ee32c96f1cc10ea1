package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// A terminal's Ctrl-C reaches the command, and reaches it once, also where it reaches a script around us, too.
func TestRunCtrlC(t *testing.T) {
	for _, around := range []string{`exec "$@"`, `trap : INT; "$@"; exit $?`} {
		t.Run(around, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 5)
			s := openTerminal(t, nodesOf(c), "sh", "-c", around, "sh", binary, "run", "name", "--", "sh", "-c",
				"trap 'echo interrupted' INT; echo ready; read x; read x; sleep 1.2; echo got $x; exit 4")
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
		})
	}
}

// Behind a pipe, somebody reads from the terminal: nobody is stopped. When the hold is lost, all of the command is
// ended, and nobody else.
func TestRunInAPipeline(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	shell := openShell(t, c)
	shell.press(`($REDLOCK run --ttl 2s name -- sh -c 'trap "" TERM; setsid sleep 999 & echo $!; trap - TERM; sleep 999'
		echo co""de=$?) | sh -c 'read x; echo ch""ild; read y </dev/tty; echo child $x got $y.; cat'` + "\n")
	shell.await("child")
	shell.press("key\n")
	shell.await(" got key.")
	fields := strings.Fields(shell.text()[:shell.seen])
	child := cases.Must(strconv.Atoi(fields[len(fields)-3]))(t)
	c.Kill(0, 2, 4)
	shell.await("ending the command before the lock is lost\r\n")
	shell.await("code=79\r\n")
	shell.await("prompt> ")
	if state(child) != "" || strings.Contains(shell.text(), "Stopped") {
		t.Errorf("the command's child goes on without the lock (%s), or all were stopped", state(child))
	}
}

// A signal stops redlock alone: not before its command has stopped; they go on together, or not at all.
func TestRunIsStopped(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	shell := openShell(t, c)
	for _, ttl := range []string{"1m", "1s"} {
		shell.press("$REDLOCK run --ttl " + ttl + " name -- sh -c 'trap \"\" TSTP; echo rea\"\"dy; setsid sleep 999' &\n")
		shell.await("ready")
		redlock := shell.redlocks()[0]
		var all []int
		cases.Eventually(t, "the command's child", func() bool {
			all = []int{redlock}
			for i := 0; i < len(all); i++ {
				children, _ := childrenOf(all[i])
				all = append(all, children...)
			}
			return len(all) == 3
		})
		are := func(stopped bool) func() bool {
			return func() bool {
				return !slices.ContainsFunc(all, func(pid int) bool { return (state(pid) == "T") != stopped })
			}
		}
		kill(t, redlock, unix.SIGTSTP)
		cases.Eventually(t, "redlock stopped", func() bool { return state(redlock) == "T" })
		cases.Eventually(t, "all stopped", are(true)) // a signal is pending until its process is scheduled
		if ttl == "1s" {
			free(t, c, "name")
		}
		kill(t, redlock, unix.SIGCONT)
		if ttl == "1m" {
			cases.Eventually(t, "all to go on", are(false))
			kill(t, all[2], unix.SIGTERM)
		} else {
			shell.await("is lost: killing the command")
		}
		shell.gone()
	}
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
	shell.stop()
	shell.press("fg\n")
	shell.await("cat; exit 6")
	shell.press("back\n")
	shell.await("back\r\nback\r\n")
	shell.press(ctrlD)
	shell.await("prompt> ")

	shell.press("$REDLOCK run --ttl 1s name -- sh -c 'cat; echo survi\"\"ved'\n")
	shell.press("again\n")
	shell.await("again\r\nagain\r\n")
	shell.stop()
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
