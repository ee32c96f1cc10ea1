package redisserver

import "syscall"

// diesWithParent keeps a process that panics or is killed from leaving servers behind.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
