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
	"github.com/quorumlock/redlock/internal/cases"
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
	out := cases.Must(cmd.StdoutPipe())(t)
	cases.NoError(t, cmd.Start())
	line, readErr := bufio.NewReader(out).ReadString('\n')
	time.Sleep(10 * time.Millisecond) // not at once: the runtime may end threads in the meantime
	cases.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	cases.NoError(t, readErr)
	pid := cases.Must(strconv.Atoi(strings.TrimSpace(line)))(t)
	fleet.Eventually(t, "the server has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // gone, or a zombie
	})
}
