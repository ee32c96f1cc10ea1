//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func status(t *testing.T, c *redlocktest.Cluster, name string) string {
	t.Helper()
	s := begin(t, c, "status", name)
	s.code()
	head := s.next()
	for line := range s.lines {
		if strings.HasPrefix(line, "runs: ") {
			return line
		}
	}
	return head
}

// When the job is done, nobody runs it again, and nobody says a word: cron mails what is said.
func TestOnceRunsOnce(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	begin(t, c, "once", "report", "--", "sh", "-c", "echo $REDLOCK_NAME").end(0, "report\n", "")
	begin(t, c, "once", "report", "echo", "again").end(0, "", "")
	begin(t, c, "once", "--done-code=9", "report", "echo", "again").end(9, "", "")
	begin(t, c, "once", "report-2", "echo", "another").end(0, "another\n", "")
	c.FastForward(7201e9)
	begin(t, c, "once", "report", "echo", "the next").end(0, "the next\n", "")
	free(t, c, "report")
}

func TestOnceExhausted(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, command := range []struct {
		script string
		code   exitCode
	}{{"exit 3", 3}, {"kill -KILL $$", 137}} {
		begin(t, c, "once", "--max-runs=2", "report", "sh", "-c", command.script).end(command.code, "", "")
		free(t, c, "report")
	}
	begin(t, c, "once", "--max-runs=2", "report", "echo", "again").end(exitExhausted, "",
		`redlock: once report: runs exhausted: 2 of 2 runs have begun and none succeeded`)
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 2 begun, the last one failed; remembered for 1h59m") {
		t.Errorf("status: %s", got)
	}
	begin(t, c, "once", "report", "echo", "the third").end(0, "the third\n", "")
	const third = "runs: 3 begun, the last one succeeded; nobody begins another for 1h59m"
	if got := status(t, c, "report"); !strings.HasPrefix(got, third) {
		t.Errorf("status: %s", got)
	}
	job := filepath.Join(t.TempDir(), "job")
	cases.NoError(t, os.WriteFile(job, []byte("#!/no/such/interpreter\n"), 0o700))
	for _, command := range []string{"no-such-command", job} { // is no run
		begin(t, c, "once", "other", command).end(exitNotFound, "", "redlock: "+command+": command not found\n")
		if got := status(t, c, "other"); got != "other: nobody holds it" {
			t.Errorf("%s: %s", command, got)
		}
	}
}

func TestOnceWhileARunIsUnderWay(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	first := holding(t, c, "once", "report")
	for _, flag := range []string{"--no-wait", "--wait=2s"} {
		begin(t, c, "once", flag, "report", "echo", "again").end(exitTaken, "", "redlock: lock report: taken by ")
	}
	begin(t, c, "once", "--no-wait", "--taken-code=0", "report", "echo", "again").end(0, "", "")
	const want = "runs: 1 begun, the last one is under way, or has crashed and its lock remains"
	if got := status(t, c, "report"); got != want {
		t.Errorf("status: %s", got)
	}
	waiting := begin(t, c, "once", "report", "echo", "my turn")
	first.stdin.Close()
	first.end(3, "", "") // it fails
	waiting.end(0, "my turn\n", "")
}

// A run whose redlock is killed counts, and the next one is begun when the lock is free.
func TestOnceTakesOverFromTheDead(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("only Linux ends the command with redlock")
	}
	c := redlocktest.New(t, 5)
	first := holding(t, c, "once", "--ttl=3s", "report")
	waiting := begin(t, c, "once", "--max-runs=2", "report", "sh", "-c", "echo mine; exit 1")
	late := begin(t, c, "once", "--max-runs=2", "report", "sh", "-c", "echo mine; exit 1")
	first.signal(syscall.SIGKILL)
	codes := map[exitCode]int{waiting.code(): 1}
	codes[late.code()]++
	if codes[1] != 1 || codes[exitExhausted] != 1 {
		t.Errorf("got exit codes %v, want one 1, of the second and last run, and one 80", codes)
	}
}

// A run that was asked to end is no success, also if its command ends with 0 and the hold is renewed after all.
func TestOnceThatWasAskedToEnd(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := begin(t, c, "once", "--ttl=4s", "--term-before=2s", "report", "--", "sh", "-c",
		"trap 'echo TERM; read line; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
	s.expect("ready")
	c.Pause(0, 1, 2)
	s.expect("TERM")
	c.Resume(0, 1, 2)
	s.stdin.Close()
	cases.Equals(t, s.code(), exitLost, "exit code")
	begin(t, c, "once", "report", "echo", "again").end(0, "again\n", "")
}

// Too few nodes live to be told of the success: that is said, since the job may run again.
func TestOnceSuccessThatNobodyKnows(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := begin(t, c, "once", "--ttl=2s", "report", "--", "sh", "-c", "echo ready; read line; exit 0")
	s.expect("ready")
	c.Kill(0, 1, 2)
	s.stdin.Close()
	if code := s.code(); code != exitNoQuorum && code != exitLost || !strings.HasPrefix(s.stderr.String(), "redlock: ") {
		t.Errorf("got %d, %q, want 69 or 79 and why", code, s.stderr.String())
	}
}
