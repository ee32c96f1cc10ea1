package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

// drawing are the verbs that hide the cursor; shows is what is drawn again and again.
var drawing = []struct{ verb, shows string }{{"demo", "of 5 up"}, {"top name", "of 5 nodes vote"}}

// Whatever asks for the end gets it, with the cursor back, and with no stack trace on the screen.
func TestDrawingEndsWithTheCursor(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
			s := openTerminal(t, nodesOf(c), binary, strings.Fields(d.verb)...)
			s.await(hideCursor)
			s.await(d.shows)
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			want := 0
			if d.verb == "demo" {
				want = 128 + int(sig)
			}
			if got := s.code(); got != want {
				t.Errorf("%s, %s: got %d, want %d", d.verb, sig, got, want)
			}
			s.cursorShown()
			if strings.Contains(s.text(), "goroutine") {
				t.Errorf("%s, %s: a stack trace in %q", d.verb, sig, s.text())
			}
		}
	}
}

// nohup ignores HUP for us, also where it has left us the terminal.
func TestDrawingKeepsIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, "sh", "-c", `trap '' HUP; exec "$0" demo`, binary)
	s.await(hideCursor)
	s.await("0 sold")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.await("100 sold, stock says 0")
	s.press(ctrlC)
	s.code()
	s.cursorShown()
}

// In the background there is no terminal to draw on: what was stopped and is continued there stops again, and the
// shell says so. In front it goes on below what the shell wrote.
func TestDrawingInTheBackground(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		shell := openShell(t, c)
		shell.press("$REDLOCK " + d.verb + "\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		shell.press(ctrlZ)
		shell.await(showCursor)
		shell.await("prompt> ")
		stopped := shell.seen
		for range 2 {
			shell.press("bg\n")
			before := len(shell.text())
			eventually(t, "stopped again", func() bool { // a shell tells of it with its next prompt
				shell.press("sleep 0.1\n")
				shell.await("prompt> ")
				return strings.Contains(shell.text()[before:], "Stopped")
			})
		}
		if text := shell.text()[stopped:]; strings.Contains(text, "\x1b") {
			t.Errorf("%s: drawn in the background: %q", d.verb, text)
		}
		shell.press("fg; echo co\"\"de=$?\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		if text := shell.text()[stopped:shell.seen]; strings.Contains(text, "A\r\x1b[J") {
			t.Errorf("%s: drawn over what the shell wrote: %q", d.verb, text)
		}
		shell.press(ctrlZ)
		shell.await(showCursor)
		shell.await("prompt> ")
		shell.press("kill %1; kill -s CONT %1\n") // as "kill %1" alone is in other shells
		eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
		shell.cursorShown()
	}
}

// Stopped as the job of a shell that has started something else, which has started us (make, "go run"), by one key, by
// two, and by another process; then ended while stopped.
func TestDrawingEndsWhileStopped(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		for _, stop := range []string{ctrlZ, ctrlZ + ctrlZ, "TSTP"} {
			shell := openShell(t, c)
			shell.press("sh -c '$REDLOCK " + d.verb + "; exit $?'\n")
			shell.await(hideCursor)
			shell.await(d.shows)
			if stop != "TSTP" {
				shell.press(stop)
			} else if err := syscall.Kill(shell.redlocks()[0], syscall.SIGTSTP); err != nil {
				t.Fatal(err)
			}
			shell.await("prompt> ")
			eventually(t, "the cursor's return", shell.showsCursor) // what has started us may stop before we do
			shell.press("kill %1; fg; echo co\"\"de=$?\n")
			shell.await("code=")
			eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
			shell.cursorShown()
		}
	}
}

// Where nobody could continue us, Ctrl-Z stops nothing: as the only process of a container.
func TestDrawingCannotBeStopped(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	s.await(hideCursor)
	s.await("0 sold")
	s.press(ctrlZ)
	s.await("100 sold, stock says 0")
	s.press(ctrlC)
	if got := s.code(); got != 130 {
		t.Errorf("got %d, want 130", got)
	}
	s.cursorShown()
}

func (s *pseudoterminal) showsCursor() bool {
	text := s.text()
	return strings.LastIndex(text, showCursor) >= strings.LastIndex(text, hideCursor)
}

func (s *pseudoterminal) cursorShown() {
	s.t.Helper()
	if !s.showsCursor() {
		s.t.Errorf("the cursor is hidden at the end of %q", s.text())
	}
}

// redlocks are the processes of that name in this terminal's session.
func (s *pseudoterminal) redlocks() (pids []int) {
	s.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range stats {
		text, _ := os.ReadFile(path) // empty if it has ended
		before, after, _ := strings.Cut(string(text), " (redlock) ")
		fields := strings.Fields(after) // state, parent, group, session
		if len(fields) < 4 || fields[3] != strconv.Itoa(s.cmd.Process.Pid) || fields[0] == "Z" {
			continue
		}
		pid, err := strconv.Atoi(before)
		if err != nil {
			s.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
