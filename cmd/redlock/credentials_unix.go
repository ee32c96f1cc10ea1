//go:build unix

package main

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// inOwnGroup has the command and whatever it starts killed when its context is done: else a shell's children would
// remain, one set for each time that they hang. The terminal's keys do not reach it.
func inOwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}
