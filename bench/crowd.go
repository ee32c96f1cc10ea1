package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// A crowd is many processes that lock on the same masters. Here each is a Locker of its own in one process, so that
// they share nothing but the CPU: no connection, and no batch.
//
// What it does, and what happens to it, are rows of the results under these names, with the figures of the second part
// of the list. CPU is in % of a core, and what is of a master is the mean of five.
const (
	crowdScenario = "crowd"

	allOpen       = "all open, in one process"
	allRestart    = "all masters are killed, and come back"
	nobody        = "nobody is there"
	atRest        = "at rest"
	allHold       = "each keeps a hold, TTL 10 s" // an event is a renewal
	allCycle      = "each locks and unlocks at a pace"
	allWait       = "all wait for one name"
	masterReturns = "a master returns, TTL 10 s"
	oneName       = "one name at once, TTL 10 s"

	served   = "served"     // had a lock before the deadline
	took     = "took ms"    // until all had had it, or until the deadline; without the restart guard
	failures = "failed"     // calls meanwhile
	accepted = "made"       // connections that the masters accepted, for each that the clients want
	events   = "events/s"   // renewals or cycles
	commands = "commands/s" // those within scripts included

	memoryOfEach     = "KiB" // of each client: heap and stacks in use after a collection
	goroutinesOfEach = "goroutines"
	clientShare      = "client %"
	masterShare      = "master %"
	busiestShare     = "busiest %"
	usedMemory       = "memory KiB"
	connections      = "connections" // without the bench's own
)

// crowdPlan says how long the parts of the scenario take.
type crowdPlan struct {
	idle     time.Duration // measured at rest, after a quarter of it to settle
	load     time.Duration // measured in each other state, and after a master's return
	guard    time.Duration // the restart guard, waited for before anything is asked of a master that was started
	deadline time.Duration // of a rush, and of a first lock
	rate     int           // cycles per second of the whole crowd
	patience time.Duration // of a node; 0: the library's node timeout
}

// crowdFlags fill the plan. The full probes of a client are a minute apart: rest is measured for as long.
func crowdFlags() *crowdPlan {
	p := &crowdPlan{deadline: time.Minute, rate: 500}
	flag.DurationVar(&p.idle, "crowd-idle", time.Minute, "crowd: how long rest is measured")
	flag.DurationVar(&p.load, "crowd-load", 12*time.Second, "crowd: how long each other state is measured")
	flag.DurationVar(&p.guard, "crowd-guard", 30*time.Second, "crowd: the restart guard; 0: off")
	return p
}

// A gathering is the crowd of one round, and an outsider: a client that is no part of what is measured.
type gathering struct {
	*bench
	crowdPlan
	lockers  []*redlock.Locker
	outsider *redlock.Locker
	prefix   string
	shown    []sample

	// In use before the crowd came.
	memory     int64
	goroutines int
}

// show records what was measured of the crowd.
func (g *gathering) show(what string, figures map[string]float64) {
	g.shown = append(g.shown, sample{who: what, figures: figures})
}

// crowd measures so many clients, each a Locker.
func (b *bench) crowd(_ scenario, c contestant, clients int, _ time.Duration) []sample {
	g := &gathering{bench: b, crowdPlan: *b.plan, prefix: b.prefix()}
	g.watch(nobody, g.idle/2, nil)
	g.gather(clients)
	all := sample{who: c.name, figures: map[string]float64{failed: 0}}
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"rest", g.rest},
		{"holds", g.holds},
		{"rush", g.rush},
		{"cycles", g.cycles},
		{"waiters", g.waiters},
		{"restart", g.restart},
	} {
		err := attempt(func() {
			must(b.cluster.check())
			part.run()
		})
		if err != nil { // the other parts can still be measured
			all.figures[failed]++
			all.example = fmt.Errorf("%s: %w", part.name, err)
		}
	}
	_ = together(clients, func(i int) error { return g.lockers[i].Close() })
	_ = g.outsider.Close()
	b.conclude(&all)
	return append(g.shown, all)
}

// gather opens the Lockers when the restart guard has passed on all masters.
func (g *gathering) gather(clients int) {
	options := []redlock.Option{noGuard}
	if g.guard > 0 {
		options[0] = redlock.WithMaxTTL(g.guard)
		up := g.guard
		for _, m := range g.asked() {
			up = min(up, time.Duration(m["uptime_in_seconds"])*time.Second)
		}
		// The uptime may be a second too much; the client's own count begins when it learns of it.
		time.Sleep(g.guard + 2*time.Second - up)
	}
	if g.patience > 0 {
		options = append(options, redlock.WithNodeTimeout(g.patience))
	}
	open := func(int) (*redlock.Locker, error) { return redlock.New(urls("redis://", g.cluster.nodes), options...) }
	g.outsider = made(open(0))
	must(g.cycle(locks(g.outsider), "outside"))
	before := g.connected(1)
	g.memory, g.goroutines, g.lockers = inUse(), runtime.NumGoroutine(), make([]*redlock.Locker, clients)
	g.arrive(allOpen, time.Now(), before, open)
}

// cycle locks and unlocks a name of the round.
func (g *gathering) cycle(acquire way, name string) error {
	held, err := acquire(context.Background(), g.prefix+name)
	if err == nil {
		err = held.Unlock()
	}
	return err
}

// arrive lets all clients at once try until each has had a lock of a name of its own: then a majority counts for it.
// The clock starts at a moment that may still be to come, where the restart guard ends. before is how many connections
// the masters had accepted.
func (g *gathering) arrive(
	how string, start time.Time, before float64, locker func(i int) (*redlock.Locker, error),
) {
	var had, failed atomic.Int32
	clients := len(g.lockers)
	err := together(clients, func(i int) (err error) {
		if g.lockers[i], err = locker(i); err != nil {
			return err
		}
		for {
			began := time.Now()
			// Not Lock: who waits has one goroutine more for each master, and keeps it.
			if err = g.cycle(tries(g.lockers[i]), "own:"+strconv.Itoa(i)); err == nil {
				had.Add(1)
				return nil
			}
			if began.After(start) {
				failed.Add(1)
			}
			if time.Since(start) > g.deadline {
				return fmt.Errorf("a client of %d has no majority: %w", clients, err)
			}
			// A thousand that ask all the time would keep each other from it.
			time.Sleep(50*time.Millisecond + rand.N(350*time.Millisecond))
		}
	})
	figures := map[string]float64{
		took: us(max(0, time.Since(start))) / 1000, served: float64(had.Load()), failures: float64(failed.Load()),
	}
	g.show(how, figures)
	must(err)
	figures[accepted] = (g.connected(clients+1) - before) / float64(clients*len(g.cluster.servers)) // and the outsider
}

// connected returns when so many clients, and no others, are connected to all masters, and how many connections these
// have accepted. A lock takes a majority; the other connections may come later, and those of clients that were closed
// may still have to go.
func (g *gathering) connected(clients int) (received float64) {
	for until := time.Now().Add(g.deadline); ; time.Sleep(20 * time.Millisecond) {
		masters, other := g.asked(), -1
		received = 0
		for i, m := range masters {
			received += m["total_connections_received"]
			if int(m["connected_clients"]) != clients+1 { // one is the bench's own
				other = i
			}
		}
		if other < 0 {
			return received
		}
		if time.Now().After(until) {
			must(fmt.Errorf("the master %s has %v connections, not those of %d clients and the bench",
				g.cluster.servers[other].Addr(), masters[other]["connected_clients"], clients))
		}
	}
}

// asked returns the numbers that each master tells about itself.
func (g *gathering) asked() (all []map[string]float64) {
	for _, s := range g.cluster.servers {
		numbers := map[string]float64{}
		for name, text := range made(redisserver.Info(s.ctl, "default")) {
			if v, err := strconv.ParseFloat(text, 64); err == nil {
				numbers[name] = v
			}
		}
		all = append(all, numbers)
	}
	return all
}

// watch measures what goes on for a while. happened, if it is not nil, counts events so far. The CPU times are read
// nearest to what is measured, so that asking costs nothing.
func (g *gathering) watch(what string, d time.Duration, happened func() int) (cost map[string]float64) {
	if happened == nil {
		happened = func() int { return 0 }
	}
	saidBefore := g.asked()
	n, before := happened(), snapshot(g.cluster.servers)
	time.Sleep(d)
	after := snapshot(g.cluster.servers)
	n = happened() - n
	said := g.asked()
	seconds, masters := after.at.Sub(before.at).Seconds(), float64(len(g.cluster.servers))
	cost = map[string]float64{
		clientShare: 100 * (after.client - before.client).Seconds() / seconds,
		masterShare: 100 * after.since(before).Seconds() / seconds / masters,
		events:      float64(n) / seconds,
	}
	for i, m := range said {
		cost[busiestShare] = max(cost[busiestShare], 100*(after.servers[i]-before.servers[i]).Seconds()/seconds)
		grown := func(name string) float64 { return (m[name] - saidBefore[i][name]) / seconds / masters }
		cost[commands] += grown("total_commands_processed")
		cost["in KiB/s"] += grown("total_net_input_bytes") / 1024
		cost["out KiB/s"] += grown("total_net_output_bytes") / 1024
		cost[usedMemory] += m["used_memory"] / 1024 / masters
		cost[connections] += (m["connected_clients"] - 1) / masters
	}
	g.show(what, cost)
	return cost
}

// ofEach adds what a client uses.
func (g *gathering) ofEach(figures map[string]float64) {
	n := float64(len(g.lockers))
	figures[memoryOfEach] = float64(inUse()-g.memory) / 1024 / n
	figures[goroutinesOfEach] = float64(runtime.NumGoroutine()-g.goroutines) / n
}

// inUse is the memory that the process has in use, in bytes. Fragments count.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // frees what the first has found unused in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// rest measures a crowd that has been open for a while.
func (g *gathering) rest() {
	time.Sleep(g.idle / 4)
	g.ofEach(g.watch(atRest, g.idle, nil))
}

// holds lets each client keep a hold, measures that, and kills a master for a moment.
func (g *gathering) holds() {
	holds := make([]*redlock.Lock, len(g.lockers))
	must(spread(len(holds), min(lockTTL/3, g.load), func(i int) (err error) {
		holds[i], err = g.lockers[i].Lock(context.Background(), g.prefix+"held:"+strconv.Itoa(i))
		return err
	}))
	// Of those that are lost, this says so once more.
	defer func() { _ = together(len(holds), func(i int) error { return holds[i].Unlock() }) }()
	// Of one master, on the mean.
	g.watch(allHold, g.load, func() int { return renewals(g.cluster.servers) / len(g.cluster.servers) })
	g.comeback(holds)
}

// comeback kills a master, starts it again and watches what becomes of the holds, and of an outsider's calls.
func (g *gathering) comeback(holds []*redlock.Lock) {
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
	must(err)
}

// cycles lets the clients lock and unlock names of their own at a pace, one after the other.
func (g *gathering) cycles() {
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
	err := attempt(func() { g.watch(allCycle, g.load, func() int { return int(done.Load()) }) })
	cancel()
	group.Wait()
	must(errors.Join(err, failed))
}

// waiters lets all clients wait for a name that is held all the time.
func (g *gathering) waiters() {
	name := g.prefix + "wait"
	held := made(g.outsider.Lock(context.Background(), name))
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
	var waiting map[string]float64
	err := attempt(func() { waiting = g.watch(allWait, g.load, nil) })
	cancel()
	group.Wait()
	time.Sleep(g.load / 4) // the masters have a crowd to take out of their queues
	must(err)
	g.ofEach(waiting)
	must(held.Unlock())
}

// rush lets all clients want one name at one moment. It returns one of the errors other than the deadline's.
func (g *gathering) rush() {
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
	must(err)
}

// restart kills all masters under the crowd, starts them again at once, and waits until each client has had a lock
// again. Nobody can have one before the restart guard is over; the clock starts then.
func (g *gathering) restart() {
	servers := g.cluster.servers
	for _, do := range []func(i int) error{
		func(i int) error { return servers[i].Kill(context.Background()) },
		func(i int) error { return servers[i].revive() },
	} {
		must(together(len(servers), do))
	}
	// A master's count begins with its start. The first two are ours: the one that saw it answer, and the control. The
	// outsider comes back, too.
	g.arrive(allRestart, time.Now().Add(g.guard), float64(3*len(servers)),
		func(i int) (*redlock.Locker, error) { return g.lockers[i], nil })
}
