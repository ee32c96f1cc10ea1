//go:build unix && !linux

package terminal

import "golang.org/x/sys/unix"

// byKey returns what is nearest to the signal of Ctrl-Z and has kept its default action: nothing of ours catches it.
// What gives the real one its action back is different on each system, and cannot be called from Go on all of them. A
// sudo that gives us a terminal of its own takes this one for a wish to read, and continues us.
func byKey() (sig unix.Signal, undo func()) { return unix.SIGTTIN, func() {} }
