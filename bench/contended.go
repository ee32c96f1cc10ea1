package main

import (
	"context"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const hold = time.Millisecond

// waits is what contenders for one name saw. Times are in µs.
type waits struct {
	P50    float64 `json:"wait_p50_us"`
	P99    float64 `json:"wait_p99_us"`
	Max    float64 `json:"wait_max_us"`
	GapP50 float64 `json:"gap_p50_us"` // from the call of unlock to the next hold
	GapP99 float64 `json:"gap_p99_us"`
	// p99 of how often others got it during a wait: with a fair queue, one less than there are contenders.
	Others   float64 `json:"others_p99"`
	Fewest   int     `json:"fewest"` // acquisitions of one contender
	Most     int     `json:"most"`
	Jain     float64 `json:"jain"`     // 1: all got the same; 1/n: one got all
	Overlaps int     `json:"overlaps"` // two holders at once: must be 0
	Requests float64 `json:"requests"` // for each acquisition and node: what the client sent, a script being one
	Commands float64 `json:"commands"` // for each acquisition and node, those within scripts included
}

// A contender has its own client, as another process would.
type contender struct {
	w      worker
	wait   hist
	others []int // acquisitions of others during each wait
	got    int
	errs   int
	err    error
}

// contend lets contenders take one name in turn.
func (b *bench) contend(sc scenario, c contestant, contenders int, duration time.Duration) (s sample, err error) {
	nodes, err := b.nodesFor(c)
	if err != nil {
		return s, err
	}
	runtime.GC()
	defer b.cluster.heal()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(),
		pprof.Labels("contestant", c.name, "contenders", strconv.Itoa(contenders))))
	defer pprof.SetGoroutineLabels(context.Background())
	all := make([]*contender, contenders)
	var clients []client
	for i := range all {
		cl, err := c.open(nodes, 1)
		if err != nil {
			return s, err
		}
		clients = append(clients, cl)
		all[i] = &contender{}
		if all[i].w, err = cl.worker(); err != nil {
			return s, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		phase    atomic.Int32
		inside   atomic.Int32
		overlaps atomic.Int32
		served   atomic.Int64 // acquisitions
		released atomic.Int64 // when unlock was last called, in ns since base
		base     = time.Now()
		gaps     hist // written by the holder of the moment: the lock under test and this mutex guard it
		gapsMu   sync.Mutex
		group    sync.WaitGroup
	)
	name := b.prefix() + "one"
	contend := func(c *contender) {
		for phase.Load() != stopping {
			began, before := time.Now(), served.Load()
			if err := c.w.lock(ctx, name); err != nil {
				if ctx.Err() == nil {
					c.errs, c.err = c.errs+1, err
					continue // gave up and comes again: the wait is counted in parts
				}
				c.wait.add(time.Since(began)) // still waiting at the end: at least so long
				return
			}
			now := time.Now()
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			others := served.Add(1) - before - 1
			if phase.Load() == running {
				c.others = append(c.others, int(others))
				c.wait.add(now.Sub(began))
				c.got++
				if last := released.Load(); last > 0 {
					gapsMu.Lock()
					gaps.add(now.Sub(base) - time.Duration(last))
					gapsMu.Unlock()
				}
			}
			time.Sleep(hold)
			inside.Add(-1)
			released.Store(int64(time.Since(base)))
			if err := c.w.unlock(context.Background()); err != nil {
				c.errs, c.err = c.errs+1, err
			}
		}
	}
	for _, c := range all {
		group.Go(func() { contend(c) })
	}
	// Long enough for all to have had a turn: what they wait at the start, when all come at once, is another matter.
	time.Sleep(b.warmup + time.Duration(contenders)*5*time.Millisecond)
	if sc.afterWarmup != nil {
		sc.afterWarmup(b.cluster)
		time.Sleep(b.settle)
	}
	demandBefore := b.demand(c)
	before := snapshot(b.cluster.servers)
	phase.Store(running)
	time.Sleep(duration)
	after := snapshot(b.cluster.servers)
	demandAfter := b.demand(c)
	phase.Store(stopping)
	cancel()
	if s.Hung = !b.end(&group); s.Hung {
		s.Orphans, err = b.orphans(true, clients...)
		return s, err
	}

	var wait hist
	w := &waits{
		Fewest: all[0].got, Overlaps: int(overlaps.Load()),
		GapP50: us(gaps.quantile(.5)), GapP99: us(gaps.quantile(.99)),
	}
	var sum, squares float64
	var others []int
	for _, c := range all {
		wait.merge(&c.wait)
		others = append(others, c.others...)
		s.Cycles += c.got
		s.Errors += c.errs
		if c.err != nil {
			s.Example = c.err.Error()
		}
		w.Fewest, w.Most = min(w.Fewest, c.got), max(w.Most, c.got)
		sum += float64(c.got)
		squares += float64(c.got) * float64(c.got)
	}
	if squares > 0 {
		w.Jain = sum * sum / (float64(contenders) * squares)
	}
	w.P50, w.P99, w.Max = us(wait.quantile(.5)), us(wait.quantile(.99)), us(wait.longest)
	if slices.Sort(others); len(others) > 0 {
		w.Others = float64(others[len(others)*99/100])
	}
	answering := float64(max(demandAfter.nodes, 1))
	n := float64(max(s.Cycles, 1)) * answering
	w.Requests = float64(demandAfter.requests-demandBefore.requests) / n
	w.Commands = float64(demandAfter.commands-demandBefore.commands) / n
	s.Wait = w
	s.perCycle(before, after)
	s.Orphans, err = b.orphans(false, clients...)
	return s, err
}

// demand is what the nodes of a contestant have been asked so far.
type demand struct {
	nodes              int // those that answer
	requests, commands int64
}

func (b *bench) demand(c contestant) (sum demand) {
	for _, s := range b.cluster.servers[:c.nodes] {
		if s.paused {
			continue
		}
		requests, commands := s.calls(c.native)
		sum.nodes++
		sum.requests += requests
		sum.commands += commands
	}
	return sum
}
