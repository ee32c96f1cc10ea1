package deploy_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// Managed services refuse CONFIG, as an unknown command or by the rights of the user. Locks are taken all the same,
// with no option. There is nothing to say about the nodes but a note where TrustDisk has no effect.
func TestWithoutConfigEverythingWorks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec  masters.Spec
		finds string
	}{
		"unknown":   {masters.Spec{Args: []string{"--rename-command", "CONFIG", ""}}, ""},
		"forbidden": {without(t, "config|get"), ""},
		"append-only": {
			masters.Spec{Args: []string{"--rename-command", "CONFIG", "", "--appendonly", "yes"}}, "config-refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.StartSpec(t, 5, c.spec)
			l := f.Guarded(t, period, redlock.WithTTL(period))
			fleet.Eventually(t, "five nodes vote", func() bool { return fleet.AllVote(t, l) })
			for _, n := range l.Status(t.Context()) {
				var codes []string
				for _, found := range n.Findings {
					if codes = append(codes, string(found.Code)); found.Severity != finding.Note {
						t.Errorf("got %+v, want no more than a note", found)
					}
				}
				if got := strings.Join(codes, " "); got != c.finds || n.Role != "master" || n.EvictionPolicy != "noeviction" {
					t.Errorf("got %+v, want the findings %q", n, c.finds)
				}
			}
			cycle(t, l)
		})
	}
}

func cycle(t *testing.T, l *redlock.Locker) {
	t.Helper()
	k := cases.Must(l.Lock(t.Context(), "job"))(t)
	cases.NoError(t, k.Extend(t.Context()))
	cases.NoError(t, k.Unlock())
}

// without returns masters whose clients are the user of docs/deploy/users.acl, less a right.
func without(t *testing.T, right string) masters.Spec {
	t.Helper()
	spec := fleet.Limited(t, masters.Spec{})
	users := strings.Replace(spec.Files["users.acl"], " +"+right+" ", " ", 1)
	if users == spec.Files["users.acl"] {
		t.Fatalf("the user has no right to %s", right)
	}
	spec.Files["users.acl"] = users
	return spec
}

// What a client says of masters that refuse INFO as well, and which option helps.
func TestWithoutInfoAnOptionIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec masters.Spec
		says string
	}{
		"unknown":   {masters.Spec{Args: []string{"--rename-command", "INFO", ""}}, "ERR unknown command"},
		"forbidden": {without(t, "info"), "NOPERM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.StartSpec(t, 5, c.spec)
			opts := []redlock.Option{redlock.WithTTL(period)}
			_, err := f.Guarded(t, period, opts...).TryLock(t.Context(), "job")
			want := "refused: it must answer INFO, for its role, uptime and eviction policy: " + c.says
			if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			l := f.Guarded(t, period, append(opts, redlock.WithNodeConfig(redlock.NodeConfig{AllowNoInfo: true}))...)
			fleet.Eventually(t, "five nodes vote", func() bool { return fleet.AllVote(t, l) })
			for _, n := range l.Status(t.Context()) {
				if len(n.Findings) != 1 || n.Findings[0].Code != "info-refused" || n.Role != "" {
					t.Errorf("got %+v", n)
				}
			}
			cycle(t, l)
		})
	}
}

// A managed service's default is to evict what has a TTL. The policy can be read without CONFIG.
func TestWithoutConfigAnEvictingNodeIsStillRefused(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{Args: []string{
		"--rename-command", "CONFIG", "", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru",
	}})
	_, err := f.Locker(t).TryLock(t.Context(), "job")
	const want = "refused: maxmemory-policy volatile-lru may evict locks"
	if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// pair is a master and its replica, as behind the endpoint of a service that fails over.
type pair struct{ master, replica *masters.Node }

// startPairs starts n of them, and returns when the replicas have what their masters have.
func startPairs(t *testing.T, n int, args ...string) []pair {
	t.Helper()
	if os.Getenv("REDLOCK_PROVIDER") == masters.Containers {
		t.Skip("these servers are processes: one in a container does not reach another by the address that we have")
	}
	f := fleet.StartSpec(t, 2*n, masters.Spec{Args: append([]string{"--repl-diskless-sync-delay", "0"}, args...)})
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{f.Nodes[2*i], f.Nodes[2*i+1]}
		host, port, _ := strings.Cut(pairs[i].master.Addr(), ":")
		cases.Must(pairs[i].replica.Do("REPLICAOF", host, port))(t)
		fleet.Eventually(t, "the replica follows", func() bool {
			info, err := pairs[i].master.Info("replication")
			return err == nil && info["connected_slaves"] == "1" && strings.Contains(info["slave0"], "state=online")
		})
	}
	return pairs
}

// The hazard of a master with a replica: after a failover that the old master does not know of, there are two masters.
// Each has the one vote, for different clients: here for two that do not reach the same nodes otherwise. So both hold
// the lock, whatever the restart guard is. With min-replicas-to-write, the old master refuses as soon as it has missed
// its replica for min-replicas-max-lag.
func TestAMasterThatDoesNotKnowOfItsFailoverVotesOn(t *testing.T) {
	t.Parallel()
	opts := []redlock.Option{redlock.WithTTL(period), redlock.WithNodeTimeout(time.Second)}
	for name, c := range map[string]struct {
		args []string
		both bool
	}{
		"as by default":         {nil, true},
		"min-replicas-to-write": {[]string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := startPairs(t, 1, c.args...)[0]
			plain := fleet.StartSpec(t, 2, masters.Spec{}).Nodes
			nowhere := fleet.FreshAddr(t)
			cases.Must(group.replica.Do("REPLICAOF", "NO", "ONE"))(t)
			if c.args != nil {
				fleet.Eventually(t, "the old master misses its replica", func() bool {
					info, err := group.master.Info("replication")
					return err == nil && info["min_slaves_good_slaves"] == "0"
				})
				_, err := group.replica.Do("CONFIG", "SET", "min-replicas-to-write", "0") // as its next replica comes
				cases.NoError(t, err)
			}
			a := fleet.Locker(t, []string{group.master.URL(), plain[0].URL(), nowhere}, opts...)
			b := fleet.Locker(t, []string{group.replica.URL(), fleet.FreshAddr(t), plain[1].URL()}, opts...)
			first, err := a.Lock(t.Context(), "job", redlock.WithMaxWait(period+time.Second))
			if c.both {
				cases.NoError(t, err)
			} else if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "NOREPLICAS") {
				t.Fatalf("got %v, want NOREPLICAS", err)
			}
			second := cases.Must(b.Lock(t.Context(), "job"))(t)
			if c.both && first.Err() != nil {
				t.Fatalf("no harm was done (%v): this proves nothing", first.Err())
			}
			cases.NoError(t, second.Unlock())
		})
	}
}
