package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
)

// holds lets each client keep a hold, measures that, kills a master for a moment, and when it is back lets all clients
// want one name.
func (g *gathering) holds() error {
	holds, err := g.takeHolds()
	if err != nil {
		return err
	}
	// Of one master, on the mean.
	renewed := func() int { return renewals(g.cluster.servers) / len(g.cluster.servers) }
	holding, err := g.watch(g.load, renewed)
	g.show(allHold, holding)
	err = errors.Join(err, g.comeback(holds))
	// Of those that are lost, this says so once more.
	_ = together(len(holds), func(i int) error { return holds[i].Unlock() })
	return errors.Join(err, g.rush())
}

// takeHolds takes a hold for each client. They are spread over the time between two renewals, as if they had come one
// by one.
func (g *gathering) takeHolds() ([]*redlock.Lock, error) {
	holds := make([]*redlock.Lock, len(g.lockers))
	name, gap := g.nextName("held"), min(lockTTL/3, g.load)/time.Duration(len(holds))
	err := together(len(holds), func(i int) (err error) {
		time.Sleep(time.Duration(i) * gap)
		holds[i], err = g.lockers[i].Lock(context.Background(), name+strconv.Itoa(i))
		return err
	})
	return holds, err
}

// comeback kills a master, starts it again and watches what becomes of the holds, and of an outsider's calls.
func (g *gathering) comeback(holds []*redlock.Lock) error {
	back := map[string]float64{
		"lost":   0,             // of one hold each
		failures: 0, "calls": 0, // of the outsider
		"before ms": 0, // its worst lock and unlock while all masters were well
		"worst ms":  0, // from the master's death on
	}
	var dead, stop atomic.Bool
	var group sync.WaitGroup
	name, ctx := g.nextName("outside"), context.Background()
	group.Go(func() {
		for !stop.Load() {
			worst := "before ms"
			if dead.Load() {
				worst = "worst ms"
			}
			began := time.Now()
			lock, err := g.outsider.Lock(ctx, name)
			if err == nil {
				err = lock.Unlock()
			}
			back[worst] = max(back[worst], us(time.Since(began))/1000)
			if back["calls"]++; err != nil {
				back[failures]++
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	time.Sleep(g.away())
	dead.Store(true)
	victim := g.cluster.servers[len(g.cluster.servers)-1]
	err := victim.Kill(ctx)
	time.Sleep(g.away())
	if err == nil {
		err = victim.revive()
	}
	time.Sleep(g.load)
	stop.Store(true)
	group.Wait()
	for _, lock := range holds {
		if lock.Err() != nil {
			back["lost"]++
		}
	}
	g.show(masterReturns, back)
	return err
}

// cycles lets the clients lock and unlock names of their own at a pace, one after the other.
func (g *gathering) cycles() error {
	var done atomic.Int64
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1) // the first of them
	name, every := g.nextName("cycle"), time.Second*time.Duration(len(g.lockers))/time.Duration(g.rate)
	for i, l := range g.lockers {
		group.Go(func() {
			time.Sleep(every / time.Duration(len(g.lockers)) * time.Duration(i))
			for pace := time.NewTicker(every); ctx.Err() == nil; {
				lock, err := l.Lock(context.Background(), name+strconv.Itoa(i))
				if err == nil {
					err = lock.Unlock()
				}
				if err == nil {
					done.Add(1)
				} else {
					select {
					case errs <- err:
					default:
					}
				}
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	time.Sleep(g.load / 4)
	cycling, err := g.watch(g.load, func() int { return int(done.Load()) })
	g.show(allCycle, cycling)
	cancel()
	group.Wait()
	close(errs)
	return errors.Join(err, <-errs)
}

// waiters lets all clients wait for a name that is held all the time.
func (g *gathering) waiters() error {
	name := g.nextName("wait")
	held, err := g.outsider.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for _, l := range g.lockers {
		group.Go(func() {
			if lock, err := l.Lock(ctx, name); err == nil { // the outsider lost it
				_ = lock.Unlock()
			}
		})
	}
	time.Sleep(g.load / 2) // subscriptions, and the first questions
	waiting, err := g.watch(g.load, nil)
	cancel()
	group.Wait()
	time.Sleep(g.load / 4) // the masters have a crowd to take out of their queues
	if err == nil {
		waiting[memoryOfEach], waiting[goroutinesOfEach] = g.ofEach()
		g.show(allWait, waiting)
	}
	return errors.Join(err, held.Unlock())
}

// rush lets all clients want one name at one moment. It returns one of the errors other than the deadline's.
func (g *gathering) rush() error {
	name := g.nextName("hot")
	ctx, cancel := context.WithTimeout(context.Background(), g.deadline)
	defer cancel()
	var inside, had, overlaps, bad atomic.Int32
	began := time.Now()
	err := together(len(g.lockers), func(i int) error {
		lock, err := g.lockers[i].Lock(ctx, name)
		if err == nil {
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			had.Add(1)
			inside.Add(-1)
			err = lock.Unlock()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			bad.Add(1)
		}
		return err
	})
	g.show(oneName, map[string]float64{
		served: float64(had.Load()), took: us(min(time.Since(began), g.deadline)) / 1000,
		"overlaps": float64(overlaps.Load()), failures: float64(bad.Load()), // with another error than the deadline's
	})
	return err
}
