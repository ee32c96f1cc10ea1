package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// open opens so many Lockers at the same time, and returns when each has had a lock: then a majority counts for it. It
// returns those that were opened in any case.
func (g *gathering) open(n int) (lockers []*redlock.Locker, arrival map[string]float64, err error) {
	options := []redlock.Option{noGuard}
	if g.guard > 0 {
		options[0] = redlock.WithMaxTTL(g.guard)
	}
	if g.patience > 0 {
		options = append(options, redlock.WithNodeTimeout(g.patience))
	}
	lockers = make([]*redlock.Locker, n)
	nodes, name := urls("redis://", g.cluster.nodes), g.nextName("open")
	arrival, err = arrive(n, time.Now(), g.deadline, func(i int, try try) (err error) {
		if lockers[i], err = redlock.New(nodes, options...); err != nil {
			return err
		}
		return try(lockers[i], name+strconv.Itoa(i))
	})
	return slices.DeleteFunc(lockers, func(l *redlock.Locker) bool { return l == nil }), arrival, err
}

// try tries until a client has had a lock of a name.
type try func(l *redlock.Locker, name string) error

// arrive lets so many clients, all at once, try until each has had a lock of a name of its own. The clock starts at a
// moment that may still be to come, where the restart guard ends.
func arrive(clients int, start time.Time, deadline time.Duration, client func(i int, try try) error,
) (map[string]float64, error) {
	var had, failed, early atomic.Int32
	try := func(l *redlock.Locker, name string) error {
		// Not Lock: who waits has one goroutine more for each master, and keeps it.
		for {
			began := time.Now()
			lock, err := l.TryLock(context.Background(), name)
			if err == nil {
				err = lock.Unlock()
			}
			if err == nil {
				had.Add(1)
				return nil
			}
			if began.Before(start) {
				early.Add(1)
			} else {
				failed.Add(1)
			}
			if time.Since(start) > deadline {
				return fmt.Errorf("a client of %d has no majority: %w", clients, err)
			}
			// A thousand that ask all the time would keep each other from it.
			time.Sleep(50*time.Millisecond + rand.N(350*time.Millisecond))
		}
	}
	err := together(clients, func(i int) error { return client(i, try) })
	return map[string]float64{
		took:   us(max(0, time.Since(start))) / 1000,
		served: float64(had.Load()), failures: float64(failed.Load()), guarded: float64(early.Load()),
	}, err
}

// together calls f for 0 to n-1 at one moment, and returns one of the errors when all have ended.
func together(n int, f func(i int) error) error {
	var (
		group  sync.WaitGroup
		begin  = make(chan struct{})
		errs   = make([]error, n)
		failed error
	)
	for i := range n {
		group.Go(func() {
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	group.Wait()
	for _, err := range errs {
		if err != nil {
			failed = err
		}
	}
	return failed
}

func closeAll(lockers []*redlock.Locker) {
	_ = together(len(lockers), func(i int) error { return lockers[i].Close() })
}

// asked returns a number that each master tells about itself.
func (g *gathering) asked(section, field string) (numbers []int, err error) {
	for _, s := range g.cluster.servers {
		fields, err := redisserver.Info(s.ctl, section)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Addr(), err)
		}
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Addr(), field, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// connected returns when so many clients, and no others, are connected to all masters. A lock takes a majority; the
// other connections may come later, and those of clients that were closed may still have to go.
func (g *gathering) connected(clients int) error {
	for deadline := time.Now().Add(g.deadline); ; time.Sleep(20 * time.Millisecond) {
		numbers, err := g.asked("clients", "connected_clients")
		if err != nil {
			return err
		}
		other := slices.IndexFunc(numbers, func(n int) bool { return n-1 != clients }) // one is the bench's own
		if other < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the master %s has %d connections, not those of %d clients",
				g.cluster.servers[other].Addr(), numbers[other]-1, clients)
		}
	}
}

// received is how many connections all masters have accepted since they were started, the bench's own included.
func (g *gathering) received() (sum int, err error) {
	numbers, err := g.asked("stats", "total_connections_received")
	for _, n := range numbers {
		sum += n
	}
	return sum, err
}

// arrived shows what became of the crowd, with the connections that it has made when each client has all of its own.
// err is what has become of it: where that is an error, the connections will hardly come.
func (g *gathering) arrived(how string, arrival map[string]float64, before int, err error) error {
	if err == nil {
		err = g.connected(g.clients + 1) // and the outsider
	}
	after, bad := g.received()
	arrival[accepted] = float64(after-before) / float64(g.clients*len(g.cluster.servers))
	g.show(how, arrival)
	return errors.Join(err, bad)
}

// restart kills all masters under the crowd, starts them again at once, and waits until each client has had a lock
// again. Nobody can have one before the restart guard is over; the clock starts then.
func (g *gathering) restart() error {
	servers, ctx := g.cluster.servers, context.Background()
	if err := together(len(servers), func(i int) error { return servers[i].Kill(ctx) }); err != nil {
		return err
	}
	if err := together(len(servers), func(i int) error { return servers[i].revive() }); err != nil {
		return err
	}
	// A master's count begins with its start. The first two are ours: the one that saw it answer, and the control.
	ours, name := 2*len(servers), g.nextName("back")
	arrival, err := arrive(g.clients, time.Now().Add(g.guard), g.deadline,
		func(i int, try try) error {
			return try(g.lockers[i], name+strconv.Itoa(i))
		})
	// The outsider comes back, too.
	return g.arrived(allRestart, arrival, ours+len(servers), err)
}
