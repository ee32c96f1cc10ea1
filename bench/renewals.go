package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// renew takes so many locks, and then lets them be renewed. A cycle is a renewal.
func (b *bench) renew(_ scenario, c contestant, holds int, duration time.Duration) ([]sample, error) {
	nodes, err := b.nodesFor(c)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	cl, err := c.open(nodes, holds)
	if err != nil {
		return nil, err
	}
	prefix := b.prefix()
	workers, err := cl.workers(holds)
	if err != nil {
		return nil, err
	}
	// Spread over the time between two renewals of one hold: as if they had come one by one.
	began, gap := time.Now(), lockTTL/3/time.Duration(holds)
	err = each(workers, func(i int, w worker) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * gap)))
		return w.lock(context.Background(), prefix+strconv.Itoa(i))
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(b.settle)

	renewed := b.renewals(c)
	before := snapshot(b.cluster.servers)
	time.Sleep(duration)
	after := snapshot(b.cluster.servers)
	s := sample{who: c.name, figures: perCycle((b.renewals(c)-renewed)/c.nodes, before, after)}
	lost, left := 0, lockTTL
	for _, w := range workers {
		if held := w.hold(); held.Err() != nil {
			lost++
		} else {
			left = min(left, time.Until(held.Until()))
		}
	}
	s.figures["lost"], s.figures["least validity ms"], s.figures[failed] = float64(lost), us(left)/1000, 0
	if err := each(workers, func(_ int, w worker) error { return w.unlock(context.Background()) }); err != nil {
		s.figures[failed], s.example = 1, err
	}
	err = b.conclude(&s, cl)
	return []sample{s}, err
}

// renewals counts the extensions that the contestant's nodes have carried out.
func (b *bench) renewals(c contestant) (n int) {
	for _, s := range b.cluster.servers[:c.nodes] {
		n += s.commands()["pexpire"]
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
