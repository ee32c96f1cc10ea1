package simtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// broken breaks all connections of a client, one right behind the other, and has it make an attempt: then, before its
// request is on its way or while that is, or while it connects again. All nodes are in order, so the attempt succeeds.
func (w *world) broken() {
	if !w.connectsInTime() {
		return
	}
	s := w.scenario
	r := rand.New(rand.NewPCG(s.Seed, 0xb40e))
	for _, c := range w.clients {
		for i := range 4 {
			before := 10*time.Millisecond + 15*s.Delay.Max
			at := time.Duration(r.Int64N(int64(before)))
			if i%2 == 0 {
				at = before + time.Duration(r.Int64N(int64(2*s.Delay.Max)))
			}
			var breaking sync.WaitGroup
			breaking.Go(func() {
				time.Sleep(at)
				w.reset(c)
			})
			time.Sleep(before + 1)
			lock, err := c.locker.Load().TryLock(context.Background(), fmt.Sprintf("broken:%d", i))
			breaking.Wait()
			if err != nil {
				w.blame("one attempt", "%s: its connections were broken %v before its attempt, and all nodes are in order: %v",
					c.name, before-at, err)
				continue
			}
			time.Sleep(before) // the rest connects
			_ = lock.Unlock()
			w.quiet()
		}
	}
}

// connectsInTime reports whether an attempt can wait for new connections, for pauses and round trips: of the TTL,
// enough must be left then.
func (w *world) connectsInTime() bool {
	connects := 20*time.Millisecond + 30*w.scenario.Delay.SlowMax
	return w.scenario.Timeout >= connects && w.scenario.TTL >= 2*connects
}

func (w *world) reset(c *client) {
	for _, n := range w.nodes { // not at one instant, which no replay orders
		w.net.Reset(sim.Link{Client: c.name, Node: n.Addr()})
		time.Sleep(time.Microsecond)
	}
}

// expire lets the nodes' tokens expire, and breaks the connections of a client that may wait for new ones: what it
// sends next writes the first token.
func (w *world) expire(c *client) {
	if w.connectsInTime() {
		time.Sleep(3 * time.Minute) // the retention, and the longest interval between the checks of an idle client
		w.reset(c)
	}
}

// credentials are what a client is given at each attempt to connect: late, or not at all, until the last fault.
type credentials struct {
	*world
	client string

	mu    sync.Mutex // guards asked
	asked map[string]int
}

var errNoCredentials = errors.New("no credentials")

func (c *credentials) get(ctx context.Context, node string) (user, password string, err error) {
	c.mu.Lock()
	c.asked[node]++
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, c.scenario.Seed, c.client, node, c.asked[node])
	c.mu.Unlock()
	r := rand.New(rand.NewPCG(h.Sum64(), 0xc4ed))
	if time.Now().After(c.ending) {
		return "", "", nil
	}
	if !lasts(time.Duration(r.Int64N(int64(c.scenario.Login))), ctx.Done()) {
		return "", "", ctx.Err()
	}
	if r.IntN(8) == 0 {
		err = errNoCredentials
	}
	return "", "", err
}

// login returns the option that a client of the scenario has for that, if it has one.
func (w *world) login(client string) (opts []redlock.Option) {
	if w.scenario.Login > 0 {
		c := &credentials{world: w, client: client, asked: map[string]int{}}
		opts = append(opts, redlock.WithNodeConfig(redlock.NodeConfig{Credentials: c.get}))
	}
	return opts
}

// refusal is a node that refuses a command, also within scripts, whose writes before it stay.
var refusal = fault{"refused", harmless, func(f *faults) (string, func()) {
	n := f.node()
	command := refusable[f.r.IntN(len(refusable))]
	if f.r.IntN(3) == 0 {
		times := 1 + f.r.IntN(10)
		n.Fail(command, "NOREPLICAS Not enough good replicas to write.", times)
		return fmt.Sprintf("%s %s %d times", n.Addr(), command, times), n.Recover
	}
	n.Deny(command)
	return fmt.Sprintf("%s %s", n.Addr(), command), func() { n.Deny() }
}}

var refusable = []string{"evalsha", "set", "zadd", "zrem", "del", "pexpire", "publish", "script", "time", "info"}

// refuse adds, in some scenarios, credentials that are slow or missing, and in some nodes that refuse commands. It
// draws apart, so that the rest of a seed stays what it was.
func (s *Scenario) refuse(row set) {
	r := rand.New(rand.NewPCG(s.Seed, 0x4ef05e))
	if row.has(Login) {
		s.Login = scaled(s.Timeout, r, 1./8, 1)
	}
	if row.has(total - 1) {
		for range 1 + r.IntN(3) {
			s.Faults = append(s.Faults, refusal)
		}
	}
}
