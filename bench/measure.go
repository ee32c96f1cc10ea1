package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// round lets one contestant work with one number of goroutines, once.
func (b *bench) round(sc scenario, c contestant, goroutines int, duration time.Duration) []sample {
	if c.spared {
		sc.afterWarmup, sc.midway = nil, nil
	}
	if sc.hold > 0 {
		sc.apart, sc.shared = true, 1
	}
	defer b.cluster.heal()
	var phase atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	names := namesFor(b.prefix(), goroutines, sc.namesOfEach(goroutines))
	for i := range names {
		if sc.shared > 0 {
			names[i] = names[0][:sc.shared]
		}
	}
	turns := &turns{hold: sc.hold, base: time.Now()}
	open, each := 1, goroutines // clients, and goroutines of each
	if sc.apart {
		open, each = goroutines, 1
	}
	clients, workers := b.open(c, open, each)
	for _, w := range workers {
		if w.close != nil {
			defer w.close()
		}
	}
	var recs []*recorder
	var last atomic.Int64
	var group sync.WaitGroup
	start := func(run func(rec *recorder)) {
		rec := &recorder{phase: &phase}
		if sc.gaps {
			rec.last = &last
		}
		recs = append(recs, rec)
		group.Go(func() { run(rec) })
	}
	if run := clients[0].run; run != nil {
		start(func(rec *recorder) {
			if err := run(ctx, goroutines, names, rec); err != nil {
				fatal(fmt.Errorf("%s: %w", c.name, err))
			}
		})
	} else {
		for i, w := range workers {
			start(func(rec *recorder) {
				if sc.hold > 0 {
					turns.take(ctx, w, names[i][0], rec)
				} else {
					work(w, names[i], rec)
				}
			})
		}
	}

	warmup := cmp.Or(sc.warmup, b.warmup)
	if sc.hold > 0 { // until all have had a turn: what they wait when all come at once is another matter
		warmup += time.Duration(goroutines) * 5 * time.Millisecond
	}
	time.Sleep(warmup)
	if sc.afterWarmup != nil {
		sc.afterWarmup(b.cluster)
		time.Sleep(b.settle)
	}
	before := b.cluster.usage()
	phase.Store(running)
	time.Sleep(duration / 3)
	if sc.midway != nil {
		sc.midway(b.cluster)
	}
	time.Sleep(duration - duration/3)
	after := b.cluster.usage()
	phase.Store(stopping)
	cancel()
	s := sample{who: c.name, figures: map[string]float64{hung: 1}}
	if b.end(&group) { // else they are still being written
		s.figures, s.example = figuresOf(recs, before, after)
		if sc.hold > 0 {
			turns.add(s.figures, recs)
		}
	}
	b.conclude(&s, clients...)
	return []sample{s}
}

// open opens so many clients of a contestant, with so many workers each: none where the client drives itself. An error
// ends the bench, and with it what is open.
func (b *bench) open(c contestant, n, each int) (clients []*client, workers []worker) {
	nodes := b.nodesFor(c)
	runtime.GC()
	err := attempt(func() {
		for range n {
			cl := c.open(nodes, wish{ttl: lockTTL, goroutines: each})
			clients = append(clients, cl)
			for i := 0; i < each && cl.run == nil; i++ {
				workers = append(workers, cl.worker())
			}
		}
	})
	if err != nil {
		must(fmt.Errorf("%s: %w", c.name, err))
	}
	return clients, workers
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

// conclude closes the clients of a round, and counts what is left on the masters once late commands have had time to
// arrive.
func (b *bench) conclude(s *sample, clients ...*client) {
	time.Sleep(b.quiet)
	for _, c := range clients {
		if s.figures[hung] > 0 {
			go c.close() // it may hang as well
		} else {
			c.close()
		}
	}
	time.Sleep(b.quiet)
	sum := 0
	for _, m := range b.cluster.servers {
		sum += m.sweep(b.current)
	}
	if b.cluster.turn.system == nil { // else what is left is a session's, and ends with it
		s.figures[orphans] = float64(sum)
	}
}

// work cycles until the round stops.
func work(w worker, names []string, rec *recorder) {
	ctx := context.Background()
	for i := 0; rec.phase.Load() != stopping; i++ {
		began := time.Now()
		if err := w.lock(ctx, names[i%len(names)]); err != nil {
			rec.failed(err)
			continue
		}
		rec.acquisition()
		if err := w.unlock(ctx); err != nil {
			rec.failed(err)
		}
		rec.cycles(time.Since(began), 1)
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

// together calls f for 0 to n-1 at one moment, and returns one of the errors when all have ended.
func together(n int, f func(i int) error) error { return spread(n, 0, f) }

// spread is together over a while: as if they had come one by one.
func spread(n int, over time.Duration, f func(i int) error) error {
	var group sync.WaitGroup
	begin, errs := make(chan struct{}), make([]error, n)
	for i := range n {
		group.Go(func() {
			<-begin
			time.Sleep(over / time.Duration(n) * time.Duration(i))
			errs[i] = f(i)
		})
	}
	close(begin)
	group.Wait()
	return cmp.Or(errs...)
}

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

// renew takes so many locks, and then lets them be renewed. A cycle is a renewal.
func (b *bench) renew(_ scenario, c contestant, holds int, duration time.Duration) []sample {
	clients, workers := b.open(c, 1, holds)
	prefix := b.prefix()
	must(spread(holds, lockTTL/3, func(i int) error {
		return workers[i].lock(context.Background(), prefix+strconv.Itoa(i))
	}))
	time.Sleep(b.settle)

	nodes := b.cluster.servers[:c.nodes]
	renewed := renewals(nodes)
	before := snapshot(b.cluster.servers)
	time.Sleep(duration)
	after := snapshot(b.cluster.servers)
	s := sample{who: c.name, figures: perCycle((renewals(nodes)-renewed)/c.nodes, before, after)}
	lost, left := 0, lockTTL
	for _, w := range workers {
		if held := w.held().(*redlock.Lock); held.Err() != nil {
			lost++
		} else {
			left = min(left, time.Until(held.Deadline()))
		}
	}
	s.figures["lost"], s.figures["least validity ms"], s.figures[failed] = float64(lost), us(left)/1000, 0
	err := spread(holds, time.Second, func(i int) error { return workers[i].unlock(context.Background()) })
	if err != nil {
		s.figures[failed], s.example = 1, err
	}
	b.conclude(&s, clients...)
	return []sample{s}
}

// renewals counts the extensions that masters have carried out.
func renewals(servers []*server) (n int) {
	for _, s := range servers {
		counts, _ := redisserver.CommandStats(s.ctl) // none from a server that does not answer
		n += counts["pexpire"]
	}
	return n
}
