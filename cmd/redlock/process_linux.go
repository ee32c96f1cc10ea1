package main

import (
	"runtime"
	"syscall"
)

// The kernel sends Pdeathsig when the thread that started the command ends, not the process. The main goroutine,
// which starts it, therefore stays on the main thread, and that one lives as long as the process.
func init() { runtime.LockOSThread() }

// endWithUs has the kernel end the command when we are killed and can no longer tell it that the lock is lost.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
