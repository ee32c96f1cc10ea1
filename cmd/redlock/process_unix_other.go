//go:build unix && !linux

package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func endWithUs(*syscall.SysProcAttr) {}

// Orphans become the first process's, and who the command's are only the process group says.

type member struct{ pid int }

func (member) signal(syscall.Signal) error { return nil }
func adopt() bool                          { return false }
func alone() bool                          { return true }
func (p *process) reap()                   {}
func (p *process) orphaned() bool          { return false }
func (p *process) visit(func(member))      {}
func (p *process) noteStrays()             {}

// left is the command itself. The process group says nothing about permission: some systems refuse a signal also when
// all of it have ended and somebody has yet to wait for them.
func (p *process) left() []remnant {
	err := unix.Kill(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return []remnant{{pid: p.pid, refuses: errors.Is(err, unix.EPERM)}}
}
