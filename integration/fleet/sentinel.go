package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// StartSentinel starts a Sentinel that watches the master under that name, and returns its address. It is a process,
// and ends with the test.
func StartSentinel(t *testing.T, name, master string) string {
	t.Helper()
	binary := cases.Must(redisserver.Find())(t)
	addr := ""
	cases.NoError(t, ports.Serve(func(p ports.Port) error {
		dir := t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s 1\n",
			p.Number, dir, name, strings.Replace(master, ":", " ", 1))
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return err
		}
		cmd := exec.Command(binary, conf, "--sentinel")
		if err := cmd.Start(); err != nil {
			return err
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		})
		addr = p.Addr()
		Eventually(t, "the Sentinel answers", func() bool {
			_, err := Ask(addr, "PING")
			return err == nil
		})
		return nil
	}))
	return addr
}

// Ask sends one command to a server over a connection of its own.
func Ask(addr, command string, args ...any) (any, error) {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(command, args...)
}
