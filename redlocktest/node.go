package redlocktest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/redlock/internal/ports"
)

// node is one address, and whatever life runs at it now.
type node struct {
	addr     string // set by the first start, then constant, or that of a node without a port
	portless bool   // connected by Dial alone
	release  func() // gives the port back; nil: there is none
	clock    *skewedClock

	mu  sync.Mutex // guards now, and makes start, kill and revive exclude each other
	now *life      // nil while the node is down
}

func (n *node) start(born time.Time) (err error) {
	if n.portless {
		n.now, err = begin(n.addr, nil, n.clock, born)
		return err
	}
	if n.release != nil {
		return n.serve(born)
	}
	return ports.Serve(func(p ports.Port) error {
		n.addr, n.release = p.Addr(), p.Release
		return n.serve(born)
	})
}

func (n *node) serve(born time.Time) error {
	ln, err := listen(n.addr)
	if err == nil {
		n.now, err = begin(n.addr, ln, n.clock, born)
	}
	return err
}

// listen binds addr. Where ports cannot be reserved, a revived node's was free to all in the meantime, and may be some
// connection's local port for a moment.
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
	ln    net.Listener // nil: none
	gate  gate
	id    identity

	accepting sync.WaitGroup
	inboxes   sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

func begin(addr string, ln net.Listener, clock *skewedClock, born time.Time) (l *life, err error) {
	defer func() {
		if err != nil && ln != nil {
			ln.Close()
		}
	}()
	l = &life{
		store: miniredis.NewMiniRedis(),
		ln:    ln,
		conns: map[*conn]struct{}{},
		id:    newIdentity(addr, clock, born),
	}
	// Dial is how a miniredis is started without a listener of its own.
	first, err := l.store.Dial()
	if err != nil {
		return nil, err
	}
	first.Close()
	// TTLs follow the clock by themselves: exact to the command, and no goroutine has to push them.
	l.store.ClockTTL(true)
	if err := l.id.install(l.store); err != nil {
		l.store.Close()
		return nil, fmt.Errorf("commands that miniredis lacks: %w", err)
	}
	if ln != nil {
		l.accepting.Go(l.accept)
	}
	return l, nil
}

// accept runs until the listener is closed.
func (l *life) accept() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return
		}
		l.serve(c)
	}
}

func (l *life) serve(c net.Conn) *conn {
	gated := &conn{Conn: c, life: l, closed: make(chan struct{})}
	l.mu.Lock()
	l.conns[gated] = struct{}{}
	l.mu.Unlock()
	unenforced(func() { l.store.Server().ServeConn(gated) })
	return gated
}

// connect returns the client's end of a connection without sockets.
func (l *life) connect() net.Conn {
	ours, theirs := net.Pipe()
	in := &inbox{Conn: ours, chunks: make(chan []byte, 1<<12)}
	gated := l.serve(in)
	l.inboxes.Go(func() { in.fill(gated.closed) })
	return theirs
}

// inbox keeps what a client sends until the server reads it, as a socket's buffer does: a pipe has none, and a client
// of a paused node would wait in its write.
type inbox struct {
	net.Conn
	chunks chan []byte
	rest   []byte // of the chunk that is being read
}

func (c *inbox) fill(closed <-chan struct{}) {
	defer close(c.chunks)
	for {
		b := make([]byte, 1<<12)
		n, err := c.Conn.Read(b)
		if err != nil {
			return
		}
		select {
		case c.chunks <- b[:n]:
		case <-closed:
			return
		}
	}
}

func (c *inbox) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		chunk, ok := <-c.chunks
		if !ok {
			return 0, io.EOF
		}
		c.rest = chunk
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// end crashes the node and returns when none of its goroutines is left.
func (l *life) end() {
	if l.ln != nil {
		l.ln.Close()
		l.accepting.Wait() // no connection is added from here on
	}
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
	l.inboxes.Wait()
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
