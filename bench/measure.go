package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A recorder is what one goroutine saw. Owned by it until the round is over.
type recorder struct {
	phase   *atomic.Int32
	done    int // cycles completed while the clock ran
	cycle   hist
	acquire hist
	errors  int
	example error
}

const (
	warming int32 = iota
	running
	stopping
)

// cycles records n lock+unlock cycles. One that began before the end of the round and
// outlived it counts for the latencies, not for the rate: else the slowest would not be seen.
func (r *recorder) cycles(took time.Duration, n int) {
	switch r.phase.Load() {
	case warming:
		return
	case running:
		r.done += n
	}
	for range n {
		r.cycle.add(took)
	}
}

func (r *recorder) failed(err error) {
	if r.phase.Load() != warming {
		r.errors++
		r.example = err
	}
}

// usage is what a process has used so far.
type usage struct {
	at      time.Time
	client  time.Duration
	servers time.Duration
	mallocs uint64
	bytes   uint64
}

func snapshot(servers []*server) usage {
	var u usage
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = mem.Mallocs, mem.TotalAlloc
	for _, s := range servers {
		u.servers += s.cpu()
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	u.client = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.at = time.Now()
	return u
}

// A sample is one round of one contestant. Times are in µs, CPU and memory are for each cycle.
type sample struct {
	Cycles     int     `json:"cycles"`
	PerSecond  float64 `json:"cycles_per_s"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Max        float64 `json:"max_us"`
	AcquireP50 float64 `json:"acquire_p50_us"`
	Allocs     float64 `json:"allocs"`
	Bytes      float64 `json:"bytes"`
	ClientCPU  float64 `json:"client_cpu_us"`
	ServerCPU  float64 `json:"server_cpu_us"`
	Orphans    int     `json:"orphans"`
	Errors     int     `json:"errors"`
	Example    string  `json:"error_example,omitempty"`
	Hung       bool    `json:"hung,omitempty"`

	// Of contended scenarios.
	Wait *waits `json:"wait,omitempty"`
}

// round lets one contestant work with one number of goroutines, once.
func (b *bench) round(sc scenario, c contestant, goroutines int, duration time.Duration) (s sample, err error) {
	nodes, err := b.nodesFor(c)
	if err != nil {
		return s, err
	}
	runtime.GC()
	if sc.beforeOpen != nil {
		sc.beforeOpen(b.cluster)
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
	names := namesFor(b.prefix(), goroutines, sc.fresh)
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

func (s *sample) fill(recs []*recorder, before, after usage) {
	var cycle, acquire hist
	for _, r := range recs {
		s.Cycles += r.done
		s.Errors += r.errors
		if r.example != nil {
			s.Example = r.example.Error()
		}
		cycle.merge(&r.cycle)
		acquire.merge(&r.acquire)
	}
	n := float64(max(s.Cycles, 1))
	s.PerSecond = float64(s.Cycles) / after.at.Sub(before.at).Seconds()
	s.P50, s.P99, s.P999 = us(cycle.quantile(.5)), us(cycle.quantile(.99)), us(cycle.quantile(.999))
	s.Max = us(cycle.longest)
	s.AcquireP50 = us(acquire.quantile(.5))
	s.Allocs = float64(after.mallocs-before.mallocs) / n
	s.Bytes = float64(after.bytes-before.bytes) / n
	s.ClientCPU = us(after.client-before.client) / n
	s.ServerCPU = us(after.servers-before.servers) / n
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// prefix begins the names of a round. No other round has it: a straggler of one contestant
// must not count as the orphan of the next.
func (b *bench) prefix() string {
	b.serial++
	b.current = fmt.Sprintf("%s%04d:", namePrefix, b.serial)
	return b.current
}

// namesFor gives each goroutine names of its own: 64 in turn, or so many that none comes twice
// in a round.
func namesFor(prefix string, goroutines int, fresh bool) [][]string {
	each := 64
	if fresh {
		each = max(64, 400_000/goroutines)
	}
	names := make([][]string, goroutines)
	for g := range names {
		names[g] = make([]string, each)
		for i := range names[g] {
			names[g][i] = fmt.Sprintf("%sorder:%03d:%06d", prefix, g, i)
		}
	}
	return names
}
