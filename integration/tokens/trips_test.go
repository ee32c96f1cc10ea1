package tokens

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// counting counts what is written to a connection: once for each round trip.
type counting struct {
	net.Conn
	writes *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// settled returns what all nodes together have counted, when the last straggler is served.
func settled(t *testing.T, nodes []*masters.Node) map[string]int {
	t.Helper()
	var last map[string]int
	fleet.Eventually(t, "the stragglers are served", func() bool {
		time.Sleep(50 * time.Millisecond)
		sum := map[string]int{}
		for _, n := range nodes {
			stats, err := n.CommandStats()
			fleet.Must(t, err)
			for name, calls := range stats {
				sum[name] += calls
			}
		}
		same := last != nil && sum["evalsha"] == last["evalsha"]
		last = sum
		return same
	})
	return last
}

// A token costs no round trip: each lock and each unlock is one EVALSHA on each node, and at most one write. There
// may be fewer of both: to the nodes that are not waited for, an unlock and the next lock may go together, and
// so may two locks of different names. But no lock is more than one SET on a node, nor less on a majority, and
// whoever asks a node that knows a larger token makes it look for that with ZSCORE.
func TestAnUncontendedAcquireIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	cycles := sized(2000, 50_000)
	const nodes = 5
	for _, c := range []struct {
		what    string
		lockers int
		name    func(i int) string
		exact   bool
	}{
		{"repeated names", 1, func(i int) string { return fmt.Sprintf("repeated %d", i%10) }, true},
		{"fresh names", 1, func(i int) string { return fmt.Sprintf("fresh %d", i) }, true},
		// Not promised: where clients' ideas of the time differ by more than the
		// pause between two holds, the slower one needs the second round.
		{"one name, two clients in turn", 2, func(int) string { return "shared" }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := fleet.StartSpec(t, nodes, masters.Spec{})
			var writes atomic.Int64
			var lockers []*redlock.Locker
			for range c.lockers {
				dial := func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, address)
					return counting{conn, &writes}, err
				}
				// No renewal, whose script looks for tokens, too.
				lockers = append(lockers, f.Locker(t, redlock.WithDialer(dial), redlock.WithoutRenewal()))
			}
			before, wrote := settled(t, f.Nodes), writes.Load()
			for i := range cycles {
				k, err := lockers[i%c.lockers].TryLock(t.Context(), c.name(i))
				if err != nil {
					t.Fatal(err)
				}
				fleet.Must(t, k.Unlock(t.Context()))
			}
			after := settled(t, f.Nodes)
			wrote = writes.Load() - wrote
			calls := func(command string) int { return after[command] - before[command] }
			each := float64(cycles * nodes)
			trims := calls("zrange") / 2 // once a second; each also notes the floor
			asked := calls("set") - trims
			trips := (float64(calls("evalsha")-trims) - each) / each // the releases taken off
			written := (float64(wrote-int64(calls("time")+calls("zremrangebyscore"))) - each) / each
			t.Logf("%s: %d acquisitions: %.4f round trips of scripts and %.4f writes for each and node; "+
				"EVALSHA %d, EVAL %d, SET %d, ZADD %d",
				c.what, cycles, trips, written, calls("evalsha"), calls("eval"), calls("set"), calls("zadd"))
			if !c.exact {
				return
			}
			if trips > 1.01 {
				t.Errorf("%.4f round trips, want 1.00 at most", trips)
			}
			if written > 1.01 {
				t.Errorf("%.4f writes, want 1.00 at most", written)
			}
			if least, most := cycles*(nodes/2+1), cycles*nodes; asked < least || asked > most {
				t.Errorf("locks were asked for %d times, want %d to %d", asked, least, most)
			}
			if calls("zscore") != 0 || calls("eval") != 0 {
				t.Errorf("%d tokens too small and %d scripts sent again, want none", calls("zscore"), calls("eval"))
			}
		})
	}
}
