package masters_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/redisserver"
)

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
	if provider.Name() != masters.Processes {
		t.Skip("these servers are processes")
	}
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
