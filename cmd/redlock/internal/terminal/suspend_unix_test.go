//go:build unix

package terminal

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What has continued us since Ctrl-Z, or asked us to end, undoes it. The test is a process group of its own, which
// would stop, and end at the deadline.
func TestStopIsUndone(t *testing.T) {
	const inGroup = "REDLOCK_TEST_IN_GROUP"
	if os.Getenv(inGroup) == "" {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestStopIsUndone$")
		cmd.Env = append(os.Environ(), inGroup+"=1")
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	ended, end := context.WithCancel(t.Context())
	end()
	before := make(chan os.Signal, 1)
	before <- unix.SIGCONT
	for what, c := range map[string]struct {
		ctx       context.Context
		continued chan os.Signal
	}{
		"continued": {t.Context(), before},
		"ended":     {ended, make(chan os.Signal)},
	} {
		if got := suspend(c.ctx, c.continued); !got {
			t.Errorf("%s: got %v, want true", what, got)
		}
	}
	// The signal is caught as before.
	keys := make(chan os.Signal, 1)
	signal.Notify(keys, unix.SIGTSTP)
	suspend(ended, nil)
	unix.Kill(os.Getpid(), unix.SIGTSTP)
	<-keys
}
