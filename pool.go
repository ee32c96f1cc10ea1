package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
	"github.com/quorumlock/redlock/internal/token"
)

// node is one Redis master: the connection to it, and the guard that decides whether its votes count.
type node struct {
	index  int
	conn   *redisconn.Conn
	guard  *guard.Guard
	rules  *guard.Rules
	opts   *options
	tokens *tokens
	events *events
	peers  *peers

	// What the node said when Nodes was called last.
	trial       atomic.Pointer[tried]    // nil: it was not called
	idleTimeout atomic.Int64             // after how many seconds it closes an idle connection; 0: never, or unknown
	odd         atomic.Pointer[oddReply] // the last one over this connection, until that command has its usual reply

	attempted    atomic.Bool   // the first attempt to connect has ended
	firstAttempt chan struct{} // closed after the outcome of the first attempt was announced

	mu        sync.Mutex    // guards the fields below
	roundTrip time.Duration // of the last reading of the node's clock

	reporting atomic.Bool // report was called, and the findings have not been looked at since

	announcing sync.Mutex // guards announced
	announced  EventKind  // the state in the last event
}

// addr returns the node's address without user and password.
func (n *node) addr() string { return n.conn.Addr() }

// membership says in which list the node is.
func (n *node) membership() Membership { return membershipOf(n.peers.electorate, n.index) }

// oddReply says that a reply was not of the kind that its command has.
type oddReply struct {
	command string
	err     error
}

// tried is what trial found.
type tried struct {
	largest    int64       // the largest token that the node knows; 0: unknown
	refusal    *ReplyError // nil: scripts may do all
	undeclared bool        // the refusal: scripts may not use keys that they do not declare
}

// heard notes whether the node's reply to a command was of its kind. err: why the command failed, or nil.
func (n *node) heard(command string, err error) {
	switch odd := n.odd.Load(); {
	case errors.As(err, new(resp.UnexpectedError)):
		n.odd.Store(&oddReply{command, err})
	case err == nil && odd != nil && odd.command == command:
		n.odd.CompareAndSwap(odd, nil)
	}
}

// peers is what the nodes of one Locker share.
type peers struct {
	nodes      []*node // set before any is connected, as are the next two
	electorate *quorum.Electorate
	agreement  *agreement.Agreement // with other clients
	states     states

	connecting sync.Mutex  // guards connected
	connected  quorum.Set  // the nodes that are
	enough     atomic.Bool // connected has a majority of each list

	busy      func() bool  // whether the Locker has calls in flight, or holds
	holds     func() bool  // whether it has holds
	trimmedAt atomic.Int64 // when trim sent its last calls, in µs of tokens.micros; 0: a node may have missed them
	proposed  atomic.Bool  // whether a token was proposed

	mu     sync.Mutex
	claims map[string]*node // by run_id and replid: the node that is connected to that server; guarded by mu
}

// states tells everybody who waits for it that the state of a node has changed.
type states struct {
	mu      sync.Mutex    // guards changed; nothing is locked while it is held
	changed chan struct{} // closed by the next change; nil: nobody waits
}

// next returns a channel that the next change closes.
func (s *states) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// change wakes those who wait.
func (s *states) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// newNodes makes the nodes of the lists, which are URLs, and refuses duplicates within a list. A node that is in both
// lists is made once.
func newNodes(urls [][]string, o *options) (*peers, *quorum.Electorate, error) {
	p := &peers{claims: make(map[string]*node)}
	in := [...]string{"", " of the new list"} // for errors
	first := make(map[string]*node)
	var lists []quorum.Set
	for which, list := range urls {
		switch {
		case len(list) == 0:
			return nil, nil, invalid("no nodes%s", in[which])
		case len(list) > quorum.MaxNodes:
			return nil, nil, invalid("%d nodes%s: at most %d", len(list), in[which], quorum.MaxNodes)
		}
		var nodes quorum.Set
		place := make(map[*node]int)
		for i, url := range list {
			n := &node{index: len(p.nodes), opts: o, peers: p, firstAttempt: make(chan struct{})}
			var err error
			if n.conn, err = redisconn.New(url, n.connConfig()); err != nil {
				return nil, nil, invalid("node %d%s: %v", i+1, in[which], err)
			}
			switch known := first[n.addr()]; {
			case known == nil:
				first[n.addr()] = n
				p.nodes = append(p.nodes, n)
			case nodes.Has(known.index):
				return nil, nil, invalid("nodes %d and %d%s are the same server %s: it would have two votes",
					place[known], i+1, in[which], n.addr())
			case !n.conn.SameURL(known.conn):
				return nil, nil, invalid("the server %s is in both lists with different URLs: give both the same", n.addr())
			default:
				n = known
			}
			nodes, place[n] = nodes.With(n.index), i+1
		}
		lists = append(lists, nodes)
	}
	switch {
	case len(p.nodes) > quorum.MaxNodes:
		return nil, nil, invalid("%d nodes in both lists together: at most %d", len(p.nodes), quorum.MaxNodes)
	case len(lists) == 2 && lists[0] == lists[1]:
		lists = lists[:1] // nothing is to be changed any more
	}
	return p, quorum.New(lists...), nil
}

// open begins to connect to all nodes.
func (p *peers) open(tk *tokens, ev *events, by *quorum.Electorate) {
	var voters []voter
	var conns []*redisconn.Conn
	rules := p.nodes[0].opts.rules()
	for _, n := range p.nodes {
		n.tokens, n.events, n.rules = tk, ev, rules
		n.guard = guard.New(rules, n.opts.clock.local, n.claim)
		voters, conns = append(voters, n), append(conns, n.conn)
	}
	p.electorate = by
	p.agreement = agreement.New(p.agreementConfig(p.nodes[0].opts, conns))
	ev.watch(voters, by)
	for _, n := range p.nodes {
		n.conn.Start() // until closeNodes
	}
}

func (p *peers) agreementConfig(o *options, conns []*redisconn.Conn) agreement.Config {
	c := agreement.Config{
		Prefix: o.prefix + ownNames, Label: o.label, Guard: o.guard, TTL: o.ttl, OnlyLooks: o.onlyLooks,
		Timeout: o.nodeTimeout, Now: o.clock.local, Conns: conns, Electorate: p.electorate,
		Holds: p.holds, Explain: explained,
		Heard: func(node int, command string, err error) { p.nodes[node].heard(command, err) },
		Told: func(node int) {
			p.states.change()
			p.nodes[node].report()
		},
	}
	if o.fencing {
		c.Retention = o.retention
	}
	return c
}

// allScripts returns what each new connection loads.
var allScripts = sync.OnceValue(func() []*lua.Script {
	return slices.Concat([]*lua.Script{trim}, agreement.Scripts(), scripts)
})

func (n *node) connConfig() redisconn.Config {
	o := n.opts
	return redisconn.Config{
		Timeout: o.nodeTimeout, ConnectTimeout: o.connectTimeout(), Dial: o.dialer, DialID: o.dialerID, TLS: o.tls,
		Now: o.clock.local, Credentials: o.credentials,
		Scripts: allScripts(), ExtraKey: o.prefix + tokensName,
		Handshake: n.handshake, OnConnect: n.connected, OnDisconnect: n.unclaim, OnChange: n.stateChanged, Explain: explained,
		Check: n.check, CheckEvery: probeEvery,
	}
}

func (o *options) rules() *guard.Rules {
	return &guard.Rules{
		Period: o.guard, Late: o.connectTimeout(), Prefix: o.prefix,
		WithoutInfo: o.withoutInfo, MayEvict: o.evictionAllowed, Durable: o.durable, Explain: explained,
	}
}

// awaitNodes returns when every first attempt to connect has ended, or when a majority is connected and the node
// timeout has passed, but soon after the connect timeout at the latest. Over slow links an attempt can take longer.
func awaitNodes(nodes []*node, e *quorum.Electorate, o *options) {
	// A little longer than an attempt can take: why it failed should be known then.
	grace, limit := time.NewTimer(o.nodeTimeout), time.NewTimer(o.connectTimeout()+o.connectTimeout()/16)
	defer grace.Stop()
	defer limit.Stop()
	for _, n := range nodes {
		select {
		case <-n.firstAttempt:
			continue
		case <-grace.C:
		}
		connected := quorum.Set(0)
		for _, m := range nodes {
			if up, _ := m.conn.State(); up {
				connected = connected.With(m.index)
			}
		}
		if e.Suffice(connected) {
			return
		}
		select {
		case <-n.firstAttempt:
		case <-limit.C:
			return
		}
		grace.Reset(0)
	}
}

// closeNodes waits for outstanding undos until ctx is done, and closes the connections.
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

// claim registers the server that n is connected to, and refuses n if another node is registered for it.
func (n *node) claim(ids ...string) error {
	p := n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if id == "" {
			continue
		}
		if first := p.claims[id]; first != nil && first != n {
			return fmt.Errorf("%w: %w %s: it would have two votes", ErrNodeRefused, errDuplicate, first.addr())
		}
		p.claims[id] = n
	}
	return nil
}

// unclaim removes what n has claimed.
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

// duplicateNodes returns an error if two addresses lead to the same server.
func duplicateNodes(nodes []*node) error {
	for _, n := range nodes {
		if _, down := n.conn.State(); errors.Is(down, errDuplicate) {
			return invalid("node %d: %s: %v", n.index+1, n.addr(), unwrapDown(down))
		}
	}
	return nil
}

// connected runs when there is a new connection. It sends what must go ahead of requests, also of those that waited for
// the connection: while there was none, nothing could be sent ahead of them.
func (n *node) connected() {
	n.peers.agreement.Connected(n.index)
	n.peers.trimmedAt.Store(0) // first, so that a call that begins after the look at busy trims by itself
	if n.opts.fencing && n.tokens.KnowsMajority() && (n.peers.busy() || n.conn.Backlog() > 0) {
		n.conn.AskScript(n.trimCall(0, "1"))
	}
}

// stateChanged runs when the state of the connection has changed.
func (n *node) stateChanged() {
	connected, err := n.noteConnected()
	first := !n.attempted.Swap(true)
	if connected && err == nil { // maybe after a silence, in which it was sent nothing
		n.peers.trimmedAt.Store(0)
	}
	if connected && err != nil {
		n.announce()
	} else {
		n.report()
	}
	if first {
		close(n.firstAttempt) // last, so that New returns after the outcome was announced
	}
}

// noteConnected returns the state of the connection. It keeps account of how many there are.
func (n *node) noteConnected() (connected bool, err error) {
	p := n.peers
	p.connecting.Lock()
	defer p.connecting.Unlock()
	connected, err = n.conn.State()
	if p.connected &^= quorum.Set(0).With(n.index); connected {
		p.connected = p.connected.With(n.index)
	}
	p.enough.Store(p.electorate.Suffice(p.connected))
	return connected, err
}

// handshake reads the clock and the node info over a new connection, and refuses a node that is not fit to vote.
func (n *node) handshake(do redisconn.Do) error {
	n.odd.Store(nil)
	// Take the quickest of three answers: on a new connection a single one is often late.
	var asked, now instant
	var micros int64
	first := redisconn.Behind(do, n.peers.agreement.Handshake(n.index)...)
	for try, ask := range []redisconn.Do{first, do, do} {
		sent := n.opts.clock.now()
		nodeTime, err := readClock(ask([]any{"TIME"}))
		if errors.As(err, new(*ReplyError)) {
			return cmp.Or(n.rules.NoMaster(do), err)
		}
		if err != nil {
			return err
		}
		if received := n.opts.clock.now(); try == 0 || received.since(sent) < now.since(asked) {
			asked, now, micros = sent, received, nodeTime
		}
	}
	// A node that has just been started lacks the scripts of the first calls: they go behind the probe, as texts.
	if err := n.probe(first, guard.FirstProbe, nil); err != nil {
		return err
	}
	n.measured(micros, asked, now)
	n.peers.agreement.Label.Season(micros)
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

// probe has the guard read the node info and record it, and notes the node's floor. clock gets the node's clock.
func (n *node) probe(do redisconn.Do, kind guard.ProbeKind, clock func(micros int64)) error {
	info, err := n.guard.Probe(do, kind, clock)
	if info != nil {
		n.tokens.Dropped(info.Floor)
	}
	return err
}

// reprobe probes the node again over a connection in use, and also makes the calls. An error means that the connection
// must be given up: what was read over it before is void.
func (n *node) reprobe(ctx context.Context, kind guard.ProbeKind, also ...redisconn.Call) error {
	var asked, now instant
	do := redisconn.Behind(func(commands ...[]any) ([]any, error) {
		asked = n.opts.clock.now()
		replies, err := n.conn.Do(ctx, commands...)
		now = n.opts.clock.now()
		return replies, err
	}, append(n.peers.agreement.Probe(n.index, kind != guard.QuickProbe), also...)...)
	err := n.probe(do, kind, func(micros int64) { n.measured(micros, asked, now) })
	if err == nil {
		_, _ = do() // what it could not do for lack of scripts
	}
	if errors.As(err, new(guard.UnreachableError)) {
		return nil // the connection reconnects by itself
	}
	if err == nil {
		n.report()
	}
	return err
}

// abstention returns why the node abstains from a request that was sent then, or nil. It lifts an abstention that was
// over by then.
func (n *node) abstention(asked time.Time) *guard.Abstention {
	a := n.guard.Abstention()
	switch {
	case a == nil:
	case !a.Over(asked):
		return a
	case n.guard.EndAbstention(a):
		n.announce()
	}
	return nil
}

// abstaining returns why the node's grant of a request that was sent then would not count, or nil.
func (n *node) abstaining(asked time.Time) error {
	if a := n.guard.Abstention(); a != nil && !a.Over(asked) {
		return abstainError(a, n.opts.clock.local())
	}
	return nil
}

// vote returns whether the node's votes count at present, as the kind of the event that says so, and why not. That a
// server closes an idle connection, and takes a new one at once, is no outage.
func (n *node) vote(now time.Time) (EventKind, error) {
	if _, down := n.conn.State(); down != nil && !n.conn.Returns() {
		return EventNodeDown, down
	}
	if why := n.abstaining(now); why != nil {
		return EventNodeAbstaining, why
	}
	return EventNodeUp, nil
}

// announce wakes those who wait for a change of the node's state, and emits an event if that has changed. Called
// without its mutexes.
func (n *node) announce() {
	n.peers.states.change()
	if n.events == nil || !n.attempted.Load() {
		return
	}
	n.announcing.Lock() // before reading the state, so that the last event has the latest state
	defer n.announcing.Unlock()
	state, err := n.vote(n.opts.clock.local())
	if state != n.announced {
		n.announced = state
		n.events.emit(Event{Kind: state, Node: n.addr(), Err: err})
	}
}

// report emits an event if the node's state has changed, and has the findings logged if they have changed. It is called
// with every answer to a probe and more often, so it only notes that somebody has to look, if there is a log.
func (n *node) report() {
	n.announce()
	if n.events.logs() && !n.reporting.Swap(true) {
		n.events.look(n)
	}
}

// probeEvery is the mean interval between two probes of a node; it varies at random between half and 1.5 times that.
const probeEvery = 10 * time.Second

// longestPause is the longest between two probes, but for some milliseconds.
const longestPause = 3 * probeEvery / 2

// idleTrim is every how many checks an idle client has the node trim its tokens, beginning with the first.
const idleTrim = 6

// check is run by the connection now and then. It probes the node, and makes it drop the tokens that are older than the
// retention. An idle client seldom does: tokens that others write are theirs to trim, and end by themselves.
func (n *node) check(ctx context.Context) error {
	idle := !n.peers.busy() && n.conn.IdleChecks()%idleTrim != 1
	if idle || !n.opts.fencing || !n.tokens.KnowsMajority() { // a floor must not follow the clock of a single node
		return n.reprobe(ctx, guard.QuickProbe)
	}
	return n.reprobe(ctx, guard.QuickProbe, n.trimCall(2*probeEvery, ""))
}

// What the nodes keep of tokens. Each client has them drop what is older than the retention: when it begins, with its
// checks, and before it proposes tokens. A client that lives too briefly for a check would otherwise leave its tokens
// for ever.

var trim = lua.Load("trim")

// trimEvery is how often a client that proposes tokens has the nodes trim theirs. The script relies on it.
const trimEvery = time.Second

// trim has the nodes trim their tokens, unless that was done within the last second. It is called before tokens are
// proposed: on each connection it goes ahead of them, so the set that gets them lives for the retention, less a second
// at most.
func (p *peers) trim(now instant) {
	tk := p.nodes[0].tokens
	at, last := tk.micros(now), p.trimmedAt.Load()
	if last != 0 && at-last < trimEvery.Microseconds() || !tk.KnowsMajority() {
		return
	}
	if !p.trimmedAt.CompareAndSwap(last, max(at, 1)) {
		return // another caller does it
	}
	for _, n := range p.nodes {
		n.conn.AskScript(n.trimCall(0, "1"))
	}
}

// trimLast is called behind the last request. A node that was emptied since trim has a set without a time to live, and
// there may be no other client that would give it one.
func (p *peers) trimLast() {
	if !p.proposed.Load() || !p.nodes[0].tokens.KnowsMajority() { // see check
		return
	}
	for _, n := range p.nodes {
		n.conn.AskScript(n.trimCall(0, ""))
	}
}

// trimCall is a call of the script trim. The set of tokens lives for longer than the retention by extra. begin is "1"
// to make the set, so that it can expire, or "".
func (n *node) trimCall(extra time.Duration, begin string) redisconn.Call {
	retention := n.opts.retention
	return redisconn.Call{Script: trim, Heard: n.trimmed, Args: []any{
		2, n.rules.FloorKey(), n.rules.TokensKey(),
		n.tokens.time(n.opts.clock.now()), retention.Microseconds(), (retention + extra).Milliseconds(), begin,
	}}
}

// trimmed takes the reply to trim.
func (n *node) trimmed(reply any, err error) {
	if _, refused := reply.(redis.Error); err != nil || refused {
		return
	}
	if said, err := redis.Strings(reply, nil); err == nil && len(said) == 1 {
		if floor, known := token.Parse(said[0]); known || said[0] == "" {
			n.tokens.Dropped(floor) // 0 if the node has none
			n.heard("script trim", nil)
			return
		}
	}
	n.heard("script trim", fmt.Errorf("script trim: %w", resp.Unexpected(reply)))
}

// measureSoon reads the node's clock, and does not wait for the answer.
func (n *node) measureSoon() {
	asked := n.opts.clock.now()
	n.conn.Ask(func(replies []any, err error) {
		if micros, err := readClock(replies, err); err == nil {
			n.measured(micros, asked, n.opts.clock.now())
		}
	}, []any{"TIME"})
}

// measured notes a reading of a node's clock, and compares the clocks of all nodes anew.
func (n *node) measured(micros int64, asked, now instant) {
	n.tokens.Measured(n.index, micros, n.tokens.micros(asked), n.tokens.micros(now))
	offsets := n.tokens.Offsets()
	jumps, strayed := n.tokens.Jumps()
	for _, m := range n.peers.nodes {
		strayed = m.guard.SetClock(offsets[m.index].Ahead, offsets[m.index].Wrong, jumps[m.index]) || strayed
		m.announce()
	}
	roundTrip := now.local.Sub(asked.local)
	n.mu.Lock()
	n.roundTrip = roundTrip
	n.mu.Unlock()
	n.events.measured(n.addr(), roundTrip, offsets[n.index].Ahead)
	if strayed {
		// This machine may have been suspended: read all clocks anew. If instead a node's clock was set forward, the probe
		// writes that into the node's record.
		for _, m := range n.peers.nodes {
			m.conn.CheckSoon()
		}
	}
}
