package redisserver_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// A test that is killed, or that panics at its time-out, cannot clean up: the kernel has to.
func TestAServerDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), acting+"=parent", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	cases.NoError(t, err)
	cases.NoError(t, cmd.Start())
	line, readErr := bufio.NewReader(out).ReadString('\n')
	time.Sleep(10 * time.Millisecond) // not at once: the runtime may end threads in the meantime
	cases.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	cases.NoError(t, readErr)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	cases.NoError(t, err)
	for deadline := time.Now().Add(soon); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d runs on without its parent", pid)
		}
	}
}

// running reports whether the process runs; a zombie does not.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
