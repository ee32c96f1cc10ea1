//go:build !linux

package masters

import "syscall"

// diesWithParent is nothing where the kernel offers nothing of the kind: a
// test that is killed leaves its servers behind.
func diesWithParent() *syscall.SysProcAttr { return nil }
