//go:build !linux

package redisserver

import "syscall"

// diesWithParent does nothing, since this kernel cannot do it: a process that is killed leaves its servers behind.
func diesWithParent() *syscall.SysProcAttr { return nil }
