//go:build !linux

package process

import "syscall"

// diesWithParent does nothing, since this kernel cannot do it: a process that is killed leaves what it started behind.
func diesWithParent() *syscall.SysProcAttr { return nil }
