package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// drawing are the verbs that draw again and again; shows is what.
var drawing = []struct{ verb, shows string }{{"demo", "of 5 up"}, {"top name", "of 5 nodes vote"}}

// Whatever asks for the end gets it, with no stack trace on the screen. For top: TestTopReadsKeys.
func TestDrawingEnds(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		s := openTerminal(t, nil, binary, "demo")
		s.await("of 5 up")
		s.signal(sig)
		s.await("redlock: demo interrupted")
		cases.Equals(t, s.code(), exitSignal+exitCode(sig), "%s", sig)
		if strings.Contains(s.text(), "goroutine") {
			t.Errorf("%s: a stack trace in %q", sig, s.text())
		}
	}
}

// nohup ignores HUP for us, also where it has left us the terminal.
func TestDrawingKeepsIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, "sh", "-c", `trap '' HUP; exec "$0" demo`, binary)
	s.await("0 sold")
	s.signal(syscall.SIGHUP)
	s.await("100 sold, stock says 0")
	s.press(ctrlC)
	s.code()
}

// In the background there is no terminal to draw on: what was stopped and is continued there stops again, and the
// shell says so. In front it goes on below what the shell wrote. What is ended while it is stopped ends.
func TestDrawingInTheBackground(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		shell := openShell(t, c)
		shell.press("$REDLOCK " + d.verb + "\n")
		shell.await(d.shows)
		shell.stop()
		stopped := shell.seen
		for range 2 {
			shell.press("bg\n")
			before := len(shell.text())
			cases.Eventually(t, "stopped again", func() bool { // a shell tells of it with its next prompt
				shell.press("sleep 0.1\n")
				shell.await("prompt> ")
				return strings.Contains(shell.text()[before:], "Stopped")
			})
		}
		if text := shell.text()[stopped:]; d.verb != "demo" && strings.Contains(text, d.shows) { // it may have news to tell
			t.Errorf("%s: drawn in the background: %q", d.verb, text)
		}
		shell.press("fg; echo co\"\"de=$?\n")
		shell.await(d.shows)
		if text := shell.text()[stopped:shell.seen]; strings.Contains(text, "A\r\x1b[J") {
			t.Errorf("%s: drawn over what the shell wrote: %q", d.verb, text)
		}
		shell.stop()
		shell.press("kill %1; kill -s CONT %1\n") // as "kill %1" alone is in other shells
		shell.gone()
	}
}

// Stopped as the job of a shell that has started something else, which has started us: "go run", sudo, or "redlock
// run", which takes other stops than Ctrl-Z's for somebody else's doing, or for a wish to read.
func TestDrawingIsStoppedAsByTheKey(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		for _, by := range []string{
			"$REDLOCK run --pass-nodes job -- $REDLOCK " + d.verb, "sh -c '$REDLOCK " + d.verb + "; exit $?'",
		} {
			shell := openShell(t, c)
			shell.press(by + "\n")
			shell.await(d.shows)
			shell.stop()
			shell.press("fg\n")
			shell.await(d.shows)
			shell.press(ctrlC)
			shell.await("prompt> ")
			shell.gone()
		}
	}
}

// gone waits until nothing of redlock lives in this terminal's session.
func (s *pseudoterminal) gone() {
	s.t.Helper()
	cases.Eventually(s.t, "end of the program", func() bool { return len(s.redlocks()) == 0 })
}

// redlocks are the processes of that name in this terminal's session.
func (s *pseudoterminal) redlocks() (pids []int) {
	s.t.Helper()
	s.session(func(pid int, name, _ string) {
		if name == "redlock" {
			pids = append(pids, pid)
		}
	})
	return pids
}

// stop presses Ctrl-Z, and waits until all that the shell has started has stopped. A program that waits for a line gets
// the signal first, but takes a line that is there by the time it is woken, and stops then.
func (s *pseudoterminal) stop() {
	s.t.Helper()
	s.press(ctrlZ)
	s.await("prompt> ")
	cases.Eventually(s.t, "all have stopped", func() bool {
		all := true
		s.session(func(pid int, _, state string) { all = all && (state == "T" || pid == s.cmd.Process.Pid) })
		return all
	})
}

// session calls do for each process of this terminal's session that lives.
func (s *pseudoterminal) session(do func(pid int, name, state string)) {
	s.t.Helper()
	for _, path := range cases.Must(filepath.Glob("/proc/[0-9]*/stat"))(s.t) {
		text, _ := os.ReadFile(path) // empty if it has ended
		before, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // state, parent, group, session
		if len(fields) < 4 || fields[3] != strconv.Itoa(s.cmd.Process.Pid) || fields[0] == "Z" {
			continue
		}
		number, name, _ := strings.Cut(before, " (")
		do(cases.Must(strconv.Atoi(number))(s.t), name, fields[0])
	}
}

// state is a process's, as ps shows it; "" once it has ended.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	state, _, _ := strings.Cut(after, " ")
	if state == "Z" {
		return ""
	}
	return state
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	cases.NoError(t, unix.Kill(pid, sig))
}
