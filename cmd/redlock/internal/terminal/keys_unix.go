//go:build unix

package terminal

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// keys are what is typed on a terminal, read as it is typed and not shown. Ctrl-C and Ctrl-Z stay signals, and lines
// are printed as before: term.MakeRaw would take that from us and from whoever else writes to the terminal.
type keys struct {
	tty   *os.File
	found *unix.Termios // the terminal's modes, while they are changed
}

// keysOf returns nil where in is no terminal.
func keysOf(in *os.File) *keys {
	if !Is(in) {
		return nil
	}
	return &keys{tty: in}
}

// pressed says whether key was pressed since the last call. The modes are looked at anew each time, since a shell that
// has stopped and continued us brings its own.
func (k *keys) pressed(key byte) bool {
	if k == nil || !foreground(k.tty) {
		return false // to read would stop us
	}
	fd := int(k.tty.Fd())
	now, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil {
		return false
	}
	wanted := *now
	wanted.Lflag &^= unix.ICANON | unix.ECHO
	wanted.Cc[unix.VMIN], wanted.Cc[unix.VTIME] = 1, 0 // with 0 for both, a shell that finds them so reads the end
	if wanted != *now {
		if unix.IoctlSetTermios(fd, setModes, &wanted) != nil {
			return false
		}
		k.found = now
	}
	var ready unix.FdSet
	ready.Set(fd)
	if n, err := unix.Select(fd+1, &ready, nil, nil, &unix.Timeval{}); n <= 0 || err != nil {
		return false // to read would be to wait
	}
	var typed [64]byte
	n, err := unix.Read(fd, typed[:])
	return err == nil && bytes.IndexByte(typed[:n], key) >= 0
}

// restore leaves the terminal as it was found. One that is not ours now has the shell's modes already.
func (k *keys) restore() {
	if k == nil || k.found == nil {
		return
	}
	if foreground(k.tty) {
		_ = unix.IoctlSetTermios(int(k.tty.Fd()), setModes, k.found) // nobody to tell
	}
	k.found = nil
}

// foreground says whether the terminal is ours: otherwise the kernel stops who reads from it or changes its modes. It
// is, too, where its owner cannot be seen from here.
func foreground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group <= 0 || group == unix.Getpgrp()
}
