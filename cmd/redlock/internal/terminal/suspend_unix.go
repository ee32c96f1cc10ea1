//go:build unix

package terminal

import (
	"context"
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
	return stop(unix.SIGSTOP)
}

// awaitForeground stops our process group for as long as the terminal belongs to another: a shell's "bg" continues us
// without it. SIGTTOU is what the kernel would send, and does nothing to a group that nobody could continue any more. A
// shell's "kill" continues us, too, so that we hear of it: therefore ctx, whose end ends the wait.
func awaitForeground(ctx context.Context, tty *os.File) {
	const hearing = 250 * time.Millisecond // until ctx has ended for a signal that came with what continued us
	for {
		group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
		if err != nil || group <= 0 || group == unix.Getpgrp() {
			return // or it is no terminal of ours, or its owner cannot be seen from here
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hearing):
		}
		if !stop(unix.SIGTTOU) {
			return
		}
	}
}

// stop stops our process group, and returns true when it was continued; false: the signal did nothing.
func stop(sig unix.Signal) bool {
	// The stop may come a moment after kill has returned, when the thread that the kernel chose for it gets a processor.
	// A patience that ends before would have the cursor hidden again, and then be stopped.
	const patience = 2 * time.Second
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	unix.Kill(0, sig) // our own group exists
	select {
	case <-continued:
		return true
	case <-time.After(patience):
		return false
	}
}
