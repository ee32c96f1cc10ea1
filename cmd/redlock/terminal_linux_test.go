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

// terminalColumns is what many have.
const terminalColumns = 80

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
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: terminalColumns}); err != nil {
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
	return []string{settingOf("nodes") + "=" + strings.Join(c.URLs(), ",")}
}
