package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// counts is what happened in a run.
type counts struct {
	kills, freezes, flushes                                atomic.Int64 // of masters
	delays, holds, resets                                  atomic.Int64 // of networks
	taken, noQuorum, lost, early, unconfirmed, evaluations atomic.Int64
}

// faults is one line.
func (c *counts) faults() string {
	return fmt.Sprintf("%d killed and restarted empty, %d frozen, %d SCRIPT FLUSH, %d delays, %d held, %d reset",
		c.kills.Load(), c.freezes.Load(), c.flushes.Load(), c.delays.Load(), c.holds.Load(), c.resets.Load())
}

// pause returns after a random time up to most, and whether to go on.
func pause(ctx context.Context, random *rand.Rand, most time.Duration) bool {
	t := time.NewTimer(time.Duration(random.Int64N(int64(most))))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// breakNodes kills or freezes one master at a time. A killed one forgets
// everything, and it may still be kept out of the votes when the next one's turn comes.
func (s *soaking) breakNodes(ctx context.Context, random *rand.Rand) error {
	for turn := 0; pause(ctx, random, s.ttl+s.guard); turn++ {
		n := s.fleet[random.IntN(nodes)]
		var err error
		if turn%2 == 0 {
			s.note(n)
			err = n.Kill()
			time.Sleep(s.down + time.Duration(random.Int64N(int64(s.ttl)/2)))
			err = errors.Join(err, n.Start())
			s.counts.kills.Add(1)
		} else {
			err = n.Pause()
			time.Sleep(time.Duration(random.Int64N(int64(s.ttl))))
			err = errors.Join(err, n.Resume())
			s.counts.freezes.Add(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// breakNetworks does something to the way from one client to one master, or to
// all its masters, at a time.
func (s *soaking) breakNetworks(ctx context.Context, random *rand.Rand) error {
	for turn := 0; pause(ctx, random, 500*time.Millisecond); turn++ {
		network := s.networks[random.IntN(len(s.networks))]
		if random.IntN(4) > 0 {
			at := random.IntN(nodes)
			network = network[at : at+1]
		}
		way := faultproxy.Direction(random.IntN(2))
		by := time.Duration(1+random.IntN(30)) * time.Millisecond
		for _, p := range network {
			switch turn % 3 {
			case 0:
				p.Delay(way, by)
			case 1:
				p.Hold(way)
			case 2:
				p.Reset()
			}
		}
		switch turn % 3 {
		case 0:
			s.counts.delays.Add(1)
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		case 1:
			s.counts.holds.Add(1)
			time.Sleep(time.Duration(random.Int64N(int64(600 * time.Millisecond))))
		case 2:
			s.counts.resets.Add(1)
		}
		for _, p := range network {
			if err := p.Heal(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushScripts makes one master at a time forget its scripts.
func (s *soaking) flushScripts(ctx context.Context, random *rand.Rand) error {
	for pause(ctx, random, 2*time.Second) {
		if _, err := s.fleet[random.IntN(nodes)].Do("SCRIPT", "FLUSH"); err == nil { // not one that is down
			s.counts.flushes.Add(1)
		}
	}
	return nil
}

// note adds up what a master counts, which it forgets when it is killed: the scripts that had to be sent again.
func (s *soaking) note(n *masters.Node) {
	if stats, err := n.CommandStats(); err == nil {
		s.counts.evaluations.Add(int64(stats["eval"]))
	}
}
