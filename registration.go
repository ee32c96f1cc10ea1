package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// Registration: a client tells each node its lists of nodes (node_lists.go), and learns which others are in use. It
// looks before it tells, so a client that is refused has alarmed nobody. Whoever comes later is refused: a client that
// finds a conflict gets no locks, unless a majority of each of its lists has had its registration for the last minute.
// Such a client works on and says so, since stopping it would only add an outage to a danger that the newcomer causes.
//
// It is a net and no proof: two clients that can reach no node in common learn nothing of each other.

var noteLists = lua.Load("lists")

// What a registration asks of the nodes: see internal/lua/lists.lua.
const (
	modeAsk   = "ask"
	modeCount = "count"
	modeVote  = "vote"
	modeLeave = "leave"
)

// registrationLives is for how long a node counts a client that does not confirm its registration: see lists.lua.
const registrationLives = time.Minute

// registry compares this client's lists with those of others.
type registry struct {
	opts       *options
	conns      []*redisconn.Conn // by node
	electorate *electorate
	member     string         // in the nodes' sets of clients
	told       func(node int) // a node has said something outside of its probes

	refusal atomic.Pointer[ListConflictError] // why no lock is given to this client; nil: none is known

	mu          sync.Mutex // guards the fields below; nothing is locked and nothing is sent while it is held
	at          []registered
	opened      bool // New has seen what the nodes said, so the client may register
	established bool // a majority of each list has the registration
	closed      bool
}

// registered is what one node said last, and what it was told.
type registered struct {
	id        string // the node's; "": not known
	candidate string // an id for a node that has none
	live      []string
	counts    map[string]int // clients by the shape of their lists; nil: never counted
	heard     time.Time      // when it said this; zero: never
	noted     string         // the lists that it was told; "": none
	former    string         // the lists that it was told before the client was refused
	confirmed time.Time      // when it confirmed them last
	source    bool           // the node lacks the script
	refused   error          // why it does not answer, or nil
}

func newRegistry(o *options, conns []*redisconn.Conn, e *electorate, told func(node int)) *registry {
	g := &registry{opts: o, conns: conns, electorate: e, told: told, at: make([]registered, len(conns))}
	draw := func() string {
		var id [6]byte
		_, _ = rand.Read(id[:]) // crypto/rand.Read never fails
		return hex.EncodeToString(id[:])
	}
	if !o.onlyLooks {
		for i := range g.at {
			g.at[i].candidate = draw()
		}
	}
	g.member = draw() + " " + g.lists().shape()
	return g
}

// lists returns the lists with the ids that are known. The caller holds mu, or is newRegistry.
func (g *registry) lists() nodeLists {
	var all nodeLists
	for _, l := range g.electorate.lists {
		var list []listedNode
		for i, conn := range g.conns {
			if l.nodes.has(i) {
				list = append(list, listedNode{g.at[i].id, conn.Addr()})
			}
		}
		all = append(all, list)
	}
	return all
}

// exchange returns the command that asks a node, or registers with it, and the reader of the reply. source: send the
// script, which a node may not have at connect.
func (g *registry) exchange(node int, mode string, source bool) extra {
	g.mu.Lock()
	at := &g.at[node]
	how, script, text, was := "EVALSHA", noteLists.SHA, "", ""
	if source || at.source {
		how, script = "EVAL", noteLists.Source
	}
	switch mode {
	case modeVote:
		if text = g.lists().String(); at.noted != "" && at.noted != text {
			was = at.noted
		}
	case modeLeave:
		text = cmp.Or(at.noted, at.former)
	}
	prefix := g.opts.prefix + ownNames
	command := []any{how, script, 2, prefix + "lists", prefix + "clients", mode, at.candidate, text, g.member, was}
	if mode == modeLeave {
		for _, same := range g.variants(node) {
			command = append(command, same)
		}
	}
	g.mu.Unlock()
	return extra{command, func(reply any) { g.heard(node, mode, text, reply) }}
}

// variants returns the lists that a node knows with the same addresses as this client's: of clients that knew another
// id of a node. The caller holds mu.
func (g *registry) variants(node int) (all []string) {
	shape := g.lists().shape()
	for _, text := range g.at[node].live {
		if l, ok := parseNodeLists(text); ok && l.shape() == shape {
			all = append(all, text)
		}
	}
	return all
}

// due returns what to ask a node with a probe; "": nothing. Between two registrations there are 20 s, and seldom more
// than 35.
func (g *registry) due(node int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.mayRegister():
		return modeAsk
	case g.lapses(node):
		return modeVote
	default:
		return ""
	}
}

// mayRegister reports whether the client may tell the nodes its lists. The caller holds mu.
func (g *registry) mayRegister() bool {
	return !g.opts.onlyLooks && g.opened && !g.closed && g.refusal.Load() == nil
}

// lapses reports whether a node should be told the lists again. The caller holds mu.
func (g *registry) lapses(node int) bool {
	at := &g.at[node]
	return at.noted == "" || g.opts.clock.local().Sub(at.confirmed) >= 20*time.Second
}

// connected registers the client with a node to which there is a new connection. The handshake has asked.
func (g *registry) connected(node int) {
	g.mu.Lock()
	due := g.mayRegister() && g.lapses(node)
	g.mu.Unlock()
	if due {
		g.send(modeVote, nodeSet(0).with(node))
	}
}

// heard notes a node's reply to an exchange.
func (g *registry) heard(node int, mode, text string, reply any) {
	g.mu.Lock()
	at := &g.at[node]
	refusal, refused := reply.(redis.Error)
	if refused {
		if at.source = redisconn.Code(refusal) == "NOSCRIPT"; !at.source {
			at.refused = explained(refusal, "evalsha")
		}
		g.mu.Unlock()
		return
	}
	id, live, counts, ok := readRegistration(reply)
	if !ok || mode == modeLeave {
		g.mu.Unlock()
		return
	}
	now := g.opts.clock.local()
	moved := id != at.id && id != ""
	at.source, at.refused, at.live, at.heard = false, nil, live, now
	if id != "" {
		at.id = id
	}
	if mode == modeCount {
		at.counts = counts
	}
	switch {
	case mode == modeVote:
		at.noted, at.former, at.confirmed = text, "", now
	case !slices.Contains(live, at.noted):
		at.noted = "" // the node has forgotten it
	}
	before := g.refusal.Load()
	leave := g.judge(now)
	after := g.refusal.Load()
	tell := nodeSet(0)
	if g.mayRegister() {
		for i := range g.at {
			if moved || before != nil || i == node && at.noted == "" {
				tell = tell.with(i)
			}
		}
	}
	g.mu.Unlock()
	g.send(modeLeave, leave)
	g.send(modeVote, tell)
	if (before == nil) != (after == nil) {
		g.told(node)
	}
}

// readRegistration reads a reply to an exchange.
func readRegistration(reply any) (id string, live []string, counts map[string]int, ok bool) {
	parts, _ := reply.([]any)
	if len(parts) != 3 {
		return "", nil, nil, false
	}
	id, err := redis.String(parts[0], nil)
	if err != nil {
		return "", nil, nil, false
	}
	if live, err = redis.Strings(parts[1], nil); err != nil {
		return "", nil, nil, false
	}
	counts, err = redis.IntMap(parts[2], nil)
	return id, live, counts, err == nil
}

// judge decides anew whether this client is refused. It returns the nodes that must forget it if it is refused from now
// on. The caller holds mu.
func (g *registry) judge(now time.Time) (leave nodeSet) {
	var confirmed nodeSet
	for i := range g.at {
		if at := &g.at[i]; at.noted != "" && now.Sub(at.confirmed) < registrationLives {
			confirmed = confirmed.with(i)
		}
	}
	conflict := g.conflict(now)
	switch majority := g.electorate.suffice(confirmed); {
	case g.opts.onlyLooks:
	case conflict == nil:
		g.established = majority
		g.refusal.Store(nil)
	case g.established && majority: // whoever came later is refused
		g.refusal.Store(nil)
	default:
		g.established = false
		g.refusal.Store(conflict)
		for i := range g.at {
			if at := &g.at[i]; at.noted != "" {
				at.noted, at.former, leave = "", at.noted, leave.with(i)
			}
		}
	}
	return leave
}

// conflict returns the first conflict of this client's lists with others. The caller holds mu.
func (g *registry) conflict(now time.Time) *ListConflictError {
	ours := g.lists()
	for i, conn := range g.conns {
		for _, text := range g.at[i].liveAt(now) {
			if theirs, ok := parseNodeLists(text); ok && !ours.exclude(theirs) {
				return &ListConflictError{Node: conn.Addr(), Own: ours.addresses(), Other: theirs.addresses()}
			}
		}
	}
	return nil
}

// liveAt returns the lists that the node said are in use, unless that is long ago.
func (at *registered) liveAt(now time.Time) []string {
	if now.Sub(at.heard) >= registrationLives {
		return nil
	}
	return at.live
}

// send asks nodes, and does not wait.
func (g *registry) send(mode string, to nodeSet) {
	for i, conn := range g.conns {
		if !to.has(i) {
			continue
		}
		x := g.exchange(i, mode, false)
		conn.Ask(func(replies []any, err error) {
			if err == nil {
				x.heard(replies[0])
				g.told(i)
			}
		}, x.command)
	}
}

// open registers this client after its first attempts to connect, and waits for the answers, for the node timeout at
// most. It returns why the client is refused, or nil.
func (g *registry) open() error {
	g.mu.Lock()
	g.judge(g.opts.clock.local())
	refusal := g.refusal.Load()
	g.opened = refusal == nil
	g.mu.Unlock()
	if g.opts.onlyLooks {
		return nil
	}
	if refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.opts.nodeTimeout)
	defer cancel()
	var answers sync.WaitGroup
	for i, conn := range g.conns {
		if up, _ := conn.State(); up {
			answers.Go(func() {
				x := g.exchange(i, modeVote, false)
				if replies, err := conn.Do(ctx, x.command); err == nil {
					x.heard(replies[0])
					g.told(i)
				}
			})
		}
	}
	answers.Wait()
	if refusal := g.refusal.Load(); refusal != nil {
		return refusal
	}
	return nil
}

// close lets the nodes forget this client, unless holds are left: then conflicting clients must not come before the
// nodes have forgotten the registration by themselves.
func (g *registry) close(holds int) {
	g.mu.Lock()
	g.closed = true
	told := nodeSet(0)
	for i := range g.at {
		if g.at[i].noted != "" && holds == 0 {
			told = told.with(i)
		}
	}
	g.mu.Unlock()
	g.send(modeLeave, told)
}

// NodeClients says with which lists of nodes clients vote, and how many do.
type NodeClients struct {
	Lists   [][]string // the addresses of the nodes, as those clients know them: one list, or the old and the new one
	Clients int        // how many were seen in the last minute; one that ended without Close counts for so long
	// Conflict reports that two could hold one lock: a client with these lists and one with this Locker's.
	Conflict bool
}

// clients returns what a node said of clients, by their lists, and whether any two of these lists conflict.
func (g *registry) clients(node int) (list []NodeClients, clash bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ours, at := g.lists(), &g.at[node]
	var known []nodeLists
	for _, text := range at.liveAt(g.opts.clock.local()) {
		if l, ok := parseNodeLists(text); ok {
			clash = clash || slices.ContainsFunc(known, func(other nodeLists) bool { return !l.exclude(other) })
			known = append(known, l)
		}
	}
	seen := make(map[string]bool)
	for _, l := range known {
		shape := l.shape()
		if seen[shape] {
			continue // the same nodes, of which one has another id meanwhile
		}
		seen[shape] = true
		c := NodeClients{Lists: l.addresses(), Clients: at.counts[shape], Conflict: !ours.exclude(l)}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b NodeClients) int { return slices.CompareFunc(a.Lists, b.Lists, slices.Compare) })
	return list, clash
}

// own returns this client's lists as addresses.
func (g *registry) own() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lists().addresses()
}

// refused returns why the node does not answer to registrations, or nil.
func (g *registry) refused(node int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[node].refused
}
