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
			shell.cursorShown() // what has started us may stop before we do
			shell.press("kill %1; fg; echo co\"\"de=$?\n")
			shell.await("code=")
			eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
			shell.cursorShown()
		}
	}
}

// What continues and ends us may come after Ctrl-Z and before we have stopped. What has started us has ended by then,
// so that nobody would continue us. The terminal holds its output back: Ctrl-Z is heard, and the cursor stays hidden.
func TestDrawingEndsWhileStopping(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		shell := openShell(t, c)
		shell.press("sh -c '$REDLOCK " + d.verb + "; exit $?'\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		pid := shell.redlocks()[0]
		group, err := unix.Getpgid(pid)
		if err != nil {
			t.Fatal(err)
		}
		release := shell.holdOutput()
		kill(t, -group, unix.SIGTSTP)
		eventually(t, "a stopped parent", func() bool { return state(group) == "T" })
		eventually(t, "a signal that is heard", func() bool { return !pending(t, pid, unix.SIGTSTP) })
		kill(t, -group, unix.SIGTERM)
		kill(t, -group, unix.SIGCONT)
		eventually(t, "the parent's end", func() bool { return state(group) == "" })
		release()
		eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
		shell.cursorShown()
	}
}

// Where what could continue us has ended, a stop does nothing, as with any other program.
func TestDrawingWithoutParentCannotBeStopped(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		shell := openShell(t, c)
		shell.press("sh -c '$REDLOCK " + d.verb + " & read line'\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		pid := shell.redlocks()[0]
		shell.press("\n")
		shell.await("prompt> ")
		kill(t, pid, unix.SIGTSTP)
		shell.await(showCursor)
		shell.await(hideCursor)
		shell.await(d.shows)
		kill(t, pid, unix.SIGTERM)
		eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
		shell.cursorShown()
	}
}

// A program that watches what it has started – "redlock run", sudo – passes on Ctrl-Z, and takes other stops for
// somebody else's doing, or for a wish to read.
func TestDrawingIsStoppedAsByTheKey(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	for _, d := range drawing {
		shell := openShell(t, c)
		shell.press("$REDLOCK run job -- $REDLOCK " + d.verb + "; echo co\"\"de=$?\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		shell.press(ctrlZ)
		shell.await(showCursor)
		shell.await("prompt> ")
		shell.press("fg\n")
		shell.await(hideCursor)
		shell.await(d.shows)
		shell.press(ctrlC)
		shell.await("prompt> ")
		eventually(t, "end of the program", func() bool { return len(shell.redlocks()) == 0 })
		shell.cursorShown()
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

// cursorShown waits: what a program wrote last may reach the screen after it has gone.
func (s *pseudoterminal) cursorShown() {
	s.t.Helper()
	eventually(s.t, "the cursor's return", s.showsCursor)
}

// holdOutput has the terminal hold back what is written to it, as Ctrl-S does, until release. Other keys do not end it.
func (s *pseudoterminal) holdOutput() (release func()) {
	s.t.Helper()
	slave, err := os.OpenFile(s.path, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	flow := func(action int) {
		if err := unix.IoctlSetInt(int(slave.Fd()), unix.TCXONC, action); err != nil {
			s.t.Error(err)
		}
	}
	flow(unix.TCOOFF)
	return func() {
		flow(unix.TCOON)
		slave.Close()
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

// pending says whether a process was sent a signal and has yet to take it.
func pending(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nShdPnd:")
	set, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set>>(sig-1)&1 == 1
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
