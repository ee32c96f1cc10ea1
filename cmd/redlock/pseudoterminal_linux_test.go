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
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// terminalColumns is what many have.
const terminalColumns = 80

// pseudoterminal is a program in a pseudo-terminal: the session's first, in the foreground.
type pseudoterminal struct {
	program
	keys *os.File

	mu     sync.Mutex // guards screen
	screen bytes.Buffer
	seen   int // how much of it await has gone past; of the test's goroutine
}

func openTerminal(t *testing.T, env []string, name string, args ...string) *pseudoterminal {
	t.Helper()
	// Not os.OpenFile: its Fd makes reading block for good, so that Close would not end it.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminals here: %v", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	cases.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := cases.Must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	cases.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: terminalColumns}))
	path := fmt.Sprintf("/dev/pts/%d", number)
	slave := cases.Must(os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer slave.Close()

	s := &pseudoterminal{program: program{t, exec.Command(name, args...), make(chan struct{})}, keys: master}
	s.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cases.NoError(t, s.cmd.Start())
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

// openShell has a shell in a terminal, with job control, that knows the nodes.
func openShell(t *testing.T, c *redlocktest.Cluster) *pseudoterminal {
	t.Helper()
	shell := openTerminal(t, append(nodesOf(c), "PS1=prompt> ", "ENV=", "REDLOCK="+binary), "sh", "-i")
	shell.await("prompt> ")
	return shell
}

func (s *pseudoterminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// await waits for text after what was awaited before.
func (s *pseudoterminal) await(text string) {
	s.t.Helper()
	cases.Eventually(s.t, text, func() bool {
		i := strings.Index(s.text()[s.seen:], text)
		if i >= 0 {
			s.seen += i + len(text)
		}
		return i >= 0
	})
}

func (s *pseudoterminal) press(keys string) {
	s.t.Helper()
	cases.Must(s.keys.WriteString(keys))(s.t)
}

// modes are the terminal's.
func (s *pseudoterminal) modes() unix.Termios {
	s.t.Helper()
	modes := cases.Must(unix.IoctlGetTermios(int(s.keys.Fd()), unix.TCGETS))(s.t)
	return *modes
}

func (s *pseudoterminal) resize(rows, columns uint16) {
	s.t.Helper()
	size := unix.Winsize{Row: rows, Col: columns}
	cases.NoError(s.t, unix.IoctlSetWinsize(int(s.keys.Fd()), unix.TIOCSWINSZ, &size))
}

// narrow checks that no line is broken by the terminal.
func (s *pseudoterminal) narrow() {
	s.t.Helper()
	for line := range strings.Lines(s.text()) {
		if n := utf8.RuneCountInString(plain(strings.TrimRight(line, "\r\n"))); n > terminalColumns {
			s.t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}

// plain leaves out the colours.
func plain(text string) string {
	for _, colour := range []string{terminal.Bold, terminal.Dim, terminal.Red, terminal.Green, terminal.Yellow, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+colour+"m", "")
	}
	return text
}

// What keys send.
const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)
