package process

import "syscall"

// diesWithParent makes the kernel kill the process when this process ends, also by a panic or a signal.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
