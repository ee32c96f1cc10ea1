//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestRunReturnsTheCommandsCode(t *testing.T) {
	c := redlocktest.New(t, 5)
	plain := filepath.Join(t.TempDir(), "plain")
	cases.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	busy := cases.Must(os.OpenFile(plain+"-busy", os.O_CREATE|os.O_WRONLY, 0o700))(t)
	cases.Must(busy.WriteString("#!/bin/sh\n"))(t)
	time.AfterFunc(300*time.Millisecond, func() { busy.Close() })
	for _, e := range []struct {
		command []string
		want    exitCode
		stderr  string
	}{
		{[]string{busy.Name()}, 0, ""}, // is tried again until it is written
		{[]string{"true"}, 0, ""},
		{[]string{"--", "true"}, 0, ""},
		{[]string{"false"}, 1, ""},
		{[]string{"sh", "-c", "exit 75"}, 75, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"--", "no-such-command"}, 127, "redlock: no-such-command: command not found\n"},
		{[]string{"./no/such/command"}, 127, "redlock: ./no/such/command: command not found\n"},
		{[]string{"echo a | cat"}, 127, "redlock: echo a | cat: command not found (did you mean sh -c '…'?)\n"},
		{[]string{plain}, 126, "redlock: " + plain + ": permission denied\n"},
		{[]string{filepath.Dir(plain)}, 126, "redlock: " + filepath.Dir(plain) + ": is a directory\n"},
	} {
		s := begin(t, c, append([]string{"run", "name"}, e.command...)...)
		if got := s.code(); got != e.want || s.stderr.String() != e.stderr {
			t.Errorf("%q: got %d, %q, want %d, %q", e.command, got, s.stderr.String(), e.want, e.stderr)
		}
		free(t, c, "name")
	}
}

// Where all cryptography must be approved, the command works: SHA-1 is but how scripts are named.
func TestRunUnderFIPSOnly(t *testing.T) {
	t.Setenv("GODEBUG", "fips140=only")
	begin(t, redlocktest.New(t, 3), "run", "name", "true").end(0, "", "")
}

// A command inherits no passwords of nodes, unless it is to.
func TestPasswordsAreNotInherited(t *testing.T) {
	c := redlocktest.New(t, 1)
	begin(t, c, "run", "name", binary, "status", "name").end(exitUsage, "",
		"redlock: no nodes: give --nodes, or --pass-nodes to the redlock that holds the lock\n")
	const names = "env | grep -o '^REDLOCK_[A-Z_]*' | sort | tr '\\n' ' '; echo"
	const usual = "REDLOCK_NAME REDLOCK_NODE_TIMEOUT REDLOCK_OWNER REDLOCK_TOKEN "
	const all = "REDLOCK_NAME REDLOCK_NODES REDLOCK_NODE_TIMEOUT REDLOCK_OWNER REDLOCK_PASSWORD_COMMAND " +
		"REDLOCK_PASS_NODES REDLOCK_TO REDLOCK_TOKEN "
	for _, set := range os.Environ() { // what tests are run with
		name, value, _ := strings.Cut(set, "=")
		if strings.HasPrefix(name, "REDLOCK_") && name != "REDLOCK_NODE_TIMEOUT" {
			t.Setenv(name, value) // so that it is there again afterwards
			_ = os.Unsetenv(name)
		}
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("REDLOCK_TO", "")
	t.Setenv("REDLOCK_PASSWORD_COMMAND", "")
	for _, verb := range []string{"run", "once"} {
		s := begin(t, c, verb, verb, "sh", "-c", names)
		s.end(exitOK, usual+"\n", "")
		s = beginCmd(t, c, exec.Command("env", "REDLOCK_PASS_NODES=true", binary, verb, verb+"-all", "sh", "-c", names))
		s.end(exitOK, all+"\n", "")
		s = begin(t, c, verb, "--pass-nodes", verb+"-flag", "sh", "-c", names)
		s.end(exitOK, strings.Replace(all, "REDLOCK_PASS_NODES ", "", 1)+"\n", "")
	}
}

func TestRunHoldsTheLock(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "--prefix", "jobs:", "name", "--",
		"sh", "-c", "echo $REDLOCK_NAME; echo $REDLOCK_OWNER; echo $REDLOCK_TOKEN; read line")
	s.expect("name")
	owner := s.next()
	if token, err := strconv.ParseInt(s.next(), 10, 64); err != nil || token <= 0 {
		t.Errorf("REDLOCK_TOKEN: got %d, %v, want a positive number", token, err)
	}
	held := owners(t, c, "jobs:name")
	if len(held) < 3 {
		t.Errorf("the key is on %d nodes, want a majority of 5", len(held))
	}
	for _, got := range held {
		if got != owner {
			t.Errorf("a node has the owner %q, REDLOCK_OWNER is %q", got, owner)
		}
	}
	s.stdin.Close()
	s.code()
	free(t, c, "jobs:name")
}

func TestRunTaken(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holder := holding(t, c, "run", "name")

	for _, flags := range [][]string{{"--no-wait"}, {"--wait", "0s"}, {"--wait", "2s"}} {
		s := begin(t, c, append(append([]string{"run"}, flags...), "name", "echo", "must not run")...)
		code := s.code()
		said := s.stderr.String()
		if code != exitTaken || !strings.HasPrefix(said, "redlock: lock name: taken by ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: got %d, %q, want 75 and one line that says taken", flags, code, said)
		}
		s.expect("(end of output)")
	}

	// Only this outcome has another code, and only 0 is quiet.
	begin(t, c, "run", "--no-wait", "--taken-code=0", "name", "echo", "must not run").end(0, "", "")
	begin(t, c, "run", "--wait=1s", "--taken-code=9", "name", "true").end(9, "", "redlock: lock name: taken by ")
	setting := exec.Command("env", "REDLOCK_TAKEN_CODE=0", binary, "run", "--no-wait", "name", "echo", "must not run")
	beginCmd(t, c, setting).end(0, "", "")
	begin(t, c, "run", "--taken-code=0", "other", "sh", "-c", "exit 75").end(75, "", "")

	waiting := begin(t, c, "run", "name", "echo", "my turn")
	holder.stdin.Close()
	if got := holder.code(); got != 3 {
		t.Errorf("holder: got %d, want 3", got)
	}
	waiting.expect("my turn")
	if got := waiting.code(); got != 0 {
		t.Errorf("who waited: got %d, want 0", got)
	}
}

// Who is handed the lock has it for a lease at first, which is shorter than --term-before may be.
func TestRunBeginsWithAWholeHold(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	flags := []string{"run", "--ttl=100s", "--term-before=60s", "name"}
	holder := holding(t, c, flags...)
	waiting := begin(t, c, append(flags, "sh", "-c", "echo my turn; sleep 0.1; exit 4")...)
	cases.Eventually(t, "it waits", func() bool {
		_, shown, _ := redlocks(t, "status", "--json", "--nodes", strings.Join(c.URLs(), ","), "name")
		return strings.Contains(shown, `"waiting": 1`)
	})
	holder.stdin.Close()
	waiting.end(4, "my turn\n", "")
}

func TestNoQuorum(t *testing.T) {
	c := redlocktest.New(t, 5)
	c.Kill(0, 1, 2)
	for _, args := range [][]string{{"run", "--no-wait"}, {"run", "--wait=100ms"}, {"once", "--no-wait"}} {
		s := begin(t, c, append(args, "name", "echo", "must not run")...)
		code := s.code()
		said := s.stderr.String()
		if code != exitNoQuorum || !strings.HasPrefix(said, "redlock: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: got %d, %q, want 69 and one line", args, code, said)
		}
		for i := range 3 {
			if !strings.Contains(said, c.Addr(i)) {
				t.Errorf("%s: %q does not name the dead node %s", args, said, c.Addr(i))
			}
		}
		s.expect("(end of output)")
	}
	free(t, c, "name")
}

func TestRunEndsTheCommandWhenTheLockIsLost(t *testing.T) {
	const loop = `; echo ready; while :; do sleep 0.02; done`
	lostUnder(t, "run", map[string]lostCommand{
		"it obeys":        {`trap 'echo TERM; exit 0' TERM` + loop, "", "TERM"},
		"it is stubborn":  {`trap '' TERM` + loop, notEnded, ""},
		"its child is":    {`(trap '' TERM; while :; do sleep 0.02; done) & : ` + loop, notEnded, ""},
		"its child obeys": {`(trap 'echo child; exit' TERM; while :; do sleep 0.02; done) & : ` + loop, "", "child"},
		"it had stopped":  {`trap 'echo TERM; exit 0' TERM; (sleep 0.1; kill -STOP $$) & : ` + loop, "", "TERM"},
		"it has a code":   {`trap 'echo TERM; exit 9' TERM` + loop, "", "TERM"},
	})
	lostUnder(t, "once", map[string]lostCommand{"a job": {`trap 'echo TERM; exit 0' TERM` + loop, "", "TERM"}})
}

// lostCommand is what a shell does that says "ready", and then loses its lock.
type lostCommand struct {
	script string
	killed string // what is said when it has not ended before that; "": it has
	says   string // when it hears TERM
}

const notEnded = "redlock: the command has not ended: killing it\n"

func lostUnder(t *testing.T, verb string, commands map[string]lostCommand) {
	t.Helper()
	for name, e := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 5)
			s := begin(t, c, verb, "--ttl=2s", "--term-before=1s", "name", "--", "sh", "-c", e.script)
			s.expect("ready")
			c.Kill(0, 2, 4)
			if e.says != "" {
				s.expect(e.says)
			}
			s.expect("(end of output)") // which nobody has open
			cases.Equals(t, s.code(), exitLost, "exit code")
			said := ""
			for line := range strings.Lines(s.stderr.String()) {
				if strings.HasPrefix(line, "redlock: ") { // the shell may say "Terminated"
					said += line
				}
			}
			want := "redlock: lock name cannot be renewed: ending the command before the lock is lost\n" + e.killed
			cases.Equals(t, said, want, "standard error")
		})
	}
}

// With --again, a hold that was lost is campaigned for anew, and only the command's own end, or a signal, ends redlock.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	start := func(verb ...string) *session {
		return begin(t, c, append(verb, "name", "--", "sh", "-c",
			"grep -s SigIgn /proc/self/status; echo $REDLOCK_TOKEN; read line; exit 3")...)
	}
	s := start("run", "--again", "--ttl=10s", "--value=here")
	terms := make([]string, 2)
	for i := range terms {
		if terms[i] = s.next(); strings.HasPrefix(terms[i], "SigIgn") {
			terms[i] += " " + s.next()
		}
		if i == 0 {
			begin(t, c, "unlock", "--force", "--yes", "name").code()
		}
	}
	ignored := func(term string) string { return strings.TrimRight(term, "0123456789") }
	if terms[0] >= terms[1] || ignored(terms[0]) != ignored(terms[1]) {
		t.Errorf("got the terms %q, want another token alone", terms)
	}
	var said nameObject
	begin(t, c, "status", "--json", "name").object(&said)
	cases.Equals(t, said.Value, "here", "the value of the second term")
	s.stdin.Close()
	s.end(3, "", "redlock: lock name is lost: killing the command\n")
}
