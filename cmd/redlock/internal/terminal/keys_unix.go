//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// keys are what is typed on a terminal in raw mode: it comes at once and is not shown, and Ctrl-C, Ctrl-\ and Ctrl-Z
// are keys like others.
type keys struct {
	tty   *os.File
	found *term.State // how the terminal was; nil: as it is
}

// keysOf returns nil where in is no terminal.
func keysOf(in *os.File) *keys {
	if !Is(in) {
		return nil
	}
	return &keys{tty: in}
}

// pressed says whether key was pressed since the last call, and does what the terminal would for those that end or stop
// a program; stopped says that one has stopped us. The terminal must be ours. It is made raw anew each time: a shell
// that has stopped and continued us without our doing brings its own modes.
func (k *keys) pressed(key byte) (pressed, stopped bool) {
	if k == nil {
		return false, false
	}
	fd := int(k.tty.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return false, false
	}
	if k.found == nil {
		k.found = before
	}
	var ready unix.FdSet
	ready.Set(fd)
	if n, err := unix.Select(fd+1, &ready, nil, nil, &unix.Timeval{}); n <= 0 || err != nil {
		return false, false // to read would be to wait
	}
	var typed [64]byte
	n, _ := unix.Read(fd, typed[:])
	for _, typed := range typed[:max(n, 0)] {
		switch typed {
		case key:
			pressed = true
		case 'C' - '@':
			unix.Kill(0, unix.SIGINT) // our own group exists
		case '\\' - '@':
			unix.Kill(0, unix.SIGQUIT)
		case 'Z' - '@':
			k.restore()
			Suspend(0, false)
			stopped = true
		}
	}
	return pressed, stopped
}

// restore leaves the terminal as it was found. One that is not ours now has the shell's modes already.
func (k *keys) restore() {
	if k == nil || k.found == nil {
		return
	}
	if foreground(k.tty) {
		_ = term.Restore(int(k.tty.Fd()), k.found) // nobody to tell
	}
	k.found = nil
}

// foreground says whether the terminal is ours: otherwise the kernel stops who reads from it or changes its modes. It
// is, too, where its owner cannot be seen from here.
func foreground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group <= 0 || group == unix.Getpgrp()
}

// background stops our process group, as the kernel stops who reads from a terminal that is not theirs. It does nothing
// where no shell could continue us.
func background() { unix.Kill(0, unix.SIGTTOU) }

// Suspend stops a process, which is we, or our process group (0), as Ctrl-Z does, and returns when a shell has
// continued us. It does nothing where none could: in the session's first group, as in a container, and, after a moment,
// where the last parent in the session has ended. caught: TSTP has been, at some time.
func Suspend(who int, caught bool) {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() || signal.Ignored(unix.SIGTSTP) {
		return
	}
	const moment = 2 * time.Second // the stop may come after kill has returned, by another thread
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	stopping(caught, func(by syscall.Signal) {
		unix.Kill(who, by)
		select {
		case <-continued:
		case <-time.After(moment):
		}
	})
}
