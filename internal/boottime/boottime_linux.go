package boottime

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// read makes a raw system call. unix.ClockGettime would tell the scheduler of it, which is of no use for a call that
// never blocks, and each lock reads the clock twice.
func read() time.Duration {
	var ts unix.Timespec
	if _, _, failed := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)),
		0); failed != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
