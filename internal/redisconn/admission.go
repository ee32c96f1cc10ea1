package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
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

func newAddress() *address { return &address{slots: make(chan struct{}, maxHandshakes)} }

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

// maxSpared is how many more time limits a connection gets that is silent while this process runs late, or
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

// patience ends an attempt to connect that makes no progress for a while.
type patience struct {
	address *address
	now     func() time.Time
	limit   time.Duration // for each step of the attempt
	late    time.Duration // a timer that fires so much too late shows that this process was not scheduled
	cause   error         // of the context's end
	cancel  context.CancelCauseFunc
	timer   *time.Timer

	mu     sync.Mutex // guards the fields below
	due    time.Time  // when the timer fires
	spared spared
	over   bool
}

// begin begins an attempt. The context that it returns is done when the patience is over. The caller must call end.
func (p *patience) begin(ctx context.Context) context.Context {
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spared.begin(p.address)
	p.due = p.now().Add(p.limit)
	p.timer = time.AfterFunc(p.limit, p.check)
	return ctx
}

// answered says that the server has answered.
func (p *patience) answered() {
	p.address.answers.Add(1)
	p.next()
}

// next begins the next step of the attempt: what takes part in the one before must not use up its time.
func (p *patience) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spared.begin(p.address)
	p.wait()
}

// wait sets the timer. It is called with mu held.
func (p *patience) wait() {
	p.due = p.now().Add(p.limit)
	p.timer.Reset(p.limit)
}

// check is run by the timer.
func (p *patience) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.now().Sub(p.due)
	switch {
	case late < 0: // set again meanwhile
	case p.spared.excuse(p.address, late >= p.late):
		p.wait()
	default:
		p.over = true
		p.cancel(p.cause)
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

// idleDelay is how much longer to pause if nobody wants the connection: an exponential back-off up to 8 s, with jitter,
// after attempts that met with silence, since such an attempt is expensive, and up to 2 s after others.
func idleDelay(failures int, silence bool) time.Duration {
	limit := min(2*time.Second, 10*time.Millisecond<<min(failures, 10))
	switch {
	case failures == 0: // there was a connection, or no attempt before
		return 0
	case silence:
		limit = min(8*time.Second, 250*time.Millisecond<<min(failures, 10))
	}
	return limit/2 + chance.Duration(limit/2)
}

// reconnectDelay is an exponential back-off up to a second. Its jitter spreads the attempts of many clients.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

// sleep returns after d, or with ctx's error if ctx is done first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
