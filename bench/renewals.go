package main

import (
	"context"
	"strconv"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// renew takes so many locks, and then lets them be renewed. A cycle is a renewal.
func (b *bench) renew(_ scenario, c contestant, holds int, duration time.Duration) ([]sample, error) {
	clients, workers, err := b.open(c, 1, holds)
	if err != nil {
		return nil, err
	}
	prefix := b.prefix()
	err = spread(holds, lockTTL/3, func(i int) error {
		return workers[i].lock(context.Background(), prefix+strconv.Itoa(i))
	})
	if err != nil {
		return nil, err
	}
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
	err = spread(holds, time.Second, func(i int) error { return workers[i].unlock(context.Background()) })
	if err != nil {
		s.figures[failed], s.example = 1, err
	}
	err = b.conclude(&s, clients...)
	return []sample{s}, err
}

// renewals counts the extensions that masters have carried out.
func renewals(servers []*server) (n int) {
	for _, s := range servers {
		counts, _ := redisserver.CommandStats(s.ctl) // none from a server that does not answer
		n += counts["pexpire"]
	}
	return n
}
