package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// The compose file, the configuration and, with passwords, the users of docs/deploy run as they stand: five masters
// that a Locker has nothing to say about, and that are there again after one was killed.
func TestTheComposeFileRuns(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDLOCK_PROVIDER") != masters.Containers {
		t.Skip("it needs a Docker engine: REDLOCK_PROVIDER=containers")
	}
	compose := composer(t)
	t.Cleanup(func() {
		if out, err := compose("down", "--volumes", "--timeout", "1"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	if out, err := compose("up", "--detach"); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	var urls []string
	for port := 7001; port <= 7005; port++ {
		urls = append(urls, fmt.Sprintf("redis://app:%s@127.0.0.1:%d", fleet.AppPassword, port))
	}
	l := fleet.Guarded(t, urls, period, redlock.WithTTL(ttl), redlock.WithPrefix("app:"))
	fleet.Eventually(t, "five healthy nodes", func() bool { return fleet.Healthy(t, l) })
	ids := cases.Must(compose("ps", "--quiet"))(t)
	const rights = "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}"
	all := strings.Fields(string(ids))
	if len(all) != 5 {
		t.Errorf("got the containers %q, want five", all)
	}
	for _, id := range all {
		//nolint:gosec // the tool's own words
		got, err := exec.CommandContext(t.Context(), "docker", "inspect", "--format", rights, id).CombinedOutput()
		if want := "999:999 true [ALL] [no-new-privileges:true]\n"; err != nil || string(got) != want {
			t.Errorf("a container has %s, %v, want %s", got, err, want)
		}
	}
	k := cases.Must(l.Lock(t.Context(), "job"))(t)
	if out, err := compose("kill", "redis-1"); err != nil {
		t.Errorf("kill: %v\n%s", err, out)
	}
	cases.NoError(t, k.Extend(t.Context()))
	if out, err := compose("start", "redis-1"); err != nil {
		t.Errorf("start: %v\n%s", err, out)
	}
	fleet.Eventually(t, "five healthy nodes again", func() bool { return fleet.Healthy(t, l) })
	cases.NoError(t, k.Unlock())
}

// composer returns what runs Docker's compose tool, by either of its names, on docs/deploy/compose.yaml.
func composer(t *testing.T) func(args ...string) ([]byte, error) {
	t.Helper()
	image := cases.Must(masters.Image(t.Context()))(t)
	tool := []string{"docker-compose"}
	if _, err := exec.LookPath(tool[0]); err != nil {
		if tool = []string{"docker", "compose"}; exec.Command(tool[0], "compose", "version").Run() != nil {
			t.Skip("neither docker-compose nor docker compose is installed")
		}
	}
	users := filepath.Join(t.TempDir(), "users.acl")
	cases.NoError(t, os.Chmod(filepath.Dir(users), 0o755))
	//nolint:gosec // another user reads it
	cases.NoError(t, os.WriteFile(users, []byte(fleet.WithPasswords(fleet.UsersFile(t))), 0o644))
	tool = append(tool, "--project-name", fmt.Sprintf("redlock-%d", os.Getpid()),
		"--file", "../../docs/deploy/compose.yaml")
	return func(args ...string) ([]byte, error) {
		//nolint:gosec,noctx // our own words, and it must also run in a cleanup
		c := exec.Command(tool[0], append(tool[1:], args...)...)
		c.Env = append(os.Environ(), "REDLOCK_REDIS_IMAGE="+image, "REDLOCK_USERS="+users)
		return c.CombinedOutput()
	}
}
