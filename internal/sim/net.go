package sim

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Dir is a direction of a link.
type Dir uint8

// The directions; Both is their union.
const (
	Up   Dir = 1 << iota // from the client to the node
	Down                 // from the node to the client
	Both = Up | Down
)

// Link names one client and one node, or many: an empty field means any.
type Link struct{ Client, Node string }

// covers reports whether every link that m means is meant by l.
func (l Link) covers(m Link) bool {
	return (l.Client == "" || l.Client == m.Client) && (l.Node == "" || l.Node == m.Node)
}

// A Network connects clients to nodes. All methods may be called from any goroutine of the bubble.
type Network struct {
	seed uint64

	mu      sync.Mutex // protects the following fields
	nodes   map[string]*Node
	links   []*wire         // open connections, in the order of their dialling
	rules   []rule          // the faults in force
	dials   map[Link]uint64 // number of dials so far: a connection's identity is its link and this number
	changed chan struct{}   // closed and replaced when a rule changes

	// Locks are taken in the order Network.mu, Node.mu, pipe.mu, delayMu; the last is a leaf because pipes ask for delays.
	delayMu sync.Mutex
	delays  []delayRule // guarded by delayMu; the last that covers a link wins
}

type ruleKind uint8

const (
	ruleHold ruleKind = iota
	ruleDrop
	ruleRefuse
)

type rule struct {
	link Link
	dir  Dir
	kind ruleKind
}

// wire is one open connection as the network sees it.
type wire struct {
	link           Link
	client, server *Conn
}

// NewNetwork returns a network in which every link has the delay LAN and no fault.
func NewNetwork(seed uint64) *Network {
	return &Network{
		seed: mix(seed, 0x6e6574), nodes: map[string]*Node{}, dials: map[Link]uint64{}, changed: make(chan struct{}),
	}
}

// Attach makes the node reachable at its address.
func (nw *Network) Attach(nodes ...*Node) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	for _, n := range nodes {
		nw.nodes[n.Addr()] = n
	}
}

// Dialer returns the dial function of one client, in the form of net.Dialer.DialContext.
func (nw *Network) Dialer(client string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return nw.Dial(ctx, client, address) }
}

// Dial opens a connection. It takes a round trip; it waits while the link drops or holds, and fails while it refuses or
// the node is down. A paused node accepts, as a kernel does for a stopped process.
func (nw *Network) Dial(ctx context.Context, client, address string) (net.Conn, error) {
	link := Link{client, address}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
	}
	nw.mu.Lock()
	nw.dials[link]++
	id := mix(mix(nw.seed, hash(client)), mix(hash(address), nw.dials[link]))
	nw.mu.Unlock()
	for {
		nw.mu.Lock()
		node := nw.nodes[address]
		stuck := nw.ruled(link, Both, ruleHold) || nw.ruled(link, Both, ruleDrop)
		changed := nw.changed
		nw.mu.Unlock()
		if node == nil {
			return fail(fmt.Errorf("lookup %s: no such node", address))
		}
		if !stuck {
			now := time.Now()
			timer := time.NewTimer(nw.delay(link, Up, mix(id, 11), now) + nw.delay(link, Down, mix(id, 12), now))
			select {
			case <-ctx.Done():
				timer.Stop()
				return fail(ctx.Err())
			case <-timer.C:
			}
			if conn, ok := nw.connect(link, id, node); ok {
				return conn, nil
			}
			return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		}
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-changed:
		}
	}
}

// connect makes the two ends and gives one to the node. It reports false when the connection is refused.
func (nw *Network) connect(link Link, id uint64, node *Node) (*Conn, bool) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.ruled(link, Both, ruleRefuse) {
		return nil, false
	}
	up := newPipe(func(now time.Time) time.Duration { return nw.delay(link, Up, mix(id, 1), now) })
	down := newPipe(func(now time.Time) time.Duration { return nw.delay(link, Down, mix(id, 2), now) })
	w := &wire{link: link}
	w.client = &Conn{in: down, out: up, local: addr(link.Client), remote: addr(link.Node)}
	w.server = &Conn{in: up, out: down, local: addr(link.Node), remote: addr(link.Client)}
	for _, r := range nw.rules {
		if r.link.covers(link) {
			w.apply(r)
		}
	}
	if !node.accept(w.server, link.Client, id) {
		return nil, false
	}
	nw.prune()
	nw.links = append(nw.links, w)
	return w.client, true
}

// prune forgets connections that both ends have left. Caller holds mu.
func (nw *Network) prune() {
	nw.links = slices.DeleteFunc(nw.links, func(w *wire) bool { return w.client.isClosed() && w.server.isClosed() })
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (nw *Network) ruled(link Link, dir Dir, kind ruleKind) bool {
	return slices.ContainsFunc(nw.rules, func(r rule) bool {
		return r.kind == kind && r.dir&dir != 0 && r.link.covers(link)
	})
}
