package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A thousand connections of one process that are made at one moment, because it starts or because a server comes back,
// have not enough of the processor for all their handshakes at once. Each would take longer than its time limit, would
// be given up, and begun again: then none is ever complete. So handshakes with one server take turns, and what is late
// because the process or the server has too much to do is not given up.

// maxHandshakes is how many handshakes with one address a process has under way at a time. They are enough to keep two
// cores busy; more of them would only make each take longer.
const maxHandshakes = 32

// address is what the connections of this process to one address have in common.
type address struct {
	slots   chan struct{} // has a value for each handshake under way; the runtime serves senders in order
	answers atomic.Uint64 // how often the server has sent something, over whichever connection
	users   int           // the Conns that are started; guarded by addresses.mu
}

// addressKey identifies an address. The same text means another server where another function dials.
type addressKey struct {
	dial             any
	network, address string
}

// addresses has the addresses to which this process connects, for as long as it does.
var addresses = struct {
	mu sync.Mutex
	of map[addressKey]*address
}{of: make(map[addressKey]*address)}

func newAddress() *address { return &address{slots: make(chan struct{}, maxHandshakes)} }

// addressKey returns the key of the Conn's address; shared is false if no other Conn can have the same.
func (c *Conn) addressKey() (key addressKey, shared bool) {
	shared = c.config.Dial == nil || c.config.DialID != nil
	return addressKey{c.config.DialID, c.server.network, c.server.address}, shared
}

// joinAddress makes the Conn share what there is about its address, until leaveAddress.
func (c *Conn) joinAddress() {
	key, shared := c.addressKey()
	if !shared {
		return
	}
	addresses.mu.Lock()
	defer addresses.mu.Unlock()
	if other := addresses.of[key]; other != nil {
		c.address = other
	} else {
		addresses.of[key] = c.address
	}
	c.address.users++
}

func (c *Conn) leaveAddress() {
	key, shared := c.addressKey()
	if !shared {
		return
	}
	addresses.mu.Lock()
	defer addresses.mu.Unlock()
	if c.address.users--; c.address.users == 0 {
		delete(addresses.of, key)
	}
}

// admit waits for a handshake's turn. The caller must call dismiss after it.
func (a *address) admit(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *address) dismiss() { <-a.slots }

// maxSpared is how many more times the ConnectTimeout a connection gets that is silent while this process runs late, or
// while the server answers over others. It is bounded, since the one connection may be half-open.
const maxSpared = 8

// spared decides whether a silent connection is given up.
type spared struct {
	answers uint64 // of the address, when the silence began or was last excused
	times   int    // how often it was excused
}

// begin notes that the connection is not silent, or that its silence begins.
func (s *spared) begin(a *address) { *s = spared{answers: a.answers.Load()} }

// excuse reports whether the silence has a reason other than the server and the network between, and notes it.
func (s *spared) excuse(a *address, late bool) bool {
	answers := a.answers.Load()
	if s.times == maxSpared || !late && answers == s.answers {
		return false
	}
	s.answers = answers
	s.times++
	return true
}

// patience ends an attempt to connect that makes no progress for the ConnectTimeout.
type patience struct {
	conn   *Conn
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu     sync.Mutex // guards the fields below
	due    time.Time  // when the timer fires
	spared spared
	over   bool
}

// newPatience begins an attempt to connect. The context that it returns is done, with ErrTimeout as its cause, when the
// patience is over. The caller must call end.
func (c *Conn) newPatience(ctx context.Context) (context.Context, *patience) {
	p := &patience{conn: c}
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = idleTimer(p.check)
	p.progress()
	return ctx, p
}

// progress says that the server has answered, or that the attempt begins.
func (p *patience) progress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spared.begin(p.conn.address)
	p.wait()
}

// answered says that the server has answered.
func (p *patience) answered() {
	p.conn.address.answers.Add(1)
	p.progress()
}

// wait sets the timer. It is called with mu held.
func (p *patience) wait() {
	p.due = p.conn.config.Now().Add(p.conn.config.ConnectTimeout)
	p.timer.Reset(p.conn.config.ConnectTimeout)
}

// check is run by the timer.
func (p *patience) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.conn.config.Now().Sub(p.due)
	switch {
	case late < 0: // set again meanwhile
	case p.spared.excuse(p.conn.address, p.conn.isLate(late)):
		p.wait()
	default:
		p.over = true
		p.cancel(ErrTimeout)
	}
}

func (p *patience) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// isLate reports whether a timer that fired so much too late shows that this process was not scheduled.
func (c *Conn) isLate(by time.Duration) bool { return by >= c.config.Timeout/8 }
