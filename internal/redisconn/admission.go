package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A thousand connections that are made at one moment, because a process starts or a server comes back, have not enough
// of the processor for all their handshakes at once: each would exceed its time limit, be given up, and begun again. So
// handshakes with one server take turns, and what is late as the process or the server is busy is not given up.

// maxHandshakes is how many handshakes with one address are under way at a time: enough to keep two cores busy. More of
// them would only make each take longer.
const maxHandshakes = 32

// address is what the connections of this process to one address have in common.
type address struct {
	names   *names        // nil: with a Config.Dial
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

// join returns what the users of an address share, which is own if it is the first of them, until leave.
func (k addressKey) join(own *address) *address {
	addresses.mu.Lock()
	defer addresses.mu.Unlock()
	a := addresses.of[k]
	if a == nil {
		a = own
		addresses.of[k] = a
	}
	a.users++
	return a
}

func (k addressKey) leave(a *address) {
	addresses.mu.Lock()
	a.users--
	last := a.users == 0
	if last {
		delete(addresses.of, k)
	}
	addresses.mu.Unlock()
	if last && a.names != nil {
		a.names.end()
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

// maxSpared is how often a silent connection is excused. That is bounded, since the connection may be half-open.
const maxSpared = 8

// spared decides whether a silent connection is given up.
type spared struct {
	answers uint64 // of the address, when the silence began or was last excused
	times   int    // how often it was excused
}

// excuse reports, and notes, that a silence is excused: this process is late, or the server answers over others.
func (s *spared) excuse(answers uint64, late bool) bool {
	if s.times == maxSpared || !late && answers == s.answers {
		return false
	}
	s.answers = answers
	s.times++
	return true
}

// patience ends an attempt to connect that makes no progress for a while.
type patience struct {
	address *address
	config  *Config // ConnectTimeout is for each step of the attempt
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	over    atomic.Bool

	mu     sync.Mutex // guards the fields below
	due    time.Time  // when the timer fires
	spared spared
}

// begin begins an attempt. The context that it returns is done when the patience is over. The caller must call end.
func (p *patience) begin(ctx context.Context) context.Context {
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = idleTimer(p.check)
	p.next()
	return ctx
}

func (p *patience) answered() {
	p.address.answers.Add(1)
	p.next()
}

// next begins the next step of the attempt: what takes part in the one before must not use up its time.
func (p *patience) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spared = spared{answers: p.address.answers.Load()}
	p.wait()
}

// wait sets the timer. mu is held.
func (p *patience) wait() {
	p.due = p.config.Now().Add(p.config.ConnectTimeout)
	p.timer.Reset(p.config.ConnectTimeout)
}

func (p *patience) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.config.Now().Sub(p.due)
	switch {
	case late < 0: // set again meanwhile
	case p.spared.excuse(p.address.answers.Load(), late >= p.config.lateness()):
		p.wait()
	default:
		p.over.Store(true)
		p.cancel(ErrTimeout)
	}
}

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}
