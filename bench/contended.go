package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// turns are those that contenders take at one name.
type turns struct {
	hold     time.Duration
	base     time.Time
	inside   atomic.Int32
	overlaps atomic.Int32
	released atomic.Int64 // when unlock was last called, in ns since base

	mu   sync.Mutex
	gaps hist // guarded by mu: the lock under test is not trusted with it
}

// take takes turns until the round stops. What is recorded as a cycle is the wait for one. A call that gives up comes
// again, and its wait is counted in parts.
func (t *turns) take(ctx context.Context, w worker, name string, rec *recorder) {
	for rec.phase.Load() != stopping {
		began := time.Now()
		err := w.lock(ctx, name)
		now := time.Now()
		if ctx.Err() != nil && err != nil { // still waiting at the end: at least so long
			rec.cycles(now.Sub(began), 1)
			return
		}
		if err != nil {
			rec.failed(err)
			continue
		}
		if t.inside.Add(1) > 1 {
			t.overlaps.Add(1)
		}
		rec.cycles(now.Sub(began), 1)
		if last := t.released.Load(); last > 0 && rec.phase.Load() == running {
			t.mu.Lock()
			t.gaps.add(now.Sub(t.base) - time.Duration(last))
			t.mu.Unlock()
		}
		time.Sleep(t.hold)
		t.inside.Add(-1)
		t.released.Store(int64(time.Since(t.base)))
		if err := w.unlock(context.Background()); err != nil {
			rec.failed(err)
		}
	}
}

// add adds what only contenders have to the figures of a round: overlaps, of which there must be none, the time from
// the call of unlock to the next hold, and how many turns the unluckiest and the luckiest had.
func (t *turns) add(f map[string]float64, recs []*recorder) {
	f["overlaps"] = float64(t.overlaps.Load())
	f["gap p50 µs"], f["gap p99 µs"] = us(t.gaps.quantile(.5)), us(t.gaps.quantile(.99))
	f["fewest"], f["most"] = float64(recs[0].done), float64(recs[0].done)
	for _, r := range recs {
		f["fewest"], f["most"] = min(f["fewest"], float64(r.done)), max(f["most"], float64(r.done))
	}
}
