package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

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
	rereadAt  atomic.Int64 // see mayReread

	mu     sync.Mutex
	claims map[string]*node // by run_id, or else replid: the node that is connected to that server; guarded by mu
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

// newNodes makes the nodes of the lists of URLs, once if a node is in both, and refuses duplicates within a list.
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
	o := p.nodes[0].opts
	rules := o.rules()
	for _, n := range p.nodes {
		n.tokens, n.events, n.rules = tk, ev, rules
		n.guard = guard.New(rules, o.clock.local, n.claim)
		voters, conns = append(voters, n), append(conns, n.conn)
	}
	p.electorate = by
	config := agreement.Config{
		Prefix: o.prefix + ownNames, Label: o.label, Guard: o.guard, TTL: o.ttl, OnlyLooks: o.onlyLooks,
		Timeout: o.nodeTimeout, Now: o.clock.local, Conns: conns, Electorate: by, Holds: p.holds, Explain: explained,
		Heard: func(node int, command string, err error) { p.nodes[node].heard(command, err) },
		Told:  func(node int) { p.nodes[node].report() },
	}
	if o.fencing {
		config.Retention = o.retention
	}
	p.agreement = agreement.New(config)
	ev.watch(voters, by)
	for _, n := range p.nodes {
		n.conn.Start() // until closeNodes
	}
}

// allScripts returns what each new connection loads.
var allScripts = sync.OnceValue(func() []*lua.Script {
	return slices.Concat([]*lua.Script{trim}, agreement.Scripts(), protocol.Scripts())
})

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
		if e.Suffice(quorum.Where(len(nodes), func(i int) bool { up, _ := nodes[i].conn.State(); return up })) {
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

// claim registers the server that n is connected to, by the first of its ids that is known, and refuses n if another
// node is registered for it. By one id, and not by all: a node that lies could have a node refused with each.
func (n *node) claim(ids ...string) error {
	p, id := n.peers, cmp.Or(ids...)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch first := p.claims[id]; {
	case id == "":
	case first != nil && first != n:
		return fmt.Errorf("%w: %w %s: it would have two votes", ErrNodeRefused, errDuplicate, first.addr())
	default:
		p.claims[id] = n
	}
	return nil
}

// unclaim removes what n has claimed.
func (n *node) unclaim() {
	p := n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.claims, func(_ string, owner *node) bool { return owner == n })
}

// duplicateNodes returns an error if two names lead to one address, or so many nodes say that they are the same server
// as others that the rest is no majority. Fewer have no vote: one that lies must not have New fail.
func duplicateNodes(nodes []*node, e *quorum.Electorate) (err error) {
	var twins quorum.Set
	certain := false
	for _, n := range nodes {
		if _, down := n.conn.State(); errors.Is(down, errDuplicate) {
			twins, err = twins.With(n.index), invalid("node %d: %s: %v", n.index+1, n.addr(), unwrapDown(down))
			certain = certain || slices.ContainsFunc(nodes, func(m *node) bool { return m != n && m.conn.SameAddress(n.conn) })
		}
	}
	if !certain && !e.Block(twins) {
		return nil
	}
	return err
}

// mayReread reports whether, as one clock has strayed, all may be read anew now, by tokens.micros: four times in a row,
// and every 5 s. Else one that leaps each time has all nodes probed all the time. The next check does the rest.
func (p *peers) mayReread(now int64) bool {
	const every, inRow = 5_000_000, 4
	due := p.rereadAt.Load()
	return due <= now+(inRow-1)*every && p.rereadAt.CompareAndSwap(due, max(due, now)+every)
}

// What the nodes keep of tokens. Each client that may lock has them drop what is older than the retention, its own or a
// longer one that they were told: when it begins, with its checks, and before it proposes tokens. A client that lives
// too briefly for a check would otherwise leave its tokens for ever.

var trim = lua.Load("trim")

// trimEvery is how often a client that proposes tokens has the nodes trim theirs. The script relies on it.
const trimEvery = time.Second

// trim has the nodes trim their tokens, unless that was done within the last second. Called before tokens are proposed,
// it goes ahead of them on each connection, so their set lives for the retention, less a second at most.
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
