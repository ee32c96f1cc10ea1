//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	cases.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// asked is a command for a password, with limits that a test sets.
func asked(t *testing.T, line string, limit, serves time.Duration) *passwordCommand {
	t.Helper()
	c := newPasswordCommand(line)
	c.limit, c.serves = limit, serves
	t.Cleanup(c.end)
	return c
}

// All nodes that are connected at one moment share a run of the command, and so do those right after it.
func TestARunOfThePasswordCommandServesAll(t *testing.T) {
	dir := t.TempDir()
	runs, gate := filepath.Join(dir, "runs"), filepath.Join(dir, "gate")
	line := "echo run >>" + runs + "; until [ -e " + gate + " ]; do sleep 0.01; done; cat " + gate
	count := func() int {
		text, _ := os.ReadFile(runs) // none before the first run
		return strings.Count(string(text), "run")
	}
	c := asked(t, line, patience, time.Hour)
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(gaveUp); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gives up: got %v", err)
	}
	var asking sync.WaitGroup
	for k := range 5 {
		if k == 3 {
			write(t, gate, "secret one \r\nnot this\n")
		}
		asking.Go(func() {
			if got, err := c.get(t.Context()); got != "secret one " || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	asking.Wait()
	if got := count(); got != 1 {
		t.Errorf("the command ran %d times", got)
	}
	c.serves = 0
	write(t, gate, "secret two")
	if got, err := c.get(t.Context()); got != "secret two" || err != nil || count() != 2 {
		t.Errorf("later: got %q, %v, %d runs", got, err, count())
	}
}

// The PATH of env -i leads to no sh, which is where it always is. Where there is none at all, only a person helps.
func TestThePasswordCommandWithoutPath(t *testing.T) {
	t.Setenv("PATH", "")
	if got, err := asked(t, "echo s3cret", patience, 0).get(t.Context()); got != "s3cret" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	defer func(was string) { sureShell = was }(sureShell)
	sureShell = "/no/such/sh"
	code, _, said := redlocks(t, "wait", "--nodes=app:@127.0.0.1:1", "--password-command=echo s3cret")
	if code != exitNoQuorum || !strings.Contains(said, "/no/such/sh: no such file or directory; no majority is possible") {
		t.Errorf("got %d, %q", code, said)
	}
}

// When the command fails, the error has what it says, and nothing of what it prints.
func TestThePasswordCommandFails(t *testing.T) {
	for line, want := range map[string]string{
		"echo s3cret; exit 3":                          "exit status 3",
		"echo s3cret; echo sealed >&2; exit 1":         "exit status 1: sealed",
		"echo a >&2; echo ' b ' >&2; exit 1":           "exit status 1: b",
		"echo s3cret; echo got s3cret >&2; exit 1":     "exit status 1",
		"echo x; echo s3cret; echo s3cret >&2; exit 1": "exit status 1",
		"printf '\\033[1mred\\n' >&2; exit 1":          `exit status 1: \x1b[1mred`,
		"true":                                         "the first line that it prints is empty",
		"echo; echo s3cret":                            "the first line that it prints is empty",
		"kill -9 $$":                                   "signal: killed",
		"exec /no/such/s3cret/vault 2>&-":              "exit status 127",
	} {
		got, err := asked(t, line, patience, 0).get(t.Context())
		if got != "" || err == nil || err.Error() != "--password-command: "+want {
			t.Errorf("%s: got %q, %v, want %s", line, got, err, want)
		}
	}
	long, err := asked(t, "head -c 500 /dev/zero | tr '\\0' x >&2; exit 1", patience, 0).get(t.Context())
	if long != "" || len(err.Error()) > 260 || !strings.HasSuffix(err.Error(), "…") {
		t.Errorf("got %d bytes: %v", len(err.Error()), err)
	}
	if got, err := asked(t, "yes | head -c 300000", patience, 0).get(t.Context()); got != "y" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	// What goes on in the background holds the output open, and is not waited for.
	if got, err := asked(t, "sleep 600 & echo $!", patience, 0).get(t.Context()); err != nil {
		t.Errorf("got %v", err)
	} else if pid, err := strconv.Atoi(got); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// A command that hangs is killed with all that it has started, when its time is over and when redlock ends.
func TestAPasswordCommandThatHangsIsEnded(t *testing.T) {
	for name, limit := range map[string]time.Duration{
		"its time is over": 300 * time.Millisecond, "redlock ends": time.Hour,
	} {
		file := filepath.Join(t.TempDir(), "pid")
		c := asked(t, "echo $$ >"+file+".new; mv "+file+".new "+file+"; sleep 600 | cat; true", limit, 0)
		said := make(chan error, 1)
		go func() {
			_, err := c.get(t.Context())
			said <- err
		}()
		if limit == time.Hour {
			cases.Eventually(t, "it runs", func() bool { _, err := os.Stat(file); return err == nil })
			c.end()
			if _, err := c.get(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("after the end: got %v", err)
			}
		}
		if err := <-said; err == nil || limit != time.Hour &&
			err.Error() != "--password-command: not ended within 300ms" {
			t.Errorf("%s: got %v", name, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it was ended before it had begun
		}
		pid := cases.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
		cases.Eventually(t, "nothing of it is left", func() bool { return syscall.Kill(-pid, 0) == syscall.ESRCH })
	}
}

// loginsFrom returns what a verb makes of its flags and settings, what New gets for nodes, and whether it asks.
func loginsFrom(t *testing.T, args ...string) (l *logins, nodes []string, asks bool, err error) {
	t.Helper()
	nodes, err = settledValue(t, func(cmd *cli.Command) []string {
		var node redlock.NodeConfig
		l = loginsOf(cmd)
		list, to := redlock.ParseNodes(cmd.String("nodes")), redlock.ParseNodes(cmd.String("to"))
		err = l.provide(&node, cmd, list, to)
		asks = node.Credentials != nil
		return append(list, to...)
	}, append([]string{"status"}, args...)...)
	return l, nodes, asks, err
}

// User and password of URLs in the file of settings are those that stand there when a node is connected.
func TestLoginsOfTheFile(t *testing.T) {
	file := writeFile(t, "REDLOCK_NODES=redis://app:one@a b:7001,u:p@c\nREDLOCK_TO=redis://app:one@a u:p@d\n")
	l, nodes, asks, err := loginsFrom(t, "--config", file)
	want := "redis://a redis://b:7001 redis://c redis://a redis://d"
	if got := strings.Join(nodes, " "); err != nil || !asks || got != want {
		t.Fatalf("got %s, asks: %v, %v, want %s", got, asks, err, want)
	}
	for _, c := range []struct{ text, addr, user, password, err string }{
		{"", "a:6379", "app", "one", ""},
		{"", "b:7001", "", "", ""},
		{"", "d:6379", "u", "p", ""},
		{"REDLOCK_NODES=app:two@a b,c", "a:6379", "app", "two", ""},
		{"REDLOCK_NODES=app:two@b,c", "a:6379", "app", "two", ""}, // it has left the file
		{"REDLOCK_NODES=app:two@b,c", "d:6379", "u", "p", ""},
		{"REDLOCK_NODES=app:two@a\nREDLOCK_TO=x:y@d", "d:6379", "x", "y", ""},
		{"REDLOCK_NODES=app:three@a\nREDLOCK_OF_NEXT_YEAR=1", "a:6379", "app", "three", ""},
		{"REDLOCK_NODES=b app:s3cret/@a", "a:6379", "", "", file + ": REDLOCK_NODES: node 2: not a URL such as"},
		{"REDLOCK_NODES=app:s3cr", "a:6379", "", "", file + ": REDLOCK_NODES: node 1: "},
		{"REDLOCK_NODE", "a:6379", "", "", file + ": line 1: want SETTING=VALUE"},
		{"#", "a:6379", "", "", file + ": there is no REDLOCK_NODES any more"},
		{"gone", "a:6379", "", "", "settings: open " + file + ": no such file"},
	} {
		switch c.text {
		case "":
		case "gone":
			cases.NoError(t, os.Remove(file))
		default:
			write(t, file, c.text)
		}
		user, password, err := l.of(t.Context(), c.addr)
		if c.err == "" && (err != nil || user != c.user || password != c.password) {
			t.Errorf("%s of %s: got %q, %q, %v", c.addr, c.text, user, password, err)
		}
		if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(err.Error(), "s3cr")) {
			t.Errorf("%s of %s: got %v, want %s", c.addr, c.text, err, c.err)
		}
	}
}

// Who may write the file of settings can have us run a command: so nobody else may, also not later.
func TestSettingsThatOthersMayWrite(t *testing.T) {
	file := writeFile(t, "REDLOCK_NODES=a\n")
	link := filepath.Join(t.TempDir(), "link")
	cases.NoError(t, os.Symlink(file, link))
	l, _, _, err := loginsFrom(t, "--config", link)
	cases.NoError(t, err)
	for mode, refused := range map[os.FileMode]bool{
		0o600: false, 0o644: false, 0o400: false, 0o620: true, 0o602: true, 0o664: true, 0o666: true,
	} {
		cases.NoError(t, os.Chmod(file, mode))
		want := fmt.Sprintf("settings: %s (mode %04o) may be written by others than its owner, who could have redlock run "+
			"any command: chmod go-w %[1]s", link, mode)
		code, _, said := redlocks(t, "status", "--config", link)
		if _, _, later := l.of(t.Context(), "a:6379"); (later != nil) != refused || refused &&
			(later.Error() != want || code != exitUsage || said != "redlock: "+want+"\n") {
			t.Errorf("%o: got %v and %d, %q", mode, later, code, said)
		}
	}
	if os.Geteuid() == 0 { // or else nobody's file can be made
		cases.NoError(t, os.Chmod(file, 0o600))
		cases.NoError(t, os.Chown(file, 12345, -1))
		_, err := readConfig(link)
		if err == nil || !strings.Contains(err.Error(), "(mode 0600) belongs to another user, 12345") {
			t.Errorf("another's: got %v", err)
		}
	}
	if text, err := readConfig(os.DevNull); text != "" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// What stands in a flag or in the environment does not change, so that the library may rely on it.
func TestFixedLogins(t *testing.T) {
	file := writeFile(t, "REDLOCK_NODES=redis://app:one@a\nREDLOCK_TTL=5s")
	t.Setenv("REDLOCK_NODES", "app:two@a")
	for _, args := range [][]string{{"--config", file}, {"--config", file, "--nodes=app:two@a"}, {"--nodes=app:two@a"}} {
		if _, nodes, asks, err := loginsFrom(t, args...); err != nil || asks || nodes[0] != "app:two@a" {
			t.Errorf("%s: got %s, asks: %v, %v", args, nodes, asks, err)
		}
	}
}

// With a command for the password, the URLs say who logs in.
func TestLoginsOfTheCommand(t *testing.T) {
	t.Setenv("REDLOCK_PASSWORD_COMMAND", "echo secret")
	l, nodes, asks, err := loginsFrom(t, "--nodes=redis://app:@a,b,redis://h%40t:@c/2")
	if got := strings.Join(nodes, " "); err != nil || !asks || got != "redis://a redis://b redis://c/2" {
		t.Fatalf("got %s, asks: %v, %v", got, asks, err)
	}
	defer l.end() // settledValue has ended it
	l.command = asked(t, "echo secret", patience, time.Hour)
	for addr, want := range map[string]string{"a:6379": "app", "b:6379": "", "c:6379": "h@t"} {
		if user, password, err := l.of(t.Context(), addr); user != want || password != "secret" || err != nil {
			t.Errorf("%s: got %q, %q, %v", addr, user, password, err)
		}
	}
}

// While the command for the password fails, the one line says so, and no node is blamed.
func TestWithoutPassword(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireAuth("right")
	s := begin(t, nil, "wait", "--no-wait", "--nodes="+m.Addr(), "--password-command=echo sealed >&2; exit 9")
	s.end(exitNoQuorum, "", "redlock: wait: no quorum: 0 of 1 voted, "+m.Addr()+
		" without credentials: --password-command: exit status 9: sealed\n")
}
