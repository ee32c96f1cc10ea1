//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
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

// ownFile returns an error if others than us, or root, may write the file. What is written to a device such as
// /dev/null is not what is read there.
func ownFile(name string, info fs.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case mode&fs.ModeDevice != 0:
		return nil
	case known && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s (mode %04o) belongs to another user, %d, who could have redlock run any command: "+
			"chown it, and chmod go-w", name, mode.Perm(), stat.Uid)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%s (mode %04o) may be written by others than its owner, who could have redlock run any command: "+
			"chmod go-w %s", name, mode.Perm(), name)
	}
	return nil
}
