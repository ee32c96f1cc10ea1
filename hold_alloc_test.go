//go:build !race

package redlock

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// The race detector makes pools drop items at random, so this is not built with it. The masters are not measured: they
// are in this process, too.
func TestACycleAllocatesAHoldAndAHandle(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithAsyncUnlock())
		settleNetwork()
		w := acquireRequest{op: "lock", name: "job", key: "job", stands: true}
		ctx := t.Context()
		cycle := func() {
			h := l.newHold(w, l.opts, 0)
			r := l.askToAcquire(h)
			h.enter(r)
			h.entered(r)
			r.Done()
			if err := l.handOut(h).Unlock(ctx); err != nil {
				t.Error(err)
			}
		}
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection empties the pools
		const cycles = 1000
		var before, after runtime.MemStats
		for range cycles {
			cycle()
		}
		runtime.ReadMemStats(&before)
		for range cycles {
			cycle()
		}
		runtime.ReadMemStats(&after)
		if allocs := float64(after.Mallocs-before.Mallocs) / cycles; allocs > 2.1 {
			t.Errorf("%.2f allocations a cycle, want 2", allocs)
		}
		if bytes := float64(after.TotalAlloc-before.TotalAlloc) / cycles; bytes > 150 {
			t.Errorf("%.0f bytes a cycle, want at most 150", bytes)
		}
	})
}
