package tokens

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// usage is what one node, the fullest, needs.
type usage struct{ tokens, bytes int }

func use(t *testing.T, nodes []*masters.Node) (u usage) {
	t.Helper()
	for _, n := range nodes {
		count := cases.Must(redis.Int(n.Do("ZCARD", "redlock:tokens")))(t)
		info := cases.Must(n.Info("memory"))(t)
		bytes := cases.Must(strconv.Atoi(info["used_memory"]))(t)
		u.tokens, u.bytes = max(u.tokens, count), max(u.bytes, bytes)
	}
	return u
}

// Redisson keeps the token of every name for ever, which fills the master.
// Here a node has the names of the last while, and none that are older.
func TestMemoryIsBoundedByRateAndRetention(t *testing.T) {
	fleet.OnlyBounds(t)
	t.Parallel()
	fleet.Measure(t, memoryIsBounded)
}

func memoryIsBounded(m *fleet.Measurement) {
	t := m.T
	const (
		trimmedEvery = 15 * time.Second // at least that often, by each client
		lockers      = 4
	)
	names := fleet.Sized(50_000, 1_000_000)
	rate := fleet.Sized(2500, 10_000) // names in a second, at most
	ttl := fleet.Sized(500*time.Millisecond, 5*time.Second)
	longest := fleet.Sized(600*time.Millisecond, 7500*time.Millisecond)
	retention := max(2*longest, longest+2*time.Second) // what WithMaxTTL makes of it

	f := fleet.StartSpec(t, 5, masters.Spec{})
	var ls []*redlock.Locker
	for range lockers {
		ls = append(ls, f.Locker(t, redlock.WithTTL(ttl), redlock.WithMaxTTL(longest)))
	}
	empty := use(t, f.Nodes)
	t.Logf("tokens are kept for %s; %d names at %d/s at most; the fullest of five nodes:", retention, names, rate)
	t.Logf("%8s %10s %10s %12s", "time", "acquired", "ZCARD", "used_memory")

	start := time.Now()
	var next, acquired, again atomic.Int64
	var workers sync.WaitGroup
	for w := range 32 {
		workers.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(names) {
					return
				}
				time.Sleep(time.Duration(i)*time.Second/time.Duration(rate) - time.Since(start))
				name := fmt.Sprintf("name-%d", i)
				k, err := ls[w%lockers].TryLock(t.Context(), name)
				for errors.Is(err, redlock.ErrNoQuorum) { // a busy machine has stuttered for nearly a TTL
					again.Add(1)
					k, err = ls[w%lockers].TryLock(t.Context(), name)
				}
				if err != nil {
					t.Error(err)
					return
				}
				acquired.Add(1)
				if err := k.Unlock(); errors.Is(err, redlock.ErrLost) {
					again.Add(1) // it has stuttered for longer; the token is there all the same
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { workers.Wait(); close(over) }()
	most := usage{}
	show := func() usage {
		u := use(t, f.Nodes)
		t.Logf("%7.0fs %10d %10d %8.1f MiB", time.Since(start).Seconds(), acquired.Load(), u.tokens, float64(u.bytes)/(1<<20))
		most.tokens, most.bytes = max(most.tokens, u.tokens), max(most.bytes, u.bytes)
		return u
	}
	tick := time.NewTicker(fleet.Sized(2*time.Second, 5*time.Second))
	defer tick.Stop()
	for busy := true; busy; {
		select {
		case <-tick.C:
			show()
		case <-over:
			busy = false
		}
	}
	ran := time.Since(start)
	at := show()
	for time.Since(start) < ran+retention+time.Minute && at.tokens > 0 {
		<-tick.C
		at = show()
	}

	bound := int(float64(names) / ran.Seconds() * (retention + trimmedEvery).Seconds())
	t.Logf("%d names in %s, %d tried again or lost: at most %d tokens at once, %.1f MiB above the %.1f MiB of an "+
		"empty node: %.0f bytes for a token; the bound, rate × (retention + %s), is %d",
		names, ran.Round(time.Second), again.Load(), most.tokens, float64(most.bytes-empty.bytes)/(1<<20),
		float64(empty.bytes)/(1<<20), float64(most.bytes-empty.bytes)/float64(most.tokens), trimmedEvery, bound)
	m.Bound(most.tokens <= bound*11/10, "%d tokens on a node, want at most %d", most.tokens, bound)
	m.Bound(bound < names, "the bound is %d, with %d names", bound, names)
	if at.tokens != 0 {
		t.Errorf("%d tokens are still there, long after their time", at.tokens)
	}
	if grown := at.bytes - empty.bytes; grown > most.bytes/4+1<<20 {
		t.Errorf("the node has grown by %d bytes for good", grown)
	}
}
