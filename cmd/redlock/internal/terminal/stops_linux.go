package terminal

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopping has TSTP stop us meanwhile: Go keeps its handler of a signal that has been caught once. The kernel's
// structure differs between architectures, but is all zero for the default, and 64 bytes are enough.
func stopping(caught bool, do func(by syscall.Signal)) {
	var none, ours [8]uint64
	const sizeOfMask = 8
	set := func(to, from *[8]uint64) {
		unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)),
			uintptr(unsafe.Pointer(from)), sizeOfMask, 0, 0)
	}
	if caught {
		set(&none, &ours)
		defer set(&ours, &none)
	}
	do(unix.SIGTSTP)
}
