//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// catchStop has Ctrl-Z delivered to ch, unless our parent ignores it.
func catchStop(ch chan<- os.Signal) {
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(ch, unix.SIGTSTP)
	}
}

// Suspend stops our process group for the shell that runs it as a job, and returns true when it was continued. Where
// no shell could continue it – our group is the session's first, as in a container – it does nothing. It must be
// SIGSTOP: once Go has caught SIGTSTP, its default action does not come back.
func Suspend() bool {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() {
		return false
	}
	const patience = 100 * time.Millisecond // STOP may take effect a moment after kill has returned
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	unix.Kill(0, unix.SIGSTOP) // our own group exists
	select {
	case <-continued:
	case <-time.After(patience):
	}
	return true
}
