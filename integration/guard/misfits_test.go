package guard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Whatever a URL leads to in place of a master that is fit, doctor says what it is in one sentence, which is right, and
// ends with the code of a fleet in which nobody can lock. What it says, wait and run say, too: also of a node that
// votes and does not do what locks need.
func TestDoctorKnowsEachMisfit(t *testing.T) {
	t.Parallel()
	if os.Getenv("REDLOCK_PROVIDER") == masters.Containers {
		t.Skip("these servers are processes")
	}
	command := fleet.BuildCommand(t)
	authority := cases.Must(redisserver.NewAuthority())(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, text := range authority.Files() {
		if strings.Contains(name, "ca") {
			cases.NoError(t, os.WriteFile(ca, []byte(text), 0o600))
		}
	}
	launch := func(c redisserver.Config) *redisserver.Server {
		s := cases.Must(redisserver.Launch(t.Context(), c))(t)
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
	gone := fleet.FreshAddr(t)
	sentinel := fleet.StartSentinel(t, "main", sound)
	var users []string
	refused := map[string]string{} // what does not work, by the commands that a user may not use
	for _, cells := range cases.Rows(t, "../../testdata/refusals.txt", 3) {
		for command := range strings.FieldsSeq(cells[0]) {
			refused[command] = cells[2]
			users = append(users, "--user", command, "on", "nopass", "~*", "&*", "+@all")
			users = append(users, strings.Fields("-"+strings.ReplaceAll(command, "+", " -"))...)
		}
	}
	poor := launch(redisserver.Config{Args: users}).Addr()
	full := launch(redisserver.Config{Args: []string{"--maxmemory", "1"}}).Addr()
	alone := launch(redisserver.Config{Args: []string{"--min-replicas-to-write", "1"}}).Addr()

	const tlsWanted = "[unreachable] ADDR: it accepts the connection and closes it without an answer, as a proxy does " +
		"whose server is down, and a node that wants TLS (rediss://)\n"
	const noTLS, isHTTP = "no answer to the TLS handshake (a node that", "it is no Redis server, but answers HTTP"
	const unaccepted, isSentinel = "its certificate is not accepted: certificate ", "it is a Sentinel, which keeps no data"
	const none, password = "no quorum: 0 of 1 voted, ADDR ", "redis://:hunter2@ADDR"
	rows := [][]string{ // a name, URL and address, what doctor says; what "wait" says in its one line; flags
		{"replica", "redis://ADDR", replica, "[refused] ADDR: refused: it is a replica of " + sound + ": use its master"},
		{
			"LRU", "redis://ADDR", evicting, "[refused] ADDR: refused: maxmemory-policy allkeys-lru may evict locks: CONFIG " +
				"SET maxmemory-policy noeviction",
		},
		{"just restarted", "redis://ADDR", sound, "unavailable: 0 of 1 node votes; a majority will in ", "", "--max-ttl=1h"},
		{"wrong password", password, secret, "[reply-wrongpass] ADDR: WRONGPASS invalid username-password"},
		{
			"a password, and the server has none", password, sound, "[reply-err] ADDR: ERR the server has no password " +
				"(leave it out, or name the user: default:PASSWORD@", none + "ERR: the server has no password",
		},
		{"no password", "redis://ADDR", secret, "[reply-noauth] ADDR: NOAUTH Authentication required."},
		{"no such database", "redis://ADDR/99", sound, "[reply-err] ADDR: ERR DB index is out of range (the URL's database"},
		{"plain against TLS", "redis://ADDR", secure, tlsWanted},
		{"plain against TLS with a password", password, secure, tlsWanted},
		{"TLS against plain", "rediss://ADDR", sound, "[tls] ADDR: " + noTLS, none + "unreachable: " + noTLS},
		{
			"unknown authority", "rediss://ADDR", secure, "[certificate] ADDR: " + unaccepted + "signed by unknown " +
				"authority\n   set --ca or --server-name",
		},
		{
			"another name", "rediss://ADDR", secure, "[certificate] ADDR: " + unaccepted + "is ", "", "--ca=" + ca,
			"--server-name=other.example",
		},
		{
			"certificate wanted", "rediss://ADDR", strict, "[certificate] ADDR: it does not accept the TLS handshake: " +
				"certificate required\n   set --cert and --key", "", "--ca=" + ca,
		},
		{"unreachable", "redis://ADDR", gone, "[unreachable] ADDR: dial tcp ADDR: connect: connection refused"},
		{"Sentinel", "redis://ADDR", sentinel, "[refused] ADDR: refused: " + isSentinel, none + "refused: " + isSentinel},
		{"cluster", "redis://ADDR", cluster, "[refused] ADDR: refused: it runs in cluster mode (cluster-enabled yes)"},
		{"HTTP", "redis://ADDR", server, "[not-redis] ADDR: " + isHTTP, none + "unreachable: " + isHTTP},
		{"HTTP with a password", password, server, "[not-redis] ADDR: it is no Redis"},
		{"HTTP in place of TLS", "rediss://ADDR", server, "[tls] ADDR: it does not speak TLS: write redis"},
		{"full", "redis://ADDR", full, "unavailable: 1 of 1 node votes, but too few", none + "OOM: maxmemory is in use"},
		{"no replicas", "redis://ADDR", alone, "lower min-replicas-to-write)\n", none + "NOREPLICAS: "},
		{"all right, with --ca", "rediss://ADDR", secure, "healthy: 1 of 1 node votes\n", "", "--ca=" + ca},
		{"all right, with scheme", "rediss://ADDR", secure, "\nrediss://ADDR  yes ", "", "--ca=" + ca},
	}
	for command, refused := range refused {
		says, short := "of 1 node", "" // healthy or degraded, or one that votes
		if strings.Contains(refused, "lock") || strings.Contains(refused, "unavailable") {
			says, short = "unavailable: ", "no quorum: "
		}
		rows = append(rows, []string{"without " + command, "redis://" + command + ":x@ADDR", poor, says, short})
	}
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			row := append(slices.Clone(row), "")
			// run returns what a verb says and its exit code, once it says what is wanted: an address may be new.
			run := func(want string, args ...string) (string, int) {
				want = strings.ReplaceAll(want, "ADDR", row[2])
				for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
					cmd := exec.CommandContext(t.Context(), command, args...)
					node := strings.ReplaceAll(row[1], "ADDR", row[2])
					cmd.Env = append(cmd.Environ(), "REDLOCK_NODE_TIMEOUT=1s", "REDLOCK_NODES="+node)
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
			flags := slices.Clone(row[min(5, len(row)-1) : len(row)-1])
			if row[0] != "just restarted" {
				flags = append(flags, "--no-restart-guard")
			}
			said, code := run(row[3], append([]string{"doctor"}, flags...)...)
			if fit := strings.HasPrefix(row[0], "all right"); fit && code != 0 || !fit && row[4] != "" && code != 3 {
				t.Errorf("got exit code %d:\n%s", code, said)
			}
			if n := strings.Count(said, "] "+row[2]+": "); n > 1 && row[2] != poor && row[2] != full && row[2] != alone {
				t.Errorf("%d sentences about one node:\n%s", n, said)
			}
			// Nor does anything wait for what doctor says is not to be had, and run can do what wait has said.
			want := map[bool]int{true: 69}[code == 3]
			if said, got := run(row[4], append([]string{"wait", "--no-wait"}, flags...)...); got != want {
				t.Errorf("doctor %d, wait %d: %s", code, got, said)
			}
			args := append(append([]string{"run", "--no-wait"}, flags...), row[0], "true")
			if said, got := run("", args...); got != want {
				t.Errorf("doctor %d, run %d: %s", code, got, said)
			}
		})
	}
}
