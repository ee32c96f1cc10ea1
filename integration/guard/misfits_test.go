package guard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Whatever a URL leads to in place of a master that is fit, doctor says what it is in one sentence, which is right, and
// ends with the code of a fleet in which nobody can lock.
func TestDoctorKnowsEachMisfit(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDLOCK_PROVIDER") == masters.Containers {
		t.Skip("these servers are processes")
	}
	doctor := buildCommand(t)
	authority, err := redisserver.NewAuthority()
	fleet.Must(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, text := range authority.Files() {
		if strings.Contains(name, "ca") {
			fleet.Must(t, os.WriteFile(ca, []byte(text), 0o600))
		}
	}
	launch := func(c redisserver.Config) *redisserver.Server {
		s, err := redisserver.Launch(t.Context(), c)
		fleet.Must(t, err)
		t.Cleanup(func() { _ = s.Remove(context.Background()) })
		return s
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	server := web.Listener.Addr().String()
	sound := launch(redisserver.Config{}).Addr()
	secret := launch(redisserver.Config{Args: []string{"--requirepass", "right"}, Password: "right"}).Addr()
	secure := launch(redisserver.Config{Args: authority.Args(), Files: authority.Files()}).Addr()
	strict := launch(redisserver.Config{
		Args: append(authority.Args(), "--tls-auth-clients", "yes"), Files: authority.Files(),
	}).Addr()
	evicting := launch(redisserver.Config{
		Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
	}).Addr()
	cluster := launch(redisserver.Config{Args: []string{"--cluster-enabled", "yes"}}).Addr()
	replica := launch(redisserver.Config{Args: []string{"--replicaof", strings.Replace(sound, ":", " ", 1)}}).Addr()
	gone, err := ports.Reserve()
	fleet.Must(t, err)
	t.Cleanup(gone.Release)
	sentinel := fleet.StartSentinel(t, "main", sound)

	const tlsWanted = "it accepts the connection and closes it without an answer, as a proxy does whose server is down, " +
		"and a node that wants TLS (rediss://)"
	const noTLS = "no answer to the TLS handshake (a node that does not speak TLS wants redis://): "
	for name, c := range map[string]struct {
		url, addr, says string
		short           string // what "wait" says in its one line
		flags           []string
	}{
		"replica": {
			url: "redis://", addr: replica,
			says: "[refused] ADDR: refused: it is a replica of " + sound + ": use its master",
		},
		"LRU": {
			url: "redis://", addr: evicting,
			says: "[refused] ADDR: refused: maxmemory-policy allkeys-lru may evict locks: " +
				"CONFIG SET maxmemory-policy noeviction",
		},
		"just restarted": {
			url: "redis://", addr: sound, says: "unavailable: 0 of 1 node votes; a majority will in ",
			flags: []string{"--max-ttl=1h"},
		},
		"wrong password": {
			url: "redis://:hunter2@", addr: secret,
			says: "[reply-wrongpass] ADDR: WRONGPASS invalid username-password",
		},
		"a password, and the server has none": {
			url: "redis://:hunter2@", addr: sound,
			says:  "[reply-err] ADDR: ERR the server has no password (leave it out, or name the user: default:PASSWORD@",
			short: "no quorum: 0 of 1 voted, ADDR ERR: the server has no password",
		},
		"no password": {
			url: "redis://", addr: secret,
			says: "[reply-noauth] ADDR: NOAUTH Authentication required.",
		},
		"plain against TLS": {
			url: "redis://", addr: secure,
			says: "[unreachable] ADDR: " + tlsWanted + "\n",
		},
		"plain against TLS with a password": {
			url: "redis://:hunter2@", addr: secure, says: "[unreachable] ADDR: " + tlsWanted + "\n",
		},
		"TLS against plain": {
			url: "rediss://", addr: sound, says: "[tls] ADDR: " + noTLS,
			short: "no quorum: 0 of 1 voted, ADDR unreachable: " + noTLS,
		},
		"unknown authority": {
			url: "rediss://", addr: secure,
			says: "[certificate] ADDR: its certificate is not accepted: " +
				"certificate signed by unknown authority\n   set --ca or --server-name",
		},
		"another name": {
			url: "rediss://", addr: secure, flags: []string{"--ca=" + ca, "--server-name=other.example"},
			says: "[certificate] ADDR: its certificate is not accepted: certificate is ",
		},
		"certificate wanted": {
			url: "rediss://", addr: strict, flags: []string{"--ca=" + ca},
			says: "[certificate] ADDR: it does not accept the TLS handshake: certificate required\n   set --cert and --key",
		},
		"unreachable": {
			url: "redis://", addr: gone.Addr(),
			says: "[unreachable] ADDR: dial tcp ADDR: connect: connection refused",
		},
		"Sentinel": {
			url: "redis://", addr: sentinel,
			says:  "[refused] ADDR: refused: it is a Sentinel, which keeps no data",
			short: "no quorum: 0 of 1 voted, ADDR refused: it is a Sentinel, which keeps no data",
		},
		"cluster": {
			url: "redis://", addr: cluster,
			says: "[refused] ADDR: refused: it runs in cluster mode (cluster-enabled yes)",
		},
		"HTTP": {
			url: "redis://", addr: server,
			says:  "[not-redis] ADDR: it is no Redis server, but answers HTTP",
			short: "no quorum: 0 of 1 voted, ADDR unreachable: it is no Redis server, but answers HTTP",
		},
		"HTTP with a password": {
			url: "redis://:hunter2@", addr: server,
			says: "[not-redis] ADDR: it is no Redis",
		},
		"HTTP in place of TLS": {
			url: "rediss://", addr: server,
			says: "[tls] ADDR: it does not speak TLS: write redis",
		},
		"all right, with --ca": {
			url: "rediss://", addr: secure, flags: []string{"--ca=" + ca},
			says: "healthy: 1 of 1 node votes\n",
		},
		"all right, with scheme": {
			url: "rediss://", addr: secure, flags: []string{"--ca=" + ca}, says: "\nrediss://ADDR  yes ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// run returns what a verb says and its exit code, once it says what is wanted: an address may be new.
			run := func(want string, args ...string) (string, int) {
				want = strings.ReplaceAll(want, "ADDR", c.addr)
				for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
					cmd := exec.CommandContext(t.Context(), doctor, append(args, "--node-timeout=1s")...)
					cmd.Env = append(cmd.Environ(), "REDLOCK_NODES="+c.url+c.addr)
					out, _ := cmd.CombinedOutput() // the exit code says it
					said := string(out)
					if strings.Contains(said, "hunter2") {
						t.Fatalf("the password is shown:\n%s", said)
					}
					if strings.Contains(said, want) {
						return said, cmd.ProcessState.ExitCode()
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s does not say %q; at last:\n%s", args[0], want, said)
					}
				}
			}
			args := []string{"doctor", "--no-restart-guard"}
			if name == "just restarted" {
				args = args[:1]
			}
			said, code := run(c.says, append(args, c.flags...)...)
			if fit := strings.HasPrefix(name, "all right"); fit != (code == 0) || !fit && code != 3 {
				t.Errorf("got exit code %d:\n%s", code, said)
			}
			if n := strings.Count(said, "] "+c.addr+": "); n > 1 {
				t.Errorf("%d sentences about one node:\n%s", n, said)
			}
			if said, code := run(c.short, "wait", "--no-wait"); c.short != "" && code != 69 {
				t.Errorf("got exit code %d:\n%s", code, said)
			}
		})
	}
}

// buildCommand builds the command and returns its path.
func buildCommand(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "redlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/redlock")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
