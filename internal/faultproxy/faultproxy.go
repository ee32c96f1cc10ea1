// Package faultproxy stands between a client and a server and breaks the network between them, one direction at a time.
//
// The faults are those in which the two sides come to disagree. Hold and then release the upstream, and a request is
// carried out long after its sender gave up. Drop the downstream, and it is carried out and nobody learns of it.
//
// It knows bytes, connections and time. It must not know what the bytes mean,
// Redis least of all, nor which test or benchmark it stands in.
package faultproxy

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/ports"
)

// Direction is one of the two ways that bytes go.
type Direction int

// The directions, seen from the client.
const (
	Up   Direction = iota // requests
	Down                  // answers
)

// treatment is what happens to the bytes of one direction.
type treatment struct {
	kind  kind
	delay time.Duration // for delayed
}

type kind int

const (
	passed  kind = iota
	delayed      // each byte comes later by the same time; the throughput stays
	held         // bytes are kept, in order
	dropped      // bytes are lost, the connection stays open
)

// Proxy forwards connections to one server. Its address never changes. It may be used by several goroutines.
type Proxy struct {
	network, target string
	port            ports.Port
	handlers        sync.WaitGroup // everything that the proxy has started

	mu         sync.Mutex    // protects the following fields
	listener   net.Listener  // nil while connections are refused
	treatments [2]treatment  // by Direction
	changed    chan struct{} // closed and replaced when a treatment changes or a link ends
	links      map[*link]struct{}
}

// New returns a proxy for the server at target, host:port or the path of a unix socket.
func New(target string) (*Proxy, error) {
	p := &Proxy{network: "tcp", target: target, changed: make(chan struct{}), links: map[*link]struct{}{}}
	if strings.HasPrefix(target, "/") {
		p.network = "unix"
	}
	err := ports.Serve(func(port ports.Port) error { p.port = port; return p.Heal() })
	return p, err
}

// Addr returns the address to dial instead of the server's.
func (p *Proxy) Addr() string { return p.port.Addr() }

// Hold keeps the bytes of a direction until Pass or Heal, which sends them on.
func (p *Proxy) Hold(d Direction) { p.treat(d, treatment{kind: held}) }

// Drop loses the bytes of a direction: a black hole. A connection that has lost
// some is of no use any more; Pass and Heal reset it.
func (p *Proxy) Drop(d Direction) { p.treat(d, treatment{kind: dropped}) }

// Delay makes the bytes of a direction come later.
func (p *Proxy) Delay(d Direction, by time.Duration) { p.treat(d, treatment{kind: delayed, delay: by}) }

// Pass ends what was done to a direction.
func (p *Proxy) Pass(d Direction) { p.treat(d, treatment{}) }

func (p *Proxy) treat(d Direction, t treatment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.treatments[d] = t
	p.announce()
	if t.kind == dropped {
		return
	}
	for l := range p.links {
		if l.lossy[d] {
			l.end(reset)
		}
	}
}

// announce wakes the pipes to look at their treatment again; p.mu is held.
func (p *Proxy) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut closes every connection, as a server does that says goodbye. New ones are welcome.
func (p *Proxy) Cut() { p.endAll(finish) }

// Reset aborts every connection, as a crashed machine does once it is back. New ones are welcome.
func (p *Proxy) Reset() { p.endAll(reset) }

// Refuse resets every connection and refuses new ones until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close() // nothing to be done about an error
		p.listener = nil
	}
	p.mu.Unlock()
	p.endAll(reset)
}

func (p *Proxy) endAll(how ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(how)
	}
	p.announce()
}

// Heal ends all faults.
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

// Close ends the proxy and returns when nothing of it runs any more.
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

// serve carries one connection.
func (p *Proxy) serve(from net.Listener, client *net.TCPConn) {
	server, err := net.DialTimeout(p.network, p.target, 5*time.Second)
	if err != nil {
		abort(client) // as near to a refused connection as an accepted one can be
		return
	}
	l := &link{client: client, server: server, over: make(chan struct{})}
	p.mu.Lock()
	if p.listener != from { // refused in the meantime
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
