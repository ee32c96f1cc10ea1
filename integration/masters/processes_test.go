package masters_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// onlyProcesses skips a test of servers that are processes where there may be none.
func onlyProcesses(t *testing.T) {
	t.Helper()
	if provider.Name() != masters.Processes {
		t.Skip("these servers are processes")
	}
}

func launch(t *testing.T) *redisserver.Server {
	t.Helper()
	onlyProcesses(t)
	s, err := redisserver.Launch(t.Context(), redisserver.Config{Files: map[string]string{"ours": ""}})
	fleet.Must(t, err)
	t.Cleanup(func() { fleet.Must(t, s.Remove(context.Background())) })
	return s
}

// parentOf makes this program the parent of a server: it starts one, prints its process ID, and waits to be killed.
const parentOf = "REDLOCK_TEST_PARENT"

func parent() {
	s, err := redisserver.Launch(context.Background(), redisserver.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID())
	select {}
}

// A test that is killed, or that panics at its time-out, cannot clean up: the kernel has to.
func TestAServerDiesWithItsParent(t *testing.T) {
	onlyProcesses(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentOf+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	fleet.Must(t, err)
	fleet.Must(t, cmd.Start())
	line, readErr := bufio.NewReader(out).ReadString('\n')
	time.Sleep(10 * time.Millisecond) // not at once: the runtime may end threads in the meantime
	fleet.Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	fleet.Must(t, readErr)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	fleet.Must(t, err)
	fleet.Eventually(t, "the server has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // gone, or a zombie
	})
}

func TestAServerIsRemovedWholly(t *testing.T) {
	s := launch(t)
	dir := filepath.Dir(s.Socket())
	if s.PID() == 0 || s.Start(t.Context()) == nil {
		t.Errorf("a server that runs, as process %d, starts", s.PID())
	}
	fleet.Must(t, s.Kill(t.Context()))
	if s.PID() != 0 || s.Pause() == nil {
		t.Errorf("killed: got the process %d, want none", s.PID())
	}
	fleet.Must(t, s.Wipe())
	files, err := os.ReadDir(dir)
	fleet.Must(t, err)
	if len(files) != 1 || files[0].Name() != "ours" {
		t.Errorf("after Wipe: got %v, want the file that it was given", files)
	}
	fleet.Must(t, s.Remove(t.Context()))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: got %v, want none", err)
	}
}

func TestNothingIsWaitedForLongerThanTheContext(t *testing.T) {
	s := launch(t)
	fleet.Must(t, s.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop, while frozen: got %v, want the context's end", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := redisserver.Launch(over, redisserver.Config{})
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Launch: got %v, want that it does not answer", err)
	}
}

func TestABinaryThatIsNotThere(t *testing.T) {
	onlyProcesses(t)
	none := filepath.Join(t.TempDir(), "none")
	if _, err := redisserver.Launch(t.Context(), redisserver.Config{Binary: none}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Launch: got %v, want that there is no such binary", err)
	}
	if _, err := redisserver.Version(none); err == nil {
		t.Error("a binary that is not there has a version")
	}
	t.Setenv("REDLOCK_PROVIDER", masters.Processes)
	t.Setenv("REDLOCK_REDIS_SERVER", none)
	_, chosen := masters.Choose(t.Context())
	_, launched := redisserver.Launch(t.Context(), redisserver.Config{})
	for _, err := range []error{chosen, launched} {
		if err == nil || !strings.Contains(err.Error(), "install") {
			t.Errorf("got %v, want what to install", err)
		}
	}
}
