//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/redlocktest"
)

// patience is how long a test waits for what should happen soon.
const patience = 20 * time.Second

// session is a running redlock.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of standard output; closed at its end
	stderr bytes.Buffer
	ended  chan struct{}
}

// begin starts the binary. Its nodes are the cluster's, if there is one.
func begin(t *testing.T, c *redlocktest.Cluster, args ...string) *session {
	t.Helper()
	return beginCmd(t, c, exec.Command(binary, args...))
}

func beginCmd(t *testing.T, c *redlocktest.Cluster, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{t: t, cmd: cmd, lines: make(chan string, 1000), ended: make(chan struct{})}
	s.cmd.Env = os.Environ()
	if c != nil {
		s.cmd.Env = append(s.cmd.Env, nodesEnv+"="+strings.Join(c.URLs(), ","))
	}
	s.cmd.Stderr = &s.stderr
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			s.lines <- scan.Text()
		}
		close(s.lines)
		s.cmd.Wait() // the state says it
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() // it may have ended
		<-s.ended
	})
	return s
}

// expect waits for the next line of output.
func (s *session) expect(want string) {
	s.t.Helper()
	if got := s.next(); got != want {
		s.t.Fatalf("output: got %q, want %q; standard error: %s", got, want, s.stderrNow())
	}
}

func (s *session) next() string {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			return "(end of output)"
		}
		return line
	case <-time.After(patience):
		s.t.Fatalf("no output within %s", patience)
		return ""
	}
}

// stderrNow may be read only once the process has ended, unless it failed anyway.
func (s *session) stderrNow() string {
	select {
	case <-s.ended:
		return s.stderr.String()
	case <-time.After(time.Second):
		return "(still running)"
	}
}

// code waits for the end and returns the exit code.
func (s *session) code() exitCode {
	s.t.Helper()
	select {
	case <-s.ended:
		return exitCode(s.cmd.ProcessState.ExitCode())
	case <-time.After(patience):
		s.t.Fatalf("not ended within %s", patience)
		return 0
	}
}

func (s *session) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// owners returns what each live node has at a key.
func owners(t *testing.T, c *redlocktest.Cluster, key string) []string {
	t.Helper()
	var found []string
	for i, url := range c.URLs() {
		if c.State(i) != redlocktest.Up {
			continue
		}
		conn, err := redis.DialURL(url)
		if err != nil {
			t.Fatal(err)
		}
		owner, err := redis.String(conn.Do("GET", key))
		conn.Close()
		if err == nil {
			found = append(found, owner)
		} else if !errors.Is(err, redis.ErrNil) {
			t.Fatal(err)
		}
	}
	return found
}

// eventually polls, since what it waits for happens in other processes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !until(ctx, ok) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

func free(t *testing.T, c *redlocktest.Cluster, key string) {
	t.Helper()
	eventually(t, key+" let go on every node", func() bool { return len(owners(t, c, key)) == 0 })
}

// ready is a command that says so, and ends when its standard input does.
var ready = []string{"sh", "-c", "echo ready; read line; exit 3"}

func TestRunReturnsTheCommandsCode(t *testing.T) {
	c := redlocktest.New(t, 5)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		command []string
		want    exitCode
		stderr  string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"--", "true"}, 0, ""},
		{[]string{"false"}, 1, ""},
		{[]string{"sh", "-c", "exit 75"}, 75, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"--", "no-such-command"}, 127, "redlock: no-such-command: command not found\n"},
		{[]string{"./no/such/command"}, 127, "redlock: ./no/such/command: command not found\n"},
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

func TestRunHoldsTheLock(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "--prefix", "jobs:", "name", "--", "sh", "-c", "echo $REDLOCK_NAME; echo $REDLOCK_OWNER; echo $REDLOCK_TOKEN; read line")
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
	c := redlocktest.New(t, 5)
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")

	for _, flags := range [][]string{{"--no-wait"}, {"--wait", "0s"}, {"--wait", "50ms"}} {
		s := begin(t, c, append(append([]string{"run"}, flags...), "name", "echo", "must not run")...)
		code := s.code()
		if said := s.stderr.String(); code != exitTaken || !strings.HasPrefix(said, `redlock: lock "name": taken`) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: got %d, %q, want 75 and one line that says taken", flags, code, said)
		}
		s.expect("(end of output)")
	}

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

func TestRunNoQuorum(t *testing.T) {
	c := redlocktest.New(t, 5)
	c.Kill(0, 1, 2)
	for _, flag := range []string{"--no-wait", "--wait=100ms"} {
		s := begin(t, c, "run", flag, "name", "echo", "must not run")
		code := s.code()
		said := s.stderr.String()
		if code != exitNoQuorum || !strings.HasPrefix(said, "redlock: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: got %d, %q, want 69 and one line", flag, code, said)
		}
		for i := range 3 {
			if !strings.Contains(said, c.Addr(i)) {
				t.Errorf("%s: %q does not name the dead node %s", flag, said, c.Addr(i))
			}
		}
		s.expect("(end of output)")
	}
	free(t, c, "name")
}

func TestRunWaitsForQuorum(t *testing.T) {
	c := redlocktest.New(t, 5)
	c.Kill(0, 1, 2)
	s := begin(t, c, "run", "--restart-guard=0s", "name", "echo", "held")
	if err := c.Revive(0, 1, 2); err != nil {
		t.Fatal(err)
	}
	s.expect("held")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

func TestRunRenews(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "--ttl", "2s", "name", "sleep", "6")
	if got := s.code(); got != 0 {
		t.Errorf("a command three times as long as the TTL: got %d, %q, want 0", got, s.stderr.String())
	}
}

func TestRunEndsTheCommandWhenTheLockIsLost(t *testing.T) {
	for name, e := range map[string]struct {
		script string
		flags  []string
		want   []string // lines of output after "ready"
	}{
		"it obeys":        {script: `trap 'echo TERM; exit 0' TERM`, want: []string{"TERM", "(end of output)"}},
		"it is stubborn":  {script: `trap '' TERM`, flags: []string{"--kill-after", "50ms"}, want: []string{"(end of output)"}},
		"its child is":    {script: `(trap '' TERM; while :; do sleep 0.02; done) & : `, flags: []string{"--kill-after", "50ms"}, want: []string{"(end of output)"}},
		"it has no time":  {script: `trap '' TERM`, flags: []string{"--kill-after", "0s"}, want: []string{"(end of output)"}},
		"its child obeys": {script: `(trap 'echo child; exit' TERM; while :; do sleep 0.02; done) & : `, want: []string{"child", "(end of output)"}},
		"it had stopped":  {script: `trap 'echo TERM; exit 0' TERM; (sleep 0.1; kill -STOP $$) & : `, want: []string{"TERM", "(end of output)"}},
		"it has a code":   {script: `trap 'echo TERM; exit 9' TERM`, want: []string{"TERM", "(end of output)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 5)
			args := append([]string{"run", "--ttl", "400ms"}, e.flags...)
			s := begin(t, c, append(args, "name", "--", "sh", "-c", e.script+"; echo ready; while :; do sleep 0.02; done")...)
			s.expect("ready")
			c.Kill(0, 2, 4)
			for _, want := range e.want {
				s.expect(want)
			}
			if got := s.code(); got != exitLost {
				t.Errorf("got %d, want %d", got, exitLost)
			}
			want := "redlock: lock \"name\" is lost: ending the command\n"
			if len(e.flags) > 0 {
				want += fmt.Sprintf("redlock: not ended within %s: killing it\n", e.flags[1])
			}
			said := ""
			for line := range strings.Lines(s.stderr.String()) {
				if strings.HasPrefix(line, "redlock: ") { // the shell may say "Terminated"
					said += line
				}
			}
			if said != want {
				t.Errorf("standard error: got %q, want %q", s.stderr.String(), want)
			}
		})
	}
}

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
	for name, sig := range all {
		s.signal(sig)
		s.expect(name)
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
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	var before []string
	eventually(t, "the key on every node", func() bool { // it is held as soon as a majority has it
		before = owners(t, c, "name")
		return len(before) == len(c.URLs())
	})
	count := clients(t, c, 0)
	eventually(t, "one client", func() bool { return count() == 1 })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := begin(t, c, "run", "name", "echo", "must not run")
		// A signal that came before it was caught would end redlock as well, but with no exit code. It is caught
		// before redlock connects.
		eventually(t, "a second client", func() bool { return count() == 2 })
		s.signal(syscall.SIGUSR1) // for the command: dropped
		s.signal(sig)
		if got, want := s.code(), exitSignal+exitCode(sig); got != want {
			t.Errorf("%s: got %d, want %d", sig, got, want)
		}
		s.expect("(end of output)")
		eventually(t, "one client", func() bool { return count() == 1 })
	}
	if after := owners(t, c, "name"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the holder's keys: %q before and %q after", before, after)
	}
}

// clients returns a function that counts the connections to a node, without its own. That one stays: the node
// may take a moment to notice that a connection has gone.
func clients(t *testing.T, c *redlocktest.Cluster, node int) func() int {
	t.Helper()
	conn, err := redis.DialURL(c.URLs()[node])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() int {
		text, err := redis.String(conn.Do("INFO", "clients"))
		if err != nil {
			t.Fatal(err)
		}
		_, number, _ := strings.Cut(strings.TrimSpace(text), "connected_clients:")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("INFO clients: %q", text)
		}
		return n - 1
	}
}

func TestRunKilledTakesTheCommandAlong(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("only Linux can do that")
	}
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "name", "--", "sh", "-c", "trap 'echo TERM; exit' TERM; echo ready; while :; do sleep 0.02; done")
	s.expect("ready")
	s.signal(syscall.SIGKILL)
	s.expect("TERM")
}
