package main

import (
	"context"
	"runtime"
	"strconv"
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
	spread := func(over time.Duration, f func(i int) error) error {
		return together(holds, func(i int) error {
			time.Sleep(over / time.Duration(holds) * time.Duration(i))
			return f(i)
		})
	}
	err = spread(lockTTL/3, func(i int) error { return workers[i].lock(context.Background(), prefix+strconv.Itoa(i)) })
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
			left = min(left, time.Until(held.Deadline()))
		}
	}
	s.figures["lost"], s.figures["least validity ms"], s.figures[failed] = float64(lost), us(left)/1000, 0
	if err := spread(time.Second, func(i int) error { return workers[i].unlock(context.Background()) }); err != nil {
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
