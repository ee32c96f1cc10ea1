// Package redlocktest runs independent Redis masters inside the test process, so that code which holds
// locks can be tried against nodes that die, hang, forget and come back. Nothing needs to be installed.
//
//	masters := redlocktest.New(t, 5)
//	locker, err := redlock.New(masters.URLs())
//	…
//	masters.Kill(0, 1, 2) // what does my code do when its hold is lost?
//
// The nodes are miniredis servers on loopback ports: real connections, real pipelining, Lua included.
// Time-outs and expiry run in real time, or with [NewInBubble] in the virtual time of testing/synctest, where a test
// waits for nothing. It is not a Redis: use real masters to measure, or to test persistence.
package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
)

// State is what a node is doing.
type State int

// A node starts Up. Kill makes it Down, Pause makes it Paused, Revive and Resume make it Up again.
const (
	Down   State = iota // connections were dropped, the port refuses, all data is gone
	Up                  // answering
	Paused              // connections open, requests kept in their buffers, answers withheld
)

// String returns the state in a word.
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Paused:
		return "paused"
	case Down:
		return "down"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Cluster is a set of independent masters, numbered from 0. Its methods may be called from any goroutine.
// A node number that does not exist panics, like an index out of range.
type Cluster struct {
	nodes []*node
	clock *skewedClock
}

// New starts n masters and stops them when the test ends.
func New(t testing.TB, n int) *Cluster {
	t.Helper()
	c, err := Start(n)
	if err != nil {
		t.Fatalf("redlocktest: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// NewInBubble is New for a test in a bubble of testing/synctest. There, whatever waits for a socket keeps the time from
// passing, so these masters have no ports: give Lockers [Cluster.Dial]. All of the process do without the clock that
// counts suspensions of the machine from then on.
//
//	synctest.Test(t, func(t *testing.T) {
//		masters := redlocktest.NewInBubble(t, 5)
//		inside := redlock.WithNodeConfig(redlock.NodeConfig{Dial: masters.Dial})
//		locker, err := redlock.New(masters.URLs(), inside)
//		…
//	})
func NewInBubble(t testing.TB, n int) *Cluster {
	t.Helper()
	boottime.Disable()
	c, err := start(n, true)
	if err != nil {
		t.Fatalf("redlocktest: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Start starts n masters outside a test. The caller closes the Cluster.
func Start(n int) (*Cluster, error) { return start(n, false) }

func start(n int, portless bool) (*Cluster, error) {
	if n < 1 {
		return nil, fmt.Errorf("a cluster of %d masters: at least one is needed", n)
	}
	c := &Cluster{clock: &skewedClock{}}
	for i := range n {
		nd := &node{clock: c.clock, portless: portless}
		if portless {
			nd.addr = fmt.Sprintf("master-%d:6379", i)
		}
		// The first start is backdated: a node that has just started has no proven past, and would have to
		// abstain from every vote of a test that has no interest in restarts.
		if err := nd.start(c.clock.now().Add(-24 * time.Hour)); err != nil {
			c.Close()
			return nil, fmt.Errorf("master %d of %d: %w", i+1, n, err)
		}
		c.nodes = append(c.nodes, nd)
	}
	return c, nil
}

// Close stops every node and waits until nothing of them is running.
func (c *Cluster) Close() {
	for _, nd := range c.nodes {
		nd.kill()
		if nd.release != nil {
			nd.release()
		}
	}
}

// Len is the number of nodes, dead ones included.
func (c *Cluster) Len() int { return len(c.nodes) }

// URLs returns one redis:// URL for each node. They stay the same for the life of the Cluster.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, nd := range c.nodes {
		urls[i] = "redis://" + nd.addr
	}
	return urls
}

// Dial connects to a node without sockets: see [NewInBubble].
func (c *Cluster) Dial(_ context.Context, network, address string) (net.Conn, error) {
	refused := error(syscall.ECONNREFUSED)
	for _, nd := range c.nodes {
		if nd.addr == address {
			var conn net.Conn
			nd.with(func(l *life) { conn, refused = l.connect(), nil })
			if refused == nil {
				return conn, nil
			}
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", refused)}
}

// Addr returns host:port of a node.
func (c *Cluster) Addr(node int) string { return c.nodes[node].addr }

// State says what a node is doing.
func (c *Cluster) State(node int) State { return c.nodes[node].state() }

// Kill crashes nodes: connections drop, the port refuses, and everything they knew is lost, also what was
// on its way to them. Killing a dead node does nothing. On Linux, no other process gets the port before Close.
func (c *Cluster) Kill(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].kill()
	}
}

// Revive starts killed nodes again at their old addresses, empty, with a new run_id and master_replid and an
// uptime of zero: to a Locker they are restarted masters. Reviving a node that is up does nothing.
// The error says that an address could not be bound again; the other nodes are revived all the same.
func (c *Cluster) Revive(nodes ...int) error {
	var errs []error
	for _, i := range nodes {
		if err := c.nodes[i].revive(); err != nil {
			errs = append(errs, fmt.Errorf("revive node %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Pause makes nodes hang, as SIGSTOP does: they can still be connected to, and nothing is answered. Requests
// wait and are carried out after Resume, even if whoever sent them has gone. A dead node stays dead.
func (c *Cluster) Pause(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].pause(true)
	}
}

// Resume ends a Pause.
func (c *Cluster) Resume(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].pause(false)
	}
}

// Empty removes all keys from nodes that go on running (FLUSHALL).
func (c *Cluster) Empty(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].empty()
	}
}

// FastForward lets d pass on all nodes, and nowhere else: keys expire, TIME and the uptime move on.
// The nodes' clocks stay ahead of the process's by d from then on. A Locker that notices does not count a node's vote
// for its longest TTL, since keys expired early; one with redlock.NodeConfig.NoRestartGuard does.
func (c *Cluster) FastForward(d time.Duration) {
	c.clock.advance(d)
	for _, nd := range c.nodes {
		nd.fastForward(d)
	}
}

// skewedClock is the nodes' common clock: the process's, plus what FastForward added.
type skewedClock struct {
	mu    sync.Mutex // guards ahead
	ahead time.Duration
}

func (k *skewedClock) now() time.Time { return time.Now().Add(k.skew()) }

func (k *skewedClock) skew() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ahead
}

func (k *skewedClock) advance(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ahead += d
}
