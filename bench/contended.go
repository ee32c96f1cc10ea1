package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const hold = time.Millisecond

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
func (b *bench) contend(sc scenario, c contestant, contenders int, duration time.Duration) ([]sample, error) {
	clients, workers, err := b.open(c, contenders, 1)
	if err != nil {
		return nil, err
	}
	defer b.cluster.heal()
	all := make([]*contender, contenders)
	for i, w := range workers {
		all[i] = &contender{w: w}
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
	b.warm(sc, cmp.Or(sc.warmup, b.warmup)+time.Duration(contenders)*5*time.Millisecond)
	demandBefore := b.demand(c)
	before, after := b.clock(sc, &phase, duration)
	demandAfter := b.demand(c)
	cancel()
	s := sample{who: c.name, figures: map[string]float64{hung: 1}}
	if b.end(&group) {
		s.figures, s.example = contention(all, before, after)
		f := s.figures
		f["overlaps"] = float64(overlaps.Load()) // two holders at once: must be 0
		f["gap p50 µs"], f["gap p99 µs"] = us(gaps.quantile(.5)), us(gaps.quantile(.99))
		// For each acquisition and node that answers.
		n := max(f[rate]*after.at.Sub(before.at).Seconds(), 1) * float64(max(demandAfter.nodes, 1))
		if c.system == nil {
			f["requests/node"] = float64(demandAfter.requests-demandBefore.requests) / n
			f["commands/node"] = float64(demandAfter.commands-demandBefore.commands) / n
		}
	}
	err = b.conclude(&s, clients...)
	return []sample{s}, err
}

// contention is what all contenders saw.
func contention(all []*contender, before, after usage) (f map[string]float64, example error) {
	var wait hist
	var others []int
	var got, squares float64
	errs, fewest, most := 0, all[0].got, 0
	for _, c := range all {
		wait.merge(&c.wait)
		others = append(others, c.others...)
		if errs += c.errs; c.err != nil {
			example = c.err
		}
		fewest, most = min(fewest, c.got), max(most, c.got)
		got += float64(c.got)
		squares += float64(c.got) * float64(c.got)
	}
	f = perCycle(int(got), before, after)
	f["fewest"], f["most"], f[failed] = float64(fewest), float64(most), float64(errs)
	f["p50 µs"], f[p99], f[longest] = us(wait.quantile(.5)), us(wait.quantile(.99)), us(wait.longest)
	// In turns of all contenders, a turn being the mean time from one acquisition to the next. A queue that is fair, and
	// moves steadily, gives 1.
	f["p99 in turns"] = f[p99] / 1e6 * f[rate] / float64(len(all))
	if squares > 0 {
		f["Jain"] = got * got / (float64(len(all)) * squares) // 1: all got the same; 1/n: one got all
	}
	if slices.Sort(others); len(others) > 0 {
		f["others p99"] = float64(others[len(others)*99/100]) // with a fair queue, one less than there are contenders
	}
	return f, example
}

// demand is what the nodes of a contestant have been asked so far.
type demand struct {
	nodes              int // those that answer
	requests, commands int64
}

func (b *bench) demand(c contestant) (sum demand) {
	if c.system != nil {
		return sum
	}
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
