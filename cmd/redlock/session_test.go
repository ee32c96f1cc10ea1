//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// patience is how long a test waits for what should happen soon.
const patience = time.Minute

// program is one that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
}

// code waits for the end and returns the exit code.
func (p *program) code() exitCode {
	p.t.Helper()
	select {
	case <-p.ended:
		return exitCode(p.cmd.ProcessState.ExitCode())
	case <-time.After(patience):
		p.t.Fatalf("%q: not ended within %s", p.cmd.Args, patience)
		return 0
	}
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	cases.NoError(p.t, p.cmd.Process.Signal(sig))
}

// session is a redlock that runs.
type session struct {
	program
	stdin  io.WriteCloser
	lines  chan string // of standard output; closed at its end
	stderr bytes.Buffer
}

// begin starts the binary. Its nodes are the cluster's, if there is one.
func begin(t *testing.T, c *redlocktest.Cluster, args ...string) *session {
	t.Helper()
	return beginCmd(t, c, exec.Command(binary, args...))
}

func beginCmd(t *testing.T, c *redlocktest.Cluster, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{program: program{t, cmd, make(chan struct{})}, lines: make(chan string, 1000)}
	s.cmd.Env = os.Environ()
	if c != nil {
		s.cmd.Env = append(s.cmd.Env, nodesOf(c)...)
	}
	s.cmd.Stderr = &s.stderr
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout := cases.Must(s.cmd.StdoutPipe())(t)
	cases.NoError(t, s.cmd.Start())
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

func nodesOf(c *redlocktest.Cluster) []string {
	return []string{settingOf("nodes") + "=" + strings.Join(c.URLs(), ",")}
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

// end waits for the end of a session and checks exit code and output.
func (s *session) end(code exitCode, stdout, stderr string) {
	s.t.Helper()
	got := s.code()
	var out strings.Builder
	for line := range s.lines {
		out.WriteString(line + "\n")
	}
	said := s.stderr.String()
	if got != code || out.String() != stdout || !strings.HasPrefix(said, stderr) || (stderr == "") != (said == "") {
		s.t.Errorf("%q: got %d, %q, %q; want %d, %q, %q", s.cmd.Args[1:], got, out.String(), said, code, stdout, stderr)
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
		conn := cases.Must(redis.DialURL(url))(t)
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

func free(t *testing.T, c *redlocktest.Cluster, key string) {
	t.Helper()
	cases.Eventually(t, key+" let go on every node", func() bool { return len(owners(t, c, key)) == 0 })
}

// holding starts a redlock with a command that has said that it is ready, and ends with 3 when its standard input does.
func holding(t *testing.T, c *redlocktest.Cluster, args ...string) *session {
	t.Helper()
	s := begin(t, c, append(args, "sh", "-c", "echo ready; read line; exit 3")...)
	s.expect("ready")
	return s
}

// object waits for the end of a session, and decodes what it has printed.
func (s *session) object(v any) exitCode {
	s.t.Helper()
	code := s.code()
	var text strings.Builder
	for line := range s.lines {
		text.WriteString(line)
	}
	if err := json.Unmarshal([]byte(text.String()), v); err != nil {
		s.t.Fatalf("%q: %v in %q, %s", s.cmd.Args[1:], err, text.String(), s.stderr.String())
	}
	return code
}

// clients returns a function that counts the connections to a node, without its own. That one stays: the node
// may take a moment to notice that a connection has gone.
func clients(t *testing.T, c *redlocktest.Cluster, node int) func() int {
	t.Helper()
	conn := cases.Must(redis.DialURL(c.URLs()[node]))(t)
	t.Cleanup(func() { conn.Close() })
	return func() int {
		text := cases.Must(redis.String(conn.Do("INFO", "clients")))(t)
		_, number, _ := strings.Cut(strings.TrimSpace(text), "connected_clients:")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("INFO clients: %q", text)
		}
		return n - 1
	}
}
