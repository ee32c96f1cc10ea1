package guard_test

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// Everything is wrong at once, each with one of five URLs: doctor explains each fault, and what it tells to do
// cures the fleet.
func TestDoctorOnAMisconfiguredFleet(t *testing.T) {
	t.Parallel()
	doctor := doctorBinary(t)
	f := fleet.StartSpec(t, 5, masters.Spec{})
	sound, replica, evicting, restarted, spare := f.Nodes[0], f.Nodes[1], f.Nodes[2], f.Nodes[3], f.Nodes[4]
	twin := f.Network(t) // leads to each node by another address
	others := []string{sound.URL(), replica.URL(), evicting.URL(), restarted.URL()}

	// Masters that have just been started abstain: first that must be over.
	doctor(t, patientlyUntil("healthy: 5 of 5 nodes vote"), append(others, spare.URL()))

	host, port := split(t, sound.Addr())
	_, err := replica.Do("REPLICAOF", host, port)
	fleet.Must(t, err)
	_, err = evicting.Do("CONFIG", "SET", "maxmemory", "100mb")
	fleet.Must(t, err)
	_, err = evicting.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	fleet.Must(t, err)
	fleet.Must(t, restarted.Restart())

	code, said := doctor(t, once, append(others, twin.URLs[0]))
	for _, want := range []string{
		"[refused] " + replica.Addr() + ": refused: it is a replica of " + sound.Addr() +
			": use its master, or make it one (REPLICAOF NO ONE)",
		"[refused] " + evicting.Addr() +
			": refused: maxmemory-policy allkeys-lru may evict locks: CONFIG SET maxmemory-policy noeviction",
		"[abstains] " + restarted.Addr() + ": restarted ",
		"[twice] " + twin.Proxies[0].Addr() + ": the same server as " + sound.Addr() + ": it would have two votes",
		"[no-majority] all nodes: 1 of 5 nodes vote, a majority is 3",
		"unsafe: 1 of 5 nodes vote",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("doctor does not say %q:\n%s", want, said)
		}
	}
	if code != 2 {
		t.Errorf("got exit code %d, want 2", code)
	}
	if strings.Contains(said, "With") {
		t.Errorf("doctor names options of the library, which its users have not:\n%s", said)
	}

	// As told: a master again, no eviction, a server of its own for each URL, and patience.
	_, err = replica.Do("REPLICAOF", "NO", "ONE")
	fleet.Must(t, err)
	_, err = evicting.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	fleet.Must(t, err)
	if code, _ := doctor(t, patientlyUntil("healthy: 5 of 5 nodes vote"), append(others, spare.URL())); code != 0 {
		t.Errorf("when all is mended: got exit code %d, want 0", code)
	}
}

// once and patientlyUntil say whether what doctor says is what a test waits for.
func once(string) bool { return true }

func patientlyUntil(text string) func(string) bool {
	return func(said string) bool { return strings.Contains(said, text) }
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

// doctorBinary builds the command and returns a function that runs its doctor until it says what is wanted. The guard
// is long enough for a node that has just been restarted to be caught abstaining.
func doctorBinary(t *testing.T) func(t *testing.T, enough func(string) bool, urls []string) (int, string) {
	t.Helper()
	binary := buildCommand(t)
	return func(t *testing.T, enough func(string) bool, urls []string) (int, string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			var out bytes.Buffer
			cmd := exec.CommandContext(t.Context(), binary, "doctor", "--restart-guard", "10s", "--node-timeout", "5s")
			cmd.Env = append(cmd.Environ(), "REDLOCK_NODES="+strings.Join(urls, ","))
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			var ended *exec.ExitError
			if err != nil && !errors.As(err, &ended) {
				t.Fatal(err)
			}
			switch {
			case enough(out.String()):
				return cmd.ProcessState.ExitCode(), out.String()
			case time.Now().After(deadline):
				t.Fatalf("not within two minutes; at last:\n%s", out.String())
			}
		}
	}
}
