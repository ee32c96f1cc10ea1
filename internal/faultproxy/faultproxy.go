// Package faultproxy forwards TCP connections to a server, and injects network faults, one direction at a time.
//
// The faults are those that make the two sides disagree. Hold the requests and then pass them: the server executes one
// long after its sender gave up. Drop the answers: the server executes a request, and the client never learns of it.
//
// It knows bytes, connections and time. It must not know what the bytes mean, Redis least of all, nor which test or
// benchmark uses it.
package faultproxy

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/ports"
)

// Direction is one of the two directions of a connection.
type Direction int

// The directions, as seen from the client.
const (
	Up   Direction = iota // requests
	Down                  // answers
)

// fault is what happens to the bytes of one direction.
type fault struct {
	kind  kind
	delay time.Duration // for delayed
}

type kind int

const (
	none    kind = iota
	delayed      // each byte arrives later by the same time; the throughput stays the same
	held         // bytes are kept, in order
	dropped      // bytes are lost; the connection stays open
)

// Proxy forwards connections to one server. Its address never changes. Several goroutines may use it.
type Proxy struct {
	network, target string
	port            ports.Port
	handlers        sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex    // protects the following fields
	listener net.Listener  // nil while connections are refused
	faults   [2]fault      // by Direction
	changed  chan struct{} // closed and replaced when a fault changes or a link ends
	links    map[*link]struct{}
}

// New returns a proxy to the server at target, which is host:port or the path of a unix socket.
func New(target string) (*Proxy, error) {
	p := &Proxy{network: "tcp", target: target, changed: make(chan struct{}), links: map[*link]struct{}{}}
	if strings.HasPrefix(target, "/") {
		p.network = "unix"
	}
	err := ports.Serve(func(port ports.Port) error { p.port = port; return p.Heal() })
	return p, err
}

// Addr returns the address to dial in place of the server's.
func (p *Proxy) Addr() string { return p.port.Addr() }

// Hold keeps the bytes of a direction until Pass or Heal, which forward them.
func (p *Proxy) Hold(d Direction) { p.set(d, fault{kind: held}) }

// Drop discards the bytes of a direction, like a black hole. Pass and Heal reset connections that have lost bytes.
func (p *Proxy) Drop(d Direction) { p.set(d, fault{kind: dropped}) }

// Delay delays the bytes of a direction.
func (p *Proxy) Delay(d Direction, by time.Duration) { p.set(d, fault{kind: delayed, delay: by}) }

// Pass ends the fault of a direction.
func (p *Proxy) Pass(d Direction) { p.set(d, fault{}) }

func (p *Proxy) set(d Direction, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[d] = f
	p.announce()
	if f.kind == dropped {
		return
	}
	for l := range p.links {
		if l.lossy[d] {
			l.end(reset)
		}
	}
}

// announce wakes the pipes that wait for a change. It is called with mu held.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reset resets all connections, as a machine does after a crash and a restart. It accepts new ones.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(reset)
	}
	p.announce()
}

// Refuse resets all connections, and refuses new ones until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close() // an error would change nothing
		p.listener = nil
	}
	p.mu.Unlock()
	p.Reset()
}

// Heal ends all faults, including Refuse.
func (p *Proxy) Heal() error {
	p.Pass(Up)
	p.Pass(Down)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.Addr())
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	p.listener = l
	p.handlers.Go(func() { p.accept(l) })
	return nil
}

// Close ends the proxy and waits for its goroutines.
func (p *Proxy) Close() {
	p.Refuse()
	p.handlers.Wait()
	p.port.Release()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // Refuse or Close
		}
		p.handlers.Go(func() { p.serve(l, client.(*net.TCPConn)) })
	}
}

// serve forwards one connection, which from accepted.
func (p *Proxy) serve(from net.Listener, client *net.TCPConn) {
	server, err := net.DialTimeout(p.network, p.target, 5*time.Second)
	if err != nil {
		abort(client) // the closest to a refused connection, once it is accepted
		return
	}
	l := &link{client: client, server: server, over: make(chan struct{})}
	p.mu.Lock()
	if p.listener != from { // Refuse was called in the meantime
		l.end(reset)
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { p.pipe(l, Up, client, server) })
	both.Go(func() { p.pipe(l, Down, server, client) })
	both.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	l.end(finish)
	delete(p.links, l)
}
