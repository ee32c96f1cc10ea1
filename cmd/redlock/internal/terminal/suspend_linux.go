package terminal

import (
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// byKey returns the signal of Ctrl-Z, which stops whoever takes it until undo is called. Once Go has caught it, nothing
// in os/signal gives it its default action back: Reset leaves Go's handler in place, and after Ignore it stays ignored.
// What the kernel is given has another layout on each architecture, and is on all of them the default action when it
// is all zeros. Go's handler is put back as the kernel returned it.
func byKey() (sig unix.Signal, undo func()) {
	type action [8]uint64 // more than any kernel's
	var byDefault, caught action
	set := func(to, old *action) {
		signals := uintptr(64)
		if strings.HasPrefix(runtime.GOARCH, "mips") {
			signals = 128
		}
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), // what is left to fail are our arguments
			uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), signals/8, 0, 0)
	}
	set(&byDefault, &caught)
	return unix.SIGTSTP, func() { set(&caught, nil) }
}
