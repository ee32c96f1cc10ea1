package redlocktest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// node is one address, and whatever life runs at it now.
type node struct {
	addr  string // set by the first start, then constant
	clock *skewedClock

	mu  sync.Mutex // guards now, and makes start, kill and revive exclude each other
	now *life      // nil while the node is down
}

func (n *node) start(born time.Time) error {
	addr := n.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := listen(addr)
	if err != nil {
		return err
	}
	n.addr = ln.Addr().String()
	n.now, err = begin(ln, n.clock, born)
	return err
}

// listen binds addr. A revived node's port was free to all in the meantime, and may be some connection's
// local port for a moment.
func listen(addr string) (net.Listener, error) {
	const patience = 2 * time.Second
	var lc net.ListenConfig
	for deadline := time.Now().Add(patience); ; {
		ln, err := lc.Listen(context.Background(), "tcp", addr)
		if err == nil || time.Now().After(deadline) {
			return ln, err
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil {
		n.now.end()
		n.now = nil
	}
}

func (n *node) revive() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil {
		return nil
	}
	return n.start(n.clock.now())
}

func (n *node) pause(on bool) {
	n.with(func(l *life) { l.gate.set(!on) })
}

func (n *node) empty() {
	n.with(func(l *life) { l.store.FlushAll() })
}

func (n *node) fastForward(d time.Duration) {
	n.with(func(l *life) { l.store.FastForward(d) })
}

func (n *node) state() State {
	s := Down
	n.with(func(l *life) {
		s = Up
		if !l.gate.isOpen() {
			s = Paused
		}
	})
	return s
}

func (n *node) with(f func(*life)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil {
		f(n.now)
	}
}

// life is a node between a start and a crash. Each has a store of its own: requests that the old life had
// already read may still run after the crash, but into a store that nobody will ever see. (miniredis' own
// Close and Restart keep the data; and its Close, under load, leaves running scripts without a server.)
type life struct {
	store *miniredis.Miniredis
	ln    net.Listener
	gate  gate
	id    identity

	accepting sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

func begin(ln net.Listener, clock *skewedClock, born time.Time) (*life, error) {
	l := &life{
		store: miniredis.NewMiniRedis(),
		ln:    ln,
		conns: map[*conn]struct{}{},
		id:    newIdentity(ln.Addr().String(), clock, born),
	}
	// Dial is how a miniredis is started without a listener of its own.
	first, err := l.store.Dial()
	if err != nil {
		ln.Close()
		return nil, err
	}
	first.Close()
	// TTLs follow the clock by themselves: exact to the command, and no goroutine has to push them.
	l.store.ClockTTL(true)
	if err := l.id.install(l.store); err != nil {
		ln.Close()
		l.store.Close()
		return nil, fmt.Errorf("commands that miniredis lacks: %w", err)
	}
	l.accepting.Go(l.accept)
	return l, nil
}

// accept runs until the listener is closed.
func (l *life) accept() {
	srv := l.store.Server()
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return
		}
		gated := &conn{Conn: c, life: l, closed: make(chan struct{})}
		l.mu.Lock()
		l.conns[gated] = struct{}{}
		l.mu.Unlock()
		srv.ServeConn(gated)
	}
}

// end crashes the node and returns when none of its goroutines is left.
func (l *life) end() {
	l.ln.Close()
	l.accepting.Wait() // no connection is added from here on
	l.mu.Lock()
	open := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	l.store.CtxCancel()      // frees blocking commands
	l.store.Server().Close() // waits for the connections' goroutines
}

// conn is a client's connection, behind the node's gate.
type conn struct {
	net.Conn
	life   *life
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Read gives the server what the client sent, but only while the gate is open: a paused node leaves
// requests where they are.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.life.gate.pass(c.closed) {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write withholds answers while the gate is closed.
func (c *conn) Write(p []byte) (int, error) {
	if !c.life.gate.pass(c.closed) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		c.life.mu.Lock()
		delete(c.life.conns, c)
		c.life.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}

// gate lets goroutines pass, but not while it is shut.
type gate struct {
	mu   sync.Mutex    // guards shut
	shut chan struct{} // closed when the gate opens again; nil while it is open
}

func (g *gate) isOpen() bool { return g.waitFor() == nil }

func (g *gate) waitFor() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case open && g.shut != nil:
		close(g.shut)
		g.shut = nil
	case !open && g.shut == nil:
		g.shut = make(chan struct{})
	}
}

// pass waits for the gate and reports true, or false when given up first.
func (g *gate) pass(givenUp <-chan struct{}) bool {
	if opens := g.waitFor(); opens != nil {
		select {
		case <-opens:
		case <-givenUp:
		}
	}
	select {
	case <-givenUp:
		return false
	default:
		return true
	}
}
