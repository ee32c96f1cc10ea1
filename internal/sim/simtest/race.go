package simtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// Tally is what came of races: rounds in which several clients try one free name at the same instant.
type Tally struct {
	Rounds, Nobody, Both int           // in how many nobody won, and more than one
	Again                int64         // second questions that nodes got
	Longest              time.Duration // of a call
}

// Races has so many clients of five nodes race for a fresh name each round, by one seed. It must be called in a
// synctest bubble.
func Races(seed uint64, racers, rounds int, opts ...redlock.LockOption) (sum Tally) {
	w := newWorld(Scenario{
		Seed: seed, Nodes: 5, TTL: 10 * time.Second, Timeout: 250 * time.Millisecond, Guard: 30 * time.Second, Delay: sim.LAN,
	})
	defer w.close()
	var lockers []*redlock.Locker
	for i := range racers {
		lockers = append(lockers, w.connect(fmt.Sprintf("c%d", i), w.kinds[0]).Locker)
	}
	for round := range rounds {
		time.Sleep(50 * time.Millisecond)
		asked := time.Now()
		holds := race(lockers, fmt.Sprintf("race %d", round), opts...)
		sum.Longest = max(sum.Longest, time.Since(asked))
		sum.Rounds++
		switch len(holds) {
		case 0:
			sum.Nobody++
		case 1:
		default:
			sum.Both++
		}
		for _, k := range holds {
			_ = k.Unlock()
		}
	}
	for _, l := range lockers {
		_ = l.Close()
	}
	sum.Again = w.result.Counts["second questions"]
	return sum
}

// race has all Lockers try a name at once, and returns the holds.
func race(lockers []*redlock.Locker, name string, opts ...redlock.LockOption) (holds []*redlock.Lock) {
	var wg sync.WaitGroup
	var mu sync.Mutex // protects holds
	for _, l := range lockers {
		wg.Go(func() {
			if k, err := l.TryLock(context.Background(), name, opts...); err == nil {
				mu.Lock()
				holds = append(holds, k)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return holds
}

// races has all clients try the contested name at once, on nodes that are in order. Two never have it.
func (w *world) races() {
	var lockers []*redlock.Locker
	for _, c := range w.clients {
		lockers = append(lockers, c.locker.Load().Locker)
	}
	for range 5 {
		holds := race(lockers, contested)
		switch {
		case len(holds) > 1 && w.doubles():
			w.count("overlaps", 1)
		case len(holds) > 1 && w.scenario.Sound:
			w.blame("exclusion", "%d of %d clients that raced for %s have it: %v", len(holds), len(lockers), contested, holds)
		}
		for _, k := range holds {
			_ = k.Unlock()
		}
		w.quiet()
	}
}
