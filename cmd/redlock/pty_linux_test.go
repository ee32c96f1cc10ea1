package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/redlocktest"
)

// terminal is a program in a pseudo-terminal: the session's first, in the foreground.
type terminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	keys  *os.File
	ended chan struct{}

	mu     sync.Mutex // guards screen
	screen bytes.Buffer
	seen   int // how much of it await has gone past; of the test's goroutine
}

func openTerminal(t *testing.T, env []string, name string, args ...string) *terminal {
	t.Helper()
	// Not os.OpenFile: its Fd makes reading block for good, so that Close would not end it.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminals here: %v", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()

	s := &terminal{t: t, cmd: exec.Command(name, args...), keys: master, ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for buf := make([]byte, 4096); ; {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.screen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil { // EIO once nobody has the terminal open
				break
			}
		}
		s.cmd.Wait() // the state says it
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() // it may have ended
		master.Close()
		<-s.ended
		if t.Failed() {
			t.Logf("the terminal showed:\n%q", s.text())
		}
	})
	return s
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// await waits for text after what was awaited before.
func (s *terminal) await(text string) {
	s.t.Helper()
	eventually(s.t, text, func() bool {
		i := strings.Index(s.text()[s.seen:], text)
		if i >= 0 {
			s.seen += i + len(text)
		}
		return i >= 0
	})
}

func (s *terminal) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *terminal) code() int {
	s.t.Helper()
	eventually(s.t, "end of the program", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
	return s.cmd.ProcessState.ExitCode()
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

func nodesOf(c *redlocktest.Cluster) []string {
	return []string{nodesEnv + "=" + strings.Join(c.URLs(), ",")}
}

func TestDemoOnATerminal(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	out := s.text()
	for _, want := range []string{"\x1b[?25l", "●", "○", "3 of 5 up: a majority", "2 of 5 up: no majority", "100 sold, stock says 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("not shown: %q", want)
		}
	}
	if !strings.HasSuffix(out[:strings.LastIndex(out, "Summary")], "\x1b[?25h\r\n\x1b[1m") {
		t.Error("the cursor is not back before the summary")
	}
}

func TestDemoWithoutColour(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		s := openTerminal(t, []string{env}, binary, "demo")
		s.await("20 tills open")
		s.press(ctrlC)
		if got := s.code(); got != 130 {
			t.Errorf("%s: got %d, want 130", env, got)
		}
		if strings.Contains(s.text(), "\x1b") {
			t.Errorf("%s: escape sequences in %q", env, s.text())
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	s := openTerminal(t, nil, binary, "demo")
	s.await("2  With the lock")
	s.await("20 tills open")
	s.press(ctrlC)
	s.await("\x1b[?25h") // the cursor is back
	s.await("redlock: demo interrupted")
	if got := s.code(); got != 130 {
		t.Errorf("got %d, want 130", got)
	}
}

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

func TestRunCtrlCWhileWaiting(t *testing.T) {
	c := redlocktest.New(t, 5)
	holder := begin(t, c, append([]string{"run", "name"}, ready...)...)
	holder.expect("ready")
	count := clients(t, c, 0)
	eventually(t, "one client", func() bool { return count() == 1 })
	s := openTerminal(t, nodesOf(c), "sh", "-c", `"$0" run name echo held; echo code=$?`, binary)
	eventually(t, "a second client", func() bool { return count() == 2 })
	s.press(ctrlC)
	s.code()
	if strings.Contains(s.text(), "code=") {
		t.Errorf("the script around redlock went on: %q", s.text())
	}
}

// Ctrl-Z stops redlock and the command, fg continues both; a lock that was lost meanwhile ends the command.
func TestRunCtrlZ(t *testing.T) {
	c := redlocktest.New(t, 5)
	shell := openTerminal(t, append(nodesOf(c), "PS1=prompt> ", "ENV=", "REDLOCK="+binary), "sh", "-i")
	shell.await("prompt> ")
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
	shell.await("is lost: ending the command")
	shell.await("code=79")
	shell.press("exit\n")
	shell.code()
	if strings.Contains(shell.text(), "survived") {
		t.Error("the command went on without the lock")
	}
}

func TestOnceCtrlC(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), "sh", "-c", `"$0" once report -- sh -c 'echo ready; read x'; echo co""de=$?`, binary)
	s.await("ready")
	s.press(ctrlC)
	s.code()
	if strings.Contains(s.text(), "code=") {
		t.Errorf("the script around redlock went on: %q", s.text())
	}
	free(t, c, "report")
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 1 begun, the last one failed") {
		t.Errorf("the run that was interrupted: %s", got)
	}

	// While a run is under way elsewhere, Ctrl-C ends the waiting, and no run is counted.
	holder := begin(t, c, append([]string{"once", "report"}, ready...)...)
	holder.expect("ready")
	count := clients(t, c, 0)
	eventually(t, "one client", func() bool { return count() == 1 })
	s = openTerminal(t, nodesOf(c), binary, "once", "report", "echo", "must not run")
	eventually(t, "a second client", func() bool { return count() == 2 })
	s.press(ctrlC)
	s.code()
	holder.stdin.Close()
	holder.code()
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 2 begun, the last one failed") {
		t.Errorf("afterwards: %s", got)
	}
}

func TestStatusOnATerminal(t *testing.T) {
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), binary, "status", "name")
	s.await("name: nobody holds it\r\n\r\nNODE")
	s.await("COUNTS\r\n" + c.Addr(0))
	if got := s.code(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
