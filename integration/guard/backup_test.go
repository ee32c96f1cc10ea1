package guard_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// A backup, as redis-cli --rdb makes it, is a replica to the master: the first one changes its replication id, and so
// does its end, once repl-backlog-ttl has passed, which is longer than the guard. It is still the process that it was,
// with its data, so it votes: for those that know it, and for those that meet it then.
func TestABackupStopsNobody(t *testing.T) {
	t.Parallel()
	const period, ttl = 2 * time.Second, 2 * time.Second
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--repl-backlog-ttl", "3", "--repl-diskless-sync-delay", "0"}})
	opts := []redlock.Option{redlock.WithTTL(ttl)}
	l := f.Guarded(t, period, opts...)
	fleet.Eventually(t, "the masters have been up for longer than the guard", func() bool {
		return !slices.ContainsFunc(l.Status(t.Context()), func(n redlock.NodeStatus) bool {
			return n.Uptime < period+2*time.Second
		})
	})
	locks := func(when string, l *redlock.Locker) {
		t.Helper()
		for range 2 {
			if k, err := l.TryLock(t.Context(), "job"); err != nil {
				t.Errorf("%s: %v", when, err)
			} else {
				cases.NoError(t, k.Unlock())
			}
			for _, n := range l.Status(t.Context()) { // has each node probed
				if n.Err != nil {
					t.Errorf("%s: %s: %v", when, n.Addr, n.Err)
				}
			}
		}
	}
	known := make([]string, 2)
	for i, n := range f.Nodes[:2] {
		before := replicationID(t, n)
		backUp(t, n)
		if known[i] = replicationID(t, n); known[i] == before {
			t.Fatalf("%s has the replication id that it had: this proves nothing", n.Addr())
		}
	}
	locks("after a backup", l)
	locks("after a backup, met then", f.Guarded(t, period, opts...))
	locks("after somebody else has met it", l)
	for i, n := range f.Nodes[:2] {
		fleet.Eventually(t, "the backlog is freed", func() bool { return replicationID(t, n) != known[i] })
	}
	locks("without a backlog, met then", f.Guarded(t, period, opts...))
	locks("without a backlog", l)

	backUp(t, f.Nodes[0])
	full := record(t, f.Nodes[0])
	cases.Must(f.Nodes[0].Do("FLUSHALL"))(t)
	f.Guarded(t, period, opts...).Status(t.Context()) // cannot tell: it goes by the uptime
	fleet.Eventually(t, "somebody notes that a master was emptied after a backup", func() bool {
		l.Status(t.Context())
		return record(t, f.Nodes[0]) > full+period.Microseconds()
	})
}

// record returns since when the node has forgotten nothing, as its record says; 0: it has none.
func record(t *testing.T, n *masters.Node) (since int64) {
	t.Helper()
	text, err := redis.String(n.Do("GET", "redlock:node"))
	if errors.Is(err, redis.ErrNil) {
		return 0
	}
	cases.NoError(t, err)
	since = cases.Must(strconv.ParseInt(strings.Fields(text)[1], 10, 64))(t)
	return since
}

func replicationID(t *testing.T, n *masters.Node) string {
	t.Helper()
	info := cases.Must(redis.String(n.Do("INFO", "replication")))(t)
	_, id, _ := strings.Cut(info, "master_replid:")
	return id[:40]
}

// backUp takes the master's data as a replica would, and leaves.
func backUp(t *testing.T, n *masters.Node) {
	t.Helper()
	conn := cases.Must(net.Dial("tcp", n.Addr()))(t)
	defer conn.Close() //nolint:errcheck // nothing depends on it
	cases.Must(conn.Write([]byte("SYNC\r\n")))(t)
	cases.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	b := make([]byte, 64)
	for {
		k, err := conn.Read(b)
		if err != nil {
			t.Fatal(errors.Join(errors.New("no backup"), err))
		}
		if slices.Contains(b[:k], '$') {
			return
		}
	}
}
