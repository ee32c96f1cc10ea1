package redisserver

import "syscall"

// diesWithParent makes the kernel kill the server when this process ends, also by a panic or a signal.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
