//go:build unix && !linux

package terminal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stopping has a signal stop us: one that Go cannot have kept its handler of.
func stopping(caught bool, do func(by syscall.Signal)) {
	if caught {
		do(unix.SIGSTOP)
	} else {
		do(unix.SIGTSTP)
	}
}
