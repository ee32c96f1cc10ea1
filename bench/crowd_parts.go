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

// rest measures a crowd that has been open for a while.
func (g *gathering) rest() error {
	time.Sleep(g.idle / 4)
	rest, err := g.watch(atRest, g.idle, nil)
	if err == nil {
		g.ofEach(rest)
	}
	return err
}

// holds lets each client keep a hold, measures that, kills a master for a moment, and when it is back lets all clients
// want one name.
func (g *gathering) holds() error {
	holds := make([]*redlock.Lock, len(g.lockers))
	err := spread(len(holds), min(lockTTL/3, g.load), func(i int) (err error) {
		holds[i], err = g.lockers[i].Lock(context.Background(), g.prefix+"held:"+strconv.Itoa(i))
		return err
	})
	if err != nil {
		return err
	}
	// Of one master, on the mean.
	_, err = g.watch(allHold, g.load, func() int { return renewals(g.cluster.servers) / len(g.cluster.servers) })
	err = errors.Join(err, g.comeback(holds))
	// Of those that are lost, this says so once more.
	_ = together(len(holds), func(i int) error { return holds[i].Unlock() })
	return errors.Join(err, g.rush())
}

// comeback kills a master, starts it again and watches what becomes of the holds, and of an outsider's calls.
func (g *gathering) comeback(holds []*redlock.Lock) error {
	back := map[string]float64{
		lost:     0,             // of one hold each
		failures: 0, "calls": 0, // of the outsider
		"worst ms": 0, // its longest lock and unlock
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for ; !stop.Load(); time.Sleep(2 * time.Millisecond) {
			began := time.Now()
			if g.cycle(locks(g.outsider), "outside") != nil {
				back[failures]++
			}
			back["worst ms"] = max(back["worst ms"], us(time.Since(began))/1000)
			back["calls"]++
		}
	})
	away := min(3*time.Second, g.load/4)
	victim := g.cluster.servers[len(g.cluster.servers)-1]
	err := victim.Kill(context.Background())
	time.Sleep(away)
	if err == nil {
		err = victim.revive()
	}
	time.Sleep(g.load)
	stop.Store(true)
	group.Wait()
	for _, lock := range holds {
		if lock.Err() != nil {
			back[lost]++
		}
	}
	g.show(masterReturns, back)
	return err
}

// cycles lets the clients lock and unlock names of their own at a pace, one after the other.
func (g *gathering) cycles() error {
	var done atomic.Int64
	var group sync.WaitGroup
	var failed error // written before group.Wait returns
	ctx, cancel := context.WithCancel(context.Background())
	n := len(g.lockers)
	every := time.Second * time.Duration(n) / time.Duration(g.rate)
	group.Go(func() {
		failed = spread(n, every, func(i int) (bad error) {
			for pace := time.NewTicker(every); ctx.Err() == nil; {
				if err := g.cycle(locks(g.lockers[i]), "own:"+strconv.Itoa(i)); err != nil {
					bad = err
				} else {
					done.Add(1)
				}
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
			return bad
		})
	})
	time.Sleep(g.load / 4)
	_, err := g.watch(allCycle, g.load, func() int { return int(done.Load()) })
	cancel()
	group.Wait()
	return errors.Join(err, failed)
}

// waiters lets all clients wait for a name that is held all the time.
func (g *gathering) waiters() error {
	name := g.prefix + "wait"
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
	waiting, err := g.watch(allWait, g.load, nil)
	cancel()
	group.Wait()
	time.Sleep(g.load / 4) // the masters have a crowd to take out of their queues
	if err == nil {
		g.ofEach(waiting)
	}
	return errors.Join(err, held.Unlock())
}

// rush lets all clients want one name at one moment. It returns one of the errors other than the deadline's.
func (g *gathering) rush() error {
	ctx, cancel := context.WithTimeout(context.Background(), g.deadline)
	defer cancel()
	var inside, had, overlaps, bad atomic.Int32
	began := time.Now()
	err := together(len(g.lockers), func(i int) error {
		lock, err := g.lockers[i].Lock(ctx, g.prefix+"hot")
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

// restart kills all masters under the crowd, starts them again at once, and waits until each client has had a lock
// again. Nobody can have one before the restart guard is over; the clock starts then.
func (g *gathering) restart() error {
	servers := g.cluster.servers
	for _, do := range []func(i int) error{
		func(i int) error { return servers[i].Kill(context.Background()) },
		func(i int) error { return servers[i].revive() },
	} {
		if err := together(len(servers), do); err != nil {
			return err
		}
	}
	// A master's count begins with its start. The first two are ours: the one that saw it answer, and the control. The
	// outsider comes back, too.
	return g.arrive(allRestart, time.Now().Add(g.guard), float64(3*len(servers)),
		func(i int) (*redlock.Locker, error) { return g.lockers[i], nil })
}
