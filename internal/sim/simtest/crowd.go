package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has worlds with a crowd: fifty Lockers of one process, which start at one moment and share the function
// that dials, so that their handshakes take turns, and each learns from the others that a master answers. Masters lose
// all that they have under the clients that hold, wait and try, and Lockers are closed and opened anew meanwhile.

const crowdSize = 50

// Crowd is what happens to a crowd.
type Crowd struct {
	Fault   string        // of one master; "": nothing is wrong but what follows
	Early   bool          // the fault is there when the clients start; else it begins while they work
	Lasts   time.Duration // how long it does
	Killed  int           // how many masters are killed, and started again without their data
	Apart   time.Duration // within which they are killed
	Away    time.Duration // how long each is away at most
	First   time.Duration // how long the crowd works before that, and again before Lockers are closed
	Reopens int           // how many Lockers are closed and opened again
}

func (c *Crowd) String() string { return fmt.Sprintf("%+v", *c) }

// crowdFaults are what can be wrong with one master: what happens, and how it is mended.
var crowdFaults = map[string]struct{ strike, mend func(w *world, n *sim.Node) }{
	"dead": {
		func(_ *world, n *sim.Node) { n.Crash(true) },
		func(_ *world, n *sim.Node) { n.Restart() },
	},
	"paused": {
		func(_ *world, n *sim.Node) { n.Pause() },
		func(_ *world, n *sim.Node) { n.Resume() },
	},
	"cut off": {
		func(w *world, n *sim.Node) { w.net.Drop(sim.Link{Node: n.Addr()}, sim.Both) },
		func(w *world, n *sim.Node) { w.net.Heal(sim.Link{Node: n.Addr()}, sim.Both) },
	},
}

// CrowdScenario derives a crowd from a seed.
func CrowdScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0xc20d))
	s := ordinary(seed)
	s.Faults, s.Hurry, s.Sound, s.PlainNodes = nil, false, true, 0
	s.Habits.Hasty, s.Habits.Watchers, s.Habits.Long = 0, 0, 0
	s.Habits.without(ForceUnlock, WithValue, SetValue, Inspect, Check, Status, WithoutFencing)
	if least := 800 * time.Millisecond; s.TTL < least { // the time that a master is out of the vote is not many TTLs
		s.stretch(1 + int(least/s.TTL))
	}
	s.Guard = max(s.TTL, 2*time.Second)
	s.Clients, s.Workers, s.Names = crowdSize, 1, 1+r.IntN(len(names))
	s.Habits.Rest = max(s.Habits.Rest, 2*s.TTL)
	s.Timeout = min(s.Timeout, s.TTL/4)
	s.Delay.Max = min(s.Delay.Max, s.Timeout/8)
	s.Delay.SlowMax = max(s.Delay.Max, min(s.Delay.SlowMax, s.Timeout/4))
	c := &Crowd{
		Fault:  []string{"", "", "dead", "paused", "cut off"}[r.IntN(5)],
		Early:  r.IntN(2) == 0,
		Lasts:  time.Second + time.Duration(r.Int64N(int64(8*time.Second))),
		Killed: []int{s.Nodes, s.Nodes, s.Nodes/2 + 1, 1}[r.IntN(4)],
		First:  time.Second + scaled(s.TTL, r, 1./2, 2),
	}
	switch r.IntN(3) { // one after the other, as a rolling restart does it; or at once
	case 0:
		c.Apart = scaled(s.TTL, r, 1./8, 2)
	case 1:
		c.Apart = time.Millisecond
	}
	switch r.IntN(3) {
	case 0:
		c.Away = scaled(time.Second, r, 1./64, 4)
	case 1:
		c.Away = 100 * time.Millisecond
	}
	if r.IntN(3) > 0 {
		c.Reopens = 1 + r.IntN(s.Clients)
	}
	over := max(c.First/2+c.Lasts, c.First+c.Apart+c.Away, 2*c.First+s.Guard)
	s.Crowd, s.Length = c, over+s.Guard+2*s.TTL
	return s
}

type crowd struct {
	dialer redlock.Option // the same for all

	mu      sync.Mutex // protects all of the below
	dialing map[string]int
	most    int // dials to one address that were under way at a time
	made    int // connections
	wanted  int // connections: those of each Locker, and one in place of each that a kill broke
	open    int // Lockers
}

// maxDials is how many handshakes, and so dials, a process has under way with one address: see package redisconn.
const maxDials = 32

func newCrowd(w *world) *crowd {
	c := &crowd{dialing: make(map[string]int)}
	dial := w.net.Dialer("crowd")
	c.dialer = redlock.WithNodeConfig(redlock.NodeConfig{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.note(func() { c.dialing[address]++; c.most = max(c.most, c.dialing[address]) })
			conn, err := dial(ctx, network, address)
			c.note(func() {
				c.dialing[address]--
				if err == nil {
					c.made++
				}
			})
			return conn, err
		},
	})
	return c
}

func (c *crowd) note(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
}

// opens and closed tell of a Locker.
func (c *crowd) opens(nodes int) { c.note(func() { c.open++; c.wanted += nodes }) }
func (c *crowd) closed()         { c.note(func() { c.open-- }) }

// connectCrowd opens a Locker of the crowd. All have the same list of nodes, so none is ever refused.
func (w *world) connectCrowd(name string, k *kind, opts []redlock.Option) *instance {
	w.crowd.opens(len(w.nodes))
	begun := time.Now()
	locker, err := redlock.New(urls(k.lists[0]), append(opts, w.crowd.dialer)...)
	if err != nil {
		w.blame("lists", "%s could not be opened: %v", name, err)
		panic(err)
	}
	// What New waits for: first attempts to connect, for as long as one may take and a little longer; and answers.
	took, limit := time.Since(begun), 17*max(time.Second, 4*w.scenario.Timeout)/16+w.scenario.Timeout
	if took > limit+time.Millisecond {
		w.blame("bounded", "%s was opened after %v, the node timeout is %v", name, took, w.scenario.Timeout)
	}
	return &instance{Locker: locker, kind: k, timeout: w.scenario.Timeout}
}

// startCrowd opens all Lockers at one moment; the nanoseconds keep their events apart.
func (w *world) startCrowd() {
	w.crowd = newCrowd(w)
	if c := w.scenario.Crowd; c.Fault != "" && c.Early {
		crowdFaults[c.Fault].strike(w, w.faulty())
	}
	var wg sync.WaitGroup
	for i, c := range w.clients {
		wg.Go(func() {
			time.Sleep(time.Duration(i))
			c.locker.Store(w.connect(c.name, w.kinds[0]))
		})
	}
	wg.Wait()
}

// faulty is the master that has the fault.
func (w *world) faulty() *sim.Node { return w.nodes[int(w.scenario.Seed%uint64(len(w.nodes)))] }

// disturb is what happens to the crowd. It returns when all masters are in order.
func (w *world) disturb() {
	c, r := w.scenario.Crowd, rand.New(rand.NewPCG(w.scenario.Seed, 0xd157))
	var wg sync.WaitGroup
	if c.Fault != "" {
		wg.Go(func() {
			kind, n := crowdFaults[c.Fault], w.faulty()
			if !c.Early {
				time.Sleep(c.First/2 + 3)
				kind.strike(w, n)
			}
			w.log("fault", "%s %s", n.Addr(), c.Fault)
			time.Sleep(c.Lasts)
			kind.mend(w, n)
			w.log("fault", "%s is over", c.Fault)
			w.count("faults", 1)
		})
	}
	time.Sleep(c.First)
	for i, at := range r.Perm(len(w.nodes))[:c.Killed] {
		n := w.nodes[at]
		var after, away time.Duration
		if c.Apart > 0 {
			after = time.Duration(r.Int64N(int64(c.Apart)))
		}
		if c.Away > 0 {
			away = time.Duration(r.Int64N(int64(c.Away)))
		}
		wg.Go(func() {
			time.Sleep(after + time.Duration(7*i))
			w.log("fault", "%s is killed", n.Addr())
			w.crowd.note(func() { w.crowd.wanted += w.crowd.open })
			w.undone.forget(n)
			n.Crash(false)
			time.Sleep(away)
			n.Restart()
			w.log("fault", "%s is started", n.Addr())
			w.count("faults", 1)
		})
	}
	// Lockers are closed and opened while the masters come back, or afterwards.
	wg.Go(func() {
		time.Sleep(time.Duration(r.Int64N(int64(c.First + w.scenario.Guard))))
		var all sync.WaitGroup
		for i, at := range r.Perm(len(w.clients))[:c.Reopens] {
			all.Go(func() { w.reopen(w.clients[at], i) })
		}
		all.Wait()
	})
	wg.Wait()
}

// reopen closes a client's Locker under whatever it does, and makes another one.
func (w *world) reopen(c *client, i int) {
	c.changing <- struct{}{}
	defer func() { <-c.changing }()
	time.Sleep(time.Duration(i))
	w.log(c.name, "is closed")
	_ = c.locker.Load().Close()
	w.crowd.closed()
	c.locker.Store(w.connect(c.name, w.kinds[0]))
	w.log(c.name, "is opened again")
}

// backWithin is how long after the last fault, and the guard's period, each client has a lock of its own at the latest:
// a connection that has become half-open is noticed by the next probe, and spared for eight times as long as others.
const backWithin = 30 * time.Second

// comeBack has each client get a lock of its own, beside what its worker does. The faults are over.
func (w *world) comeBack() {
	begun := time.Now()
	limit := w.scenario.Guard + backWithin
	var wg sync.WaitGroup
	for i, c := range w.clients {
		wg.Go(func() {
			time.Sleep(time.Duration(i))
			ctx, cancel := context.WithDeadline(context.Background(), begun.Add(limit))
			defer cancel()
			for {
				lock, err := c.locker.Load().Lock(ctx, "own:"+c.name)
				if err == nil {
					_ = lock.Unlock()
					break
				}
				w.refused(c.name, err)
				if ctx.Err() != nil {
					w.blame("progress", "%s got no lock of its own within %v after the last fault: %v", c.name, limit, err)
					return
				}
				time.Sleep(10 * time.Millisecond) // its Locker is being replaced
			}
		})
	}
	wg.Wait()
	w.log("crowd", "all are back")
}

// refused: all clients have the same list of nodes.
func (w *world) refused(who string, err error) {
	if w.scenario.Change == nil && errors.As(err, new(*redlock.ListConflictError)) {
		w.blame("lists", "%s is refused, and all have the same list: %v", who, err)
	}
}

// dispersed is run when all Lockers are closed, in order if nothing but the restart has disturbed them.
func (w *world) dispersed() {
	c := w.crowd
	w.count("connections", c.made)
	w.count("connections wanted", c.wanted)
	if c.most > maxDials {
		w.blame("bounded", "%d dials to one address at a time", c.most)
	}
	calm := w.scenario.Crowd.Fault == ""
	if calm && float64(c.made) > 1.2*float64(c.wanted) {
		w.blame("bounded", "%d connections were made where %d were wanted", c.made, c.wanted)
	}
	w.quiet()
	for _, n := range w.nodes {
		if texts := n.Do("ZRANGEBYSCORE", "redlock:lists", "(0", "+inf"); calm && fmt.Sprint(texts) != "[]" {
			w.blame("clean", "after the last Close, %s still has the lists %v", n.Addr(), texts)
		}
	}
	time.Sleep(6 * time.Minute)
	for _, n := range w.nodes {
		for _, key := range n.Keys() {
			if key == "redlock:lists" || strings.HasPrefix(key, "redlock:clients:") {
				w.blame("clean", "six minutes after the last Close, %s still has %q", n.Addr(), key)
			}
		}
	}
}
