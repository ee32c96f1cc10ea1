package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has contests: a few clients wait for one free name at the same moment, while the nodes are changed and
// nothing is wrong. Then somebody has the lock soon, each time.

// Contest is what came of a contest.
type Contest struct {
	Text string        // what was drawn
	Idle time.Duration // the longest time for which nobody had the lock while somebody waited for it
	Both int           // holds that were granted although another one excludes them
}

type contest struct {
	mu               sync.Mutex // protects all of the below
	sum              *Contest
	free             time.Time // since when nobody has the lock
	writers, readers int
}

func (c *contest) granted(reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writers > 0 || c.readers > 0 && !reads {
		c.sum.Both++
	}
	if c.writers+c.readers == 0 {
		c.sum.Idle = max(c.sum.Idle, time.Since(c.free))
	}
	c.count(reads, 1)
}

// gaveUp: for so long, one of the few others must have been done.
func (c *contest) gaveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Idle = max(c.sum.Idle, time.Since(c.free))
}

func (c *contest) ends(reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(reads, -1)
	c.free = time.Now()
}

// count is called with mu held.
func (c *contest) count(reads bool, n int) {
	if reads {
		c.readers += n
	} else {
		c.writers += n
	}
}

// cutOff may cut one client off from so many nodes that it cannot have the lock. It returns that client, or -1.
func (w *world) cutOff(r *rand.Rand, client int) int {
	if r.IntN(4) > 0 {
		return -1
	}
	for _, i := range r.Perm(len(w.nodes))[:len(w.nodes)/2+1] {
		w.net.Refuse(sim.Link{Client: fmt.Sprintf("c%d", client), Node: w.nodes[i].Addr()})
		w.net.Reset(sim.Link{Client: fmt.Sprintf("c%d", client), Node: w.nodes[i].Addr()})
	}
	return client
}

// Contend has clients contend for a fresh name, round by round. The seed draws the change of nodes, how many clients
// there are, and of which lists. It must be called in a synctest bubble.
func Contend(seed uint64, rounds int) (sum Contest) {
	r := rand.New(rand.NewPCG(seed, 0xc07e57))
	shape := Shapes[r.IntN(len(Shapes))]
	s := Scenario{
		Seed: seed, Nodes: shape.Old + shape.Both + shape.New, Clients: 1, Delay: sim.LAN,
		TTL: 10 * time.Second, Timeout: 250 * time.Millisecond, Guard: 30 * time.Second,
	}
	s.Delay.Max *= time.Duration([]int{1, 4, 10}[r.IntN(3)])
	w := newWorld(s)
	defer w.close()
	kinds := newChange(shape, s, r).kinds(w.nodes)
	contenders := []*kind{kinds[withBoth], kinds[withBoth]}
	for range 1 + r.IntN(2) {
		contenders = append(contenders, kinds[withBoth])
	}
	if r.IntN(3) == 0 {
		contenders[0] = kinds[[]int{withOld, withNew}[r.IntN(2)]]
	}
	read := 0.
	if r.IntN(4) == 0 {
		read = 0.5
	}
	sum.Text = fmt.Sprintf("seed %d: %s, delay up to %v, %v of the calls read", seed, shape.Name, s.Delay.Max, read)
	var lockers []*redlock.Locker
	for i, k := range contenders {
		lockers = append(lockers, w.connect(fmt.Sprintf("c%d", i), k).Locker)
		sum.Text += ", " + k.name
	}
	if rand.New(rand.NewPCG(seed, 0xdead)).IntN(3) == 0 {
		dead := w.nodes[seed%uint64(len(w.nodes))]
		dead.Crash(true)
		sum.Text += ", without " + dead.Addr()
	}
	cutOff := w.cutOff(rand.New(rand.NewPCG(seed, 0xc07)), len(lockers)-1)
	if cutOff >= 0 {
		sum.Text += fmt.Sprintf(", c%d cut off from most nodes", cutOff)
	}
	opts := []redlock.LockOption{redlock.WithMaxWait(time.Second)}
	for round := range rounds {
		time.Sleep(time.Second)
		c := &contest{sum: &sum, free: time.Now()}
		name := fmt.Sprintf("round %d", round)
		var wg sync.WaitGroup
		for i, l := range lockers {
			reads, stays := r.Float64() < read, time.Duration(1+r.IntN(4000))*time.Microsecond
			lock := lockCall(l.Lock)
			if reads {
				lock = l.RLock
			}
			wg.Go(func() {
				time.Sleep(time.Duration(i))
				k, err := lock(context.Background(), name, opts...)
				if err != nil {
					if i != cutOff {
						c.gaveUp()
					}
					return
				}
				c.granted(reads)
				time.Sleep(stays)
				c.ends(reads)
				_ = k.Unlock()
			})
		}
		wg.Wait()
	}
	for _, l := range lockers {
		_ = l.Close()
	}
	return sum
}
