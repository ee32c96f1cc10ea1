package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"
)

// held is what became of holds that were kept and renewed.
type held struct {
	Lost  int     `json:"lost"`
	Least float64 `json:"least_validity_ms"` // of those that were left at the end
}

// A keeper's holds are renewed by the client. It can say how one is.
type keeper interface {
	left() (validity time.Duration, lost bool)
}

func (w *redlockWorker) left() (time.Duration, bool) {
	return time.Until(w.held.Until()), w.held.Err() != nil
}

// renew takes so many locks, and then lets them be renewed. A cycle is a renewal.
func (b *bench) renew(_ scenario, c contestant, holds int, duration time.Duration) (s sample, err error) {
	nodes, err := b.nodesFor(c)
	if err != nil {
		return s, err
	}
	runtime.GC()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(),
		pprof.Labels("contestant", c.name, "holds", strconv.Itoa(holds))))
	defer pprof.SetGoroutineLabels(context.Background())
	cl, err := c.open(nodes, holds)
	if err != nil {
		return s, err
	}
	prefix := b.prefix()
	workers := make([]worker, holds)
	for i := range workers {
		if workers[i], err = cl.worker(); err != nil {
			return s, err
		}
	}
	// Spread over the time between two renewals of one hold: as if they had come one by one.
	began, gap := time.Now(), lockTTL/3/time.Duration(holds)
	err = each(workers, func(i int, w worker) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * gap)))
		return w.lock(context.Background(), prefix+strconv.Itoa(i))
	})
	if err != nil {
		return s, err
	}
	time.Sleep(b.settle)

	renewed := b.renewals(c)
	before := snapshot(b.cluster.servers)
	time.Sleep(duration)
	after := snapshot(b.cluster.servers)
	s.Cycles = (b.renewals(c) - renewed) / c.nodes
	s.perCycle(before, after)
	s.Held = &held{Least: us(lockTTL) / 1000}
	for _, w := range workers {
		validity, lost := w.(keeper).left()
		if lost {
			s.Held.Lost++
			continue
		}
		s.Held.Least = min(s.Held.Least, us(validity)/1000)
	}
	if err := each(workers, func(_ int, w worker) error { return w.unlock(context.Background()) }); err != nil {
		s.Errors, s.Example = 1, err.Error()
	}
	s.Orphans, err = b.orphans(false, cl)
	return s, err
}

// renewals counts the extensions that the contestant's nodes have carried out.
func (b *bench) renewals(c contestant) (n int) {
	for _, s := range b.cluster.servers[:c.nodes] {
		n += s.count("pexpire")
	}
	return n
}

// each calls f for all workers, 32 at a time, and returns one of the errors.
func each(workers []worker, f func(i int, w worker) error) error {
	failures := make(chan error, 32)
	var group sync.WaitGroup
	for first := range cap(failures) {
		group.Go(func() {
			for i := first; i < len(workers); i += cap(failures) {
				if err := f(i, workers[i]); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

func (res *result) renewalsTable(b *strings.Builder) {
	head(b,
		"holds", "lock", "masters", "renewals/s (least–most)", "client CPU µs a renewal",
		"server CPU µs a renewal, all masters", "client, % of a core", "all masters, % of a core", "allocs",
		"bytes", "least validity left ms", "lost", "orphans", "errors")
	for _, r := range res.Rows {
		rate := r.spread(perSecond)
		m := func(of func(sample) float64) string { return number(r.mid(of)) }
		fmt.Fprintf(b, "| %d | %s | %d | %s (%s–%s) | %s | %s | %s | %s | %s | %s | %s | %.0f | %.0f | %.0f |\n",
			r.Goroutines, r.Contestant, r.Nodes, number(rate.median), number(rate.low), number(rate.high),
			m(func(s sample) float64 { return s.ClientCPU }), m(func(s sample) float64 { return s.ServerCPU }),
			m(func(s sample) float64 { return s.ClientCPU * s.PerSecond / 1e4 }),
			m(func(s sample) float64 { return s.ServerCPU * s.PerSecond / 1e4 }),
			m(func(s sample) float64 { return s.Allocs }), m(func(s sample) float64 { return s.Bytes }),
			number(r.spread(func(s sample) float64 { return s.Held.Least }).low),
			r.total(func(s sample) float64 { return float64(s.Held.Lost) }),
			r.total(func(s sample) float64 { return float64(s.Orphans) }),
			r.total(func(s sample) float64 { return float64(s.Errors) }))
	}
}
