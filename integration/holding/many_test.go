package holding_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// cost is what a process and its masters need.
type cost struct {
	goroutines      int
	heap            int64
	client, servers time.Duration // CPU
}

func costs(t *testing.T, nodes []*masters.Node) (c cost) {
	t.Helper()
	for range 3 { // what a pool keeps goes with the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var used syscall.Rusage
	fleet.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	c = cost{goroutines: runtime.NumGoroutine(), heap: int64(m.HeapAlloc)}
	c.client = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	for _, n := range nodes {
		cpu, err := n.CPUTime()
		fleet.Must(t, err)
		c.servers += cpu
	}
	return c
}

// Held locks need no goroutines of their own, and little else.
func TestManyHoldsAreRenewedAndCostLittle(t *testing.T) {
	fleet.OnlyBounds(t)
	fleet.Measure(t, manyHolds)
}

func manyHolds(m *fleet.Measurement) {
	const ttl = 10 * time.Second // the default
	t := m.T
	holds, length := fleet.Sized(2000, 10_000), fleet.Sized(5*time.Second, time.Minute)
	f := fleet.StartSpec(t, 5, masters.Spec{})
	l := f.Locker(t, redlock.WithTTL(ttl))
	fleet.Lock(t, l, "warm") // connections and what else is made once
	names := make([]string, holds)
	for i := range names {
		names[i] = fmt.Sprintf("held-%d", i)
	}
	held := make([]*redlock.Lock, holds)
	before := costs(t, f.Nodes)
	var workers sync.WaitGroup
	for w := range 32 {
		workers.Go(func() {
			for i := w; i < holds; i += 32 {
				k, err := l.Lock(t.Context(), names[i])
				if err != nil {
					t.Error(err)
					return
				}
				held[i] = k
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	fresh := costs(t, f.Nodes)
	stats := func() (extensions int) {
		for _, n := range f.Nodes {
			calls, err := n.CommandStats()
			fleet.Must(t, err)
			extensions += calls["pexpire"]
		}
		return extensions
	}
	extended := stats()
	start := time.Now()
	time.Sleep(length)
	ran, inTime := time.Since(start), stats()-extended
	fleet.Eventually(t, "each hold is extended by a majority", func() bool { return stats()-extended >= 3*holds })
	extended = inTime
	after := costs(t, f.Nodes)

	lost := 0
	var left []time.Duration
	for _, k := range held {
		if k.Err() != nil {
			lost++
		}
		left = append(left, time.Until(k.Deadline()))
	}
	slices.Sort(left)
	bytes := float64(max(fresh.heap, after.heap)-before.heap) / float64(holds)
	goroutines := float64(max(fresh.goroutines, after.goroutines)-before.goroutines) / float64(holds)
	seconds := ran.Seconds()
	t.Logf("%d holds for %s, TTL %s: %d lost; %d extensions on 5 nodes, %.0f a second and node; least validity left %s",
		holds, ran.Round(time.Second), ttl, lost, extended, float64(extended)/5/seconds, left[0].Round(time.Millisecond))
	t.Logf("each hold: %.0f bytes (fresh %.0f, renewed %.0f), %.4f goroutines (%d in all)",
		bytes, float64(fresh.heap-before.heap)/float64(holds), float64(after.heap-before.heap)/float64(holds),
		goroutines, after.goroutines)
	client, servers := after.client-fresh.client, after.servers-fresh.servers
	renewals := float64(extended) / 5
	t.Logf("CPU while held: client %.1f %% of one core (%.1f µs for each renewal), "+
		"five servers together %.1f %% (%.1f µs)",
		100*client.Seconds()/seconds, float64(client.Microseconds())/renewals,
		100*servers.Seconds()/seconds, float64(servers.Microseconds())/renewals)

	if lost > 0 {
		t.Errorf("%d holds were lost", lost)
	}
	want := int(float64(holds*5) * (length.Seconds()/(ttl.Seconds()/3) - 1) * 0.9)
	m.Bound(extended >= want, "%d extensions in %s, want %d at least", extended, ran.Round(time.Millisecond), want)
	if bytes > 2048 {
		t.Errorf("%.0f bytes for each hold, want 2048 at most", bytes)
	}
	if goroutines >= 0.01 {
		t.Errorf("%.4f goroutines for each hold, want less than 0.01", goroutines)
	}
	for w := range 32 {
		workers.Go(func() {
			for i := w; i < holds; i += 32 {
				if err := held[i].Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}
