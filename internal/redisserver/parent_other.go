//go:build !linux

package redisserver

import "syscall"

// diesWithParent is nothing where the kernel offers nothing of the kind: a
// process that is killed leaves its servers behind.
func diesWithParent() *syscall.SysProcAttr { return nil }
