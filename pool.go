package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// node is one Redis master: the one connection to it, and what says whether its votes count.
type node struct {
	index  int
	conn   *redisconn.Conn
	guard  *guard.Guard
	rules  *guard.Rules
	opts   *options
	tokens *tokens
	events *events
	peers  *peers

	soon  chan struct{} // asks for a probe before its time
	met   atomic.Bool   // the first attempt to connect has ended
	tried chan struct{} // closed then

	mu   sync.Mutex    // guards the fields below
	trip time.Duration // the last round trip
	said string        // the findings that were logged last

	announcing sync.Mutex // guards announced
	announced  EventKind  // the state that the events were told last
}

// addr names the node for people.
func (n *node) addr() string { return n.conn.Addr() }

// peers are the nodes of a Locker, as they see each other.
type peers struct {
	nodes  []*node // set before any is connected
	mu     sync.Mutex
	claims map[string]*node // by run_id and replid: who is connected there; guarded by mu
}

// openNodes reads the URLs, finds those that cannot be a fleet, and begins to connect to all of them.
func openNodes(urls []string, o *options, tk *tokens, e *events) ([]*node, error) {
	p := &peers{claims: make(map[string]*node)}
	first := make(map[string]int)
	for i, url := range urls {
		n := &node{
			index: i, opts: o, tokens: tk, events: e, peers: p,
			soon: make(chan struct{}, 1), tried: make(chan struct{}),
		}
		conn, err := redisconn.New(url, n.connConfig())
		if err != nil {
			return nil, invalid("node %d: %v", i+1, err)
		}
		if j, twice := first[conn.Addr()]; twice {
			return nil, invalid("nodes %d and %d are the same server %s: it would have two votes", j+1, i+1, conn.Addr())
		}
		first[conn.Addr()] = i
		n.conn = conn
		n.rules = o.rules()
		n.guard = guard.New(*n.rules, o.clock.local, n.claim)
		p.nodes = append(p.nodes, n)
	}
	for _, n := range p.nodes {
		n.conn.Start() // until closeNodes
	}
	return p.nodes, nil
}

func (n *node) connConfig() redisconn.Config {
	o := n.opts
	return redisconn.Config{
		Timeout: o.nodeTimeout, ConnectTimeout: o.connectTimeout(), Dial: o.dialer, TLS: o.tls, Now: o.clock.local,
		Scripts: append([]*lua.Script{trim}, scripts...), ExtraKey: o.prefix + tokensName,
		Handshake: n.meet, Lost: n.unclaim, Attend: n.probe, Changed: n.changed, Explain: explained,
	}
}

func (o *options) rules() *guard.Rules {
	return &guard.Rules{
		Period: o.guard, Late: o.connectTimeout(), Prefix: o.prefix,
		WithoutInfo: o.blind, MayEvict: o.evictionAllowed, Durable: o.durable, Explain: explained,
	}
}

// awaitNodes returns when the first attempts to connect have ended, or enough of them. Where a round trip takes long,
// an attempt may go on for longer than anybody is kept waiting for it.
func awaitNodes(nodes []*node, need int, o *options) {
	grace, limit := time.NewTimer(o.nodeTimeout), time.NewTimer(o.connectTimeout())
	defer grace.Stop()
	defer limit.Stop()
	for _, n := range nodes {
		select {
		case <-n.tried:
			continue
		case <-grace.C:
		}
		connected := 0
		for _, m := range nodes {
			if up, _ := m.conn.State(); up {
				connected++
			}
		}
		if connected >= need {
			return
		}
		select {
		case <-n.tried:
		case <-limit.C:
			return
		}
		grace.Reset(0)
	}
}

// closeNodes sees to it that what is to be undone is undone, as far as nodes answer before ctx is done, and closes the
// connections.
func closeNodes(ctx context.Context, nodes []*node) {
	for _, n := range nodes {
		n.conn.Drain(ctx)
	}
	for _, n := range nodes {
		n.conn.Stop()
	}
	for _, n := range nodes {
		n.conn.Close()
	}
}

// errTwice is the part of ErrNodeRefused that New reports itself.
var errTwice = errors.New("the same server as")

// claim refuses a second node at one server.
func (n *node) claim(ids ...string) error {
	p := n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if id == "" {
			continue
		}
		if first := p.claims[id]; first != nil && first != n {
			return fmt.Errorf("%w: %w %s: it would have two votes", ErrNodeRefused, errTwice, first.addr())
		}
		p.claims[id] = n
	}
	return nil
}

// unclaim gives back what n claimed.
func (n *node) unclaim() {
	p := n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, owner := range p.claims {
		if owner == n {
			delete(p.claims, id)
		}
	}
}

// twins returns an error where New was given one server under two addresses.
func twins(nodes []*node) error {
	for _, n := range nodes {
		if _, down := n.conn.State(); errors.Is(down, errTwice) {
			return invalid("node %d: %s: %v", n.index+1, n.addr(), unwrapDown(down))
		}
	}
	return nil
}

// changed is run when the state of the connection has changed.
func (n *node) changed() {
	connected, err := n.conn.State()
	first := !n.met.Swap(true)
	if connected && err != nil {
		n.announce()
	} else {
		n.report()
	}
	if first {
		close(n.tried) // only now: who waits for it wants to know the outcome
	}
}

// meet learns what there is to know of a node that is being connected, and refuses it where it cannot vote.
func (n *node) meet(do redisconn.Do) error {
	// The quickest of three answers: right after a connection was opened, one is often late.
	var asked, now instant
	var micros int64
	for try := range 3 {
		began := n.opts.clock.now()
		told, err := readClock(do([]any{"TIME"}))
		if err != nil {
			return err
		}
		if ended := n.opts.clock.now(); try == 0 || ended.since(began) < now.since(asked) {
			asked, now, micros = began, ended, told
		}
	}
	if err := n.learn(do, true); err != nil {
		return err
	}
	n.measured(micros, asked, now)
	return nil
}

// readClock reads the replies to TIME, in µs since 1970.
func readClock(replies []any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if said, refused := replies[0].(redis.Error); refused {
		return 0, explained(said, "time")
	}
	micros, err := guard.Micros(replies[0])
	if err != nil {
		return 0, fmt.Errorf("TIME: %w", err)
	}
	return micros, nil
}

// learn has the guard ask the node, and takes note of its floor.
func (n *node) learn(do redisconn.Do, fresh bool) error {
	info, err := n.guard.Learn(do, fresh)
	if info != nil {
		n.tokens.Dropped(info.Floor)
	}
	return err
}

// relearn asks a node in use again. An error means that the connection is to be given up, since what was learnt over it
// is void.
func (n *node) relearn(ctx context.Context) error {
	err := n.learn(func(commands ...[]any) ([]any, error) { return n.conn.Do(ctx, commands...) }, false)
	if errors.As(err, new(guard.UnreachableError)) {
		return nil // the connection sees to that
	}
	if err == nil {
		n.report()
	}
	return err
}

// abstention returns why the node abstains from what was asked then, or nil. One that was over by then is lifted.
func (n *node) abstention(asked time.Time) *guard.Abstention {
	a := n.guard.Abstention()
	switch {
	case a == nil:
	case !a.Over(asked):
		return a
	case n.guard.Absolve(a):
		n.announce()
	}
	return nil
}

// abstaining returns why the node's grant of what was asked then would not count, or nil.
func (n *node) abstaining(asked time.Time) error {
	if a := n.guard.Abstention(); a != nil && !a.Over(asked) {
		return abstainError(a, n.opts.clock.local())
	}
	return nil
}

// probeEvery is the pause between a node's probes: its clock is read, and tokens that are older than the retention are
// dropped.
const probeEvery = 10 * time.Second

// probeSoon asks for a probe before its time, for example because the nodes' clocks seem to be off.
func (n *node) probeSoon() {
	select {
	case n.soon <- struct{}{}:
	default:
	}
}

// probe reads the node's clock, looks whether it is still what it was, and trims its tokens, now and then. It ends with
// ctx, or when the connection is to be given up.
func (n *node) probe(ctx context.Context) error {
	for {
		t := time.NewTimer(probeEvery/2 + chance.Duration(probeEvery))
		select {
		case <-t.C:
		case <-n.soon:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
		n.measure(ctx)
		if err := n.relearn(ctx); err != nil {
			return err
		}
		if n.opts.fencing && n.tokens.KnowsMost() { // a floor is not to come from one clock's idea of the time
			n.trim(ctx)
		}
	}
}

var trim = lua.Load("trim")

// trim has the node drop the tokens that are older than the retention, and takes note of its floor.
func (n *node) trim(ctx context.Context) {
	now := n.tokens.time(n.opts.clock.now())
	keys := []string{n.rules.FloorKey(), n.opts.prefix + tokensName}
	told, err := redis.Strings(n.conn.Eval(ctx, trim, keys, now, n.opts.retention.Microseconds()))
	if err == nil && len(told) == 1 {
		floor, _ := token.Parse(told[0]) // none where it is nothing
		n.tokens.Dropped(floor)
	}
}

// measure reads the node's clock.
func (n *node) measure(ctx context.Context) {
	asked := n.opts.clock.now()
	if micros, err := readClock(n.conn.Do(ctx, []any{"TIME"})); err == nil {
		n.measured(micros, asked, n.opts.clock.now())
	}
}

// measureSoon has the node's clock read and does not wait for it.
func (n *node) measureSoon() {
	asked := n.opts.clock.now()
	n.conn.Ask(func(replies []any, err error) {
		if micros, err := readClock(replies, err); err == nil {
			n.measured(micros, asked, n.opts.clock.now())
		}
	}, []any{"TIME"})
}

// measured takes note of a node's clock, and judges the clocks of all by it.
func (n *node) measured(micros int64, asked, now instant) {
	n.tokens.Measured(n.index, micros, n.tokens.micros(asked), n.tokens.micros(now))
	offsets := n.tokens.Offsets()
	leaps, strayed := n.tokens.Leaps()
	for _, m := range n.peers.nodes {
		strayed = m.guard.SetClock(offsets[m.index].Ahead, offsets[m.index].Wrong, leaps[m.index]) || strayed
		m.announce()
	}
	trip := now.local.Sub(asked.local)
	n.mu.Lock()
	n.trip = trip
	n.mu.Unlock()
	n.events.measured(n.addr(), trip, offsets[n.index].Ahead)
	if strayed {
		// It may be the time that went on while this machine was asleep: read all clocks anew. And the record of a node
		// whose clock was set forward is to say so soon.
		for _, m := range n.peers.nodes {
			m.probeSoon()
		}
	}
}
