package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// round lets one contestant work with one number of goroutines, once.
func (b *bench) round(sc scenario, c contestant, goroutines int, duration time.Duration) (s sample, err error) {
	nodes, err := b.nodesFor(c)
	if err != nil {
		return s, err
	}
	runtime.GC()
	if c.spared {
		sc.afterWarmup, sc.midway = nil, nil
	}
	defer b.cluster.heal()
	// Goroutines inherit the labels: those that the client starts, too.
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(),
		pprof.Labels("contestant", c.name, "goroutines", strconv.Itoa(goroutines))))
	defer pprof.SetGoroutineLabels(context.Background())
	cl, err := c.open(nodes, goroutines)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}

	var phase atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	names := namesFor(b.prefix(), goroutines, sc.namesOfEach(goroutines))
	for i := range names {
		if sc.shared > 0 {
			names[i] = names[0][:sc.shared]
		}
	}
	var recs []*recorder
	var failure atomic.Value
	var group sync.WaitGroup
	start := func(run func(rec *recorder)) {
		rec := &recorder{phase: &phase}
		recs = append(recs, rec)
		group.Go(func() { run(rec) })
	}
	if p, ok := cl.(pipeliner); ok {
		start(func(rec *recorder) {
			if err := p.run(ctx, goroutines, names, rec); err != nil {
				failure.Store(err)
			}
		})
	} else {
		for i := range goroutines {
			w, err := cl.worker()
			if err != nil {
				cl.close()
				return s, fmt.Errorf("%s: %w", c.name, err)
			}
			if closer, ok := w.(interface{ close() }); ok {
				defer closer.close()
			}
			start(func(rec *recorder) { work(w, names[i], rec) })
		}
	}

	time.Sleep(b.warmup)
	if sc.afterWarmup != nil {
		sc.afterWarmup(b.cluster)
		time.Sleep(b.settle)
	}
	before := snapshot(b.cluster.servers)
	phase.Store(running)
	if sc.midway != nil {
		time.Sleep(duration / 3)
		sc.midway(b.cluster)
		time.Sleep(duration - duration/3)
	} else {
		time.Sleep(duration)
	}
	after := snapshot(b.cluster.servers)
	phase.Store(stopping)
	cancel()

	s.Hung = !b.end(&group)
	if err, ok := failure.Load().(error); ok {
		return s, fmt.Errorf("%s: %w", c.name, err)
	}
	if s.Hung {
		recs = nil // still being written
	}
	s.fill(recs, before, after)
	s.Orphans, err = b.orphans(s.Hung, cl)
	return s, err
}

// end waits for the goroutines of a round, a second time with the masters healed, and
// reports whether they ended. Those that did not are left alone.
func (b *bench) end(group *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	defer b.cluster.heal()
	for range 2 {
		select {
		case <-ended:
			return true
		case <-time.After(6 * time.Second): // longer than go-redis's 3 s, twice
			b.cluster.heal()
		}
	}
	return false
}

// orphans counts what is left on the masters once late commands have had time to
// arrive and the clients are closed.
func (b *bench) orphans(hung bool, clients ...client) (sum int, err error) {
	time.Sleep(b.quiet)
	for _, c := range clients {
		if hung {
			go c.close() // it may hang as well
		} else {
			c.close()
		}
	}
	time.Sleep(b.quiet)
	for _, s := range b.cluster.servers {
		n, err := s.sweep(b.current)
		if err != nil {
			return sum, err
		}
		sum += n
	}
	return sum, nil
}

// work cycles until the round stops.
func work(w worker, names []string, rec *recorder) {
	ctx := context.Background()
	for i := 0; ; i++ {
		if rec.phase.Load() == stopping {
			return
		}
		began := time.Now()
		if err := w.lock(ctx, names[i%len(names)]); err != nil {
			rec.failed(err)
			continue
		}
		held := time.Now()
		err := w.unlock(ctx)
		end := time.Now()
		if err != nil {
			rec.failed(err)
		}
		if rec.phase.Load() != warming {
			rec.acquire.add(held.Sub(began))
		}
		rec.cycles(end.Sub(began), 1)
	}
}

// prefix begins the names of a round. No other round has it: a straggler of one contestant
// must not count as the orphan of the next.
func (b *bench) prefix() string {
	b.serial++
	b.current = fmt.Sprintf("%s%04d:", namePrefix, b.serial)
	return b.current
}

// namesFor gives each goroutine so many names of its own.
func namesFor(prefix string, goroutines, each int) [][]string {
	names := make([][]string, goroutines)
	for g := range names {
		names[g] = make([]string, each)
		for i := range names[g] {
			names[g][i] = fmt.Sprintf("%sorder:%03d:%06d", prefix, g, i)
		}
	}
	return names
}
