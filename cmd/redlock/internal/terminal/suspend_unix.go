//go:build unix

package terminal

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// catchStop has Ctrl-Z delivered to stops, unless our parent ignores it, and what undoes it to continued.
func catchStop(stops, continued chan<- os.Signal) {
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(continued, unix.SIGCONT)
		signal.Notify(stops, unix.SIGTSTP)
	}
}

// Suspend stops our process group for the shell that runs it as a job, and returns when it was continued. Where no
// shell could continue it, it does nothing.
func Suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	suspend(context.Background(), continued)
}

// suspend is Suspend for a caller that has heard of Ctrl-Z: what has come to continued since, and the end of ctx, undo
// it. It returns true when the shell had the terminal, or may have had it.
//
// Nobody can continue a group that is the session's first, as in a container, or whose last parent in the session has
// ended. That may happen at any moment, also between what we see here and the stop. Therefore it must not be SIGSTOP:
// all other stops do nothing to such a group, and the kernel continues one that is stopped already.
//
// What continues us just before the stop, and is heard just after it, is lost, as in any program that catches Ctrl-Z.
// The shell learns of the stop, and shows us as stopped again.
func suspend(ctx context.Context, continued <-chan os.Signal) bool {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() {
		return false
	}
	sig, undo := byKey()
	defer undo()
	return stop(ctx, continued, sig)
}

// awaitForeground stops our process group for as long as the terminal belongs to another: a shell's "bg" continues us
// without it. SIGTTOU is what the kernel would send, and does nothing to a group that nobody could continue any more. A
// shell's "kill" continues us, too, so that we hear of it: therefore ctx, whose end ends the wait.
func awaitForeground(ctx context.Context, continued <-chan os.Signal, tty *os.File) {
	const hearing = 250 * time.Millisecond // until ctx has ended for a signal that came with what continued us
	for !foreground(tty) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(hearing):
		}
		if !stop(ctx, continued, unix.SIGTTOU) {
			return
		}
	}
}

// stop stops our process group, and returns true when it was continued, or is about to end; false: the signal did
// nothing.
func stop(ctx context.Context, continued <-chan os.Signal, sig unix.Signal) bool {
	// The stop may come a moment after kill has returned, when the thread that the kernel chose for it gets a processor.
	// A patience that ends before would have the cursor hidden again, and then be stopped.
	const patience = 2 * time.Second
	select {
	case <-continued:
		return true
	case <-ctx.Done():
		return true
	default:
	}
	unix.Kill(0, sig) // our own group exists
	select {
	case <-continued:
		return true
	case <-ctx.Done():
		return true
	case <-time.After(patience):
		return false
	}
}
