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

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// Registration: a client tells each node its lists of nodes (node_lists.go), and learns which others are in use. It
// looks before it tells, so a client that is refused has alarmed nobody. Whoever comes later is refused: a client that
// finds a conflict gets no locks, unless a majority of each of its lists has its registration, and has had it for so
// long that all nodes within reach would have told of a conflict before. Such a client works on and says so, since
// stopping it would only add an outage to a danger that the newcomer causes. Of two that begin at one moment, each may
// learn of the other only when a majority has its registration. Then both are refused, and the first to ask again
// works.
//
// A thousand clients do this at one moment, so it costs each of them the same whatever the others have written: a node
// tells a digest of the lists that are in use, and who does not know it reads them, once in a process.
//
// It is a net and no proof: two clients that can reach no node in common learn nothing of each other.

var noteLists = lua.Load("lists")

// What a registration asks of the nodes: see internal/lua/lists.lua.
const (
	modeAsk   = "ask"
	modeRead  = "read"
	modeVote  = "vote"
	modeLeave = "leave"
	modeCount = "count"
)

const (
	// confirmsWithin is how old a registration gets, with some margin, before it is confirmed: by a probe.
	confirmsWithin = registerAgain + 15*time.Second
	// restartExplains is for how much longer than they live lists may be in use in which a node has another id than the
	// one that the node itself has told. Some client has the old one: it has crashed, or learns the new one with its next
	// registration, or it has lost the node and doubts the id after a minute; and the text may stay for another life.
	restartExplains = 90 * time.Second
	// registerAgain is the age at which a registration is confirmed: with the next probe.
	registerAgain = 30 * time.Second
	// correctAfter is how long a client waits at least, and a third of how long at most, before it registers anew because
	// it has learnt the identity of a node. After a restart it learns several, and all clients do. If each registered at
	// each step, a thousand clients would write dozens of texts, which all of them would then have to read.
	correctAfter = 500 * time.Millisecond
	// establishedAfter is for how long no node must tell of a conflict before the client takes any other for one that came
	// later. Within that time nodes that are within reach are connected again, and every connection has been probed.
	establishedAfter = 15 * time.Second
)

// registry compares this client's lists with those of others.
type registry struct {
	opts       *options
	conns      []*redisconn.Conn // by node
	electorate *quorum.Electorate
	told       func(node int) // a node has said something outside of its probes
	holds      func() bool    // whether this client has holds

	ticketed atomic.Int64 // when the last hold ends that was handed over by a ticket, in ns since 1970

	refusal atomic.Pointer[ListConflictError] // why no lock is given to this client; nil: none is known

	mu         sync.Mutex // guards the fields below; nothing is sent, and only mutexes of node_lists.go are locked
	own        *usedLists // this client's lists, with the identities that are known, and for how long they are to live
	lists      nodeLists  // the same
	at         []registered
	opened     bool      // New has seen what the nodes said, so the client may register, unless it is refused
	clear      time.Time // since when a majority of each list has the registration, and no conflict is known; or zero
	closed     bool
	doubts     map[string]time.Time // lists that conflict unless a node has lost its data lately: when first heard of
	correcting bool                 // correct is due
	correction *time.Timer          // runs correct; nil: it never was due
}

// registered is what one node said last, and what it was told.
type registered struct {
	id        string         // the node's; "": not known
	stale     bool           // it has been away since then: see listedNode
	candidate string         // an id for a node that has none
	member    string         // in the node's set of clients: see connected
	sent      bool           // it may be there
	members   []string       // those of former connections that may be there still
	digest    string         // of the lists in use there; "": none are
	used      *usedLists     // those lists; nil: none are, or they have not been read
	reading   bool           // they are being read
	counts    map[string]int // clients by their lists, at the last count
	// seen is, by their lists, how long ago a client that conflicts was last seen, at most; 0: longer ago than clients are
	// silent that are at work.
	seen      map[string]time.Duration
	heard     time.Time // when it said this; zero: never
	noted     string    // the lists that it was told; "": none
	former    string    // the lists that it was told before the client was refused
	forgot    time.Time // when it was last found to have forgotten them; zero: never
	confirmed time.Time // when it confirmed them last
	source    bool      // the node lacks the script
	refused   error     // why it does not answer, or nil
}

func newRegistry(
	o *options, conns []*redisconn.Conn, e *quorum.Electorate, told func(node int), holds func() bool,
) *registry {
	g := &registry{
		opts: o, conns: conns, electorate: e, told: told, holds: holds, at: make([]registered, len(conns)),
	}
	if !o.onlyLooks {
		for i := range g.at {
			g.at[i].candidate, g.at[i].member = drawID(), drawID()
		}
	}
	g.describe()
	return g
}

func drawID() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails
	return hex.EncodeToString(id[:])
}

// describe brings own up to date. The caller holds mu, or is newRegistry.
func (g *registry) describe() {
	g.lists = nil
	for at := 0; g.electorate.List(at) != 0; at++ {
		var list []listedNode
		for i, conn := range g.conns {
			if g.electorate.List(at).Has(i) {
				list = append(list, listedNode{g.at[i].id, conn.Addr(), g.at[i].stale})
			}
		}
		g.lists = append(g.lists, list)
	}
	g.own = knownLists.read([]string{g.lists.text(g.lives())})
	for i := range g.at {
		g.at[i].used = g.find(g.at[i].digest, g.at[i].used)
	}
}

// exchange returns the command that asks a node, or registers with it, and the reader of the reply.
func (g *registry) exchange(node int, mode string) extra {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := &g.at[node]
	how, script, text, was := "EVALSHA", noteLists.SHA, "", ""
	if at.source {
		how, script = "EVAL", noteLists.Source
	}
	prefix := g.opts.prefix + ownNames
	keys := []any{prefix + "lists"}
	key := func(text string) any { return g.clientsKey(text) }
	switch mode {
	case modeVote:
		text = g.own.texts[0]
		keys = append(keys, key(text))
		if at.noted != "" && at.noted != text {
			was = at.noted
			keys = append(keys, key(was))
		}
	case modeLeave:
		text = cmp.Or(at.noted, at.former, g.own.texts[0]) // or it may have that, without an answer so far
		keys = append(keys, key(text))
	case modeRead:
		at.reading = true
	case modeCount:
		if at.used != nil {
			for _, text := range at.used.texts {
				keys = append(keys, key(text))
			}
		}
	}
	command := append([]any{how, script, len(keys)}, keys...)
	command = append(command, mode, at.candidate, text, at.member, was)
	if mode == modeVote || mode == modeLeave {
		at.sent = at.sent || mode == modeVote
		if life := g.own.lives[0]; life > registrationLives || at.members != nil {
			command = append(command, life.Milliseconds())
		}
		for _, member := range at.members {
			command = append(command, member)
		}
	}
	return extra{command, func(reply any) { g.heard(node, mode, text, reply) }}
}

// clientsKey is the key at which a node keeps the clients that have these lists.
func (g *registry) clientsKey(text string) string {
	return g.opts.prefix + ownNames + "clients:" + digestOf(text)[:12]
}

// lives returns for how long a node is to keep the registration, unless it is confirmed: for longer than any hold that
// the client gets or extends before it confirms. That is rounded up, since each life makes another text.
func (g *registry) lives() time.Duration {
	ttl := max(g.opts.ttl, time.Duration(g.opts.longestTTL.Load()))
	life := registrationLives
	for life < ttl+confirmsWithin && life < longestLife {
		life *= 2
	}
	return min(life, longestLife)
}

// prolong registers for longer, if a TTL is in use that needs it. It does not wait: what is asked of a node after that
// comes after it.
func (g *registry) prolong() {
	g.mu.Lock()
	var to quorum.Set
	if g.own.lives[0] < g.lives() {
		g.describe()
	}
	for i := range g.at {
		if at := &g.at[i]; g.mayRegister() && at.noted != g.own.texts[0] && (at.sent || at.noted != "") {
			to = to.With(i)
		}
	}
	g.mu.Unlock()
	g.send(modeVote, to)
}

// handedOver notes until when a ticket can be adopted.
func (g *registry) handedOver(until time.Time) {
	for end := until.UnixNano(); ; {
		if last := g.ticketed.Load(); end <= last || g.ticketed.CompareAndSwap(last, end) {
			return
		}
	}
}

// ticketsOut reports whether a hold of this client may yet be adopted.
func (g *registry) ticketsOut() bool { return g.opts.clock.local().UnixNano() < g.ticketed.Load() }

// due returns what to ask a node with a probe; "": nothing. Between two registrations there are 30 s, and seldom more
// than 45.
func (g *registry) due(node int) string {
	var away quorum.Set
	for i, conn := range g.conns {
		if up, _ := conn.State(); !up {
			away = away.With(i)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doubtIDs(away)
	stays := !g.closed && g.at[node].noted != "" // also if it is refused: its holds still count
	switch {
	case !g.mayRegister() && g.at[node].former != "": // the node was out of reach when it was told
		return modeLeave
	case !g.mayRegister() && !(stays && g.lapses(node)):
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
	return !g.correcting &&
		(at.noted != g.own.texts[0] || g.opts.clock.local().Sub(at.confirmed) >= registerAgain)
}

// connected registers the client with a node to which there is a new connection. The handshake has asked. The member is
// another one: what was told over the connection before may be the registration of another process, of which this one
// is a copy, from a snapshot that was started twice. So the end of neither takes away what the other has told.
//
// The member before goes with the registration: a client is counted once, and leaves nothing behind that would keep a
// former text alive. A copy may thereby take away that of its original. The text stays, for the copy has it, and the
// original confirms it within 45 s. Should the copy end sooner, the original registers anew then, or as soon as it is
// told that the node has forgotten it.
func (g *registry) connected(node int) {
	g.mu.Lock()
	at := &g.at[node]
	if at.sent {
		at.members = append(at.members[max(0, len(at.members)+1-maxMembers):], at.member)
	}
	at.member, at.sent = drawID(), false
	due := g.mayRegister() && !g.correcting
	g.mu.Unlock()
	if due {
		g.send(modeVote, quorum.Set(0).With(node))
	}
}

// maxMembers is how many former members are remembered until a node has taken them away: there are several only if
// connections break before it answers.
const maxMembers = 16

// correct registers anew with the nodes that have been told other lists, or none. It is run by the timer.
func (g *registry) correct() {
	g.mu.Lock()
	g.correcting = false
	var to quorum.Set
	for i := range g.at {
		if g.mayRegister() && g.at[i].noted != g.own.texts[0] {
			to = to.With(i)
		}
	}
	g.mu.Unlock()
	g.send(modeVote, to)
}

// learn notes the identity of a node. If that is another one than before, the node has lost its data, with what it was
// told. Most answers are to registrations, which would hide that. The caller holds mu.
func (g *registry) learn(node int, id string) {
	at := &g.at[node]
	if id == "" || id == at.id && !at.stale {
		return
	}
	if at.id != "" && at.id != id {
		at.forget(g.opts.clock.local())
	}
	at.id, at.stale = id, false
	if !g.opened {
		return // open describes them all at once
	}
	g.describe()
	if !g.closed {
		g.correcting = true
		if in := correctAfter + chance.Duration(2*correctAfter); g.correction == nil {
			g.correction = time.AfterFunc(in, g.correct)
		} else {
			g.correction.Reset(in)
		}
	}
}

// doubtIDs notes which nodes have been away for long: they may have lost their data meanwhile, and then others know
// them by another id. The id is kept, for others may know the node by another address. The caller holds mu.
func (g *registry) doubtIDs(away quorum.Set) {
	doubted, now := false, g.opts.clock.local()
	for i := range g.at {
		if at := &g.at[i]; away.Has(i) && at.id != "" && !at.stale && now.Sub(at.heard) >= registrationLives {
			at.stale, doubted = true, true
		}
	}
	if doubted && g.opened {
		g.describe()
	}
}

// find returns the lists with that digest, or those given if they are not known. The caller holds mu.
func (g *registry) find(digest string, otherwise *usedLists) *usedLists {
	if digest == g.own.digest {
		return g.own
	}
	return cmp.Or(knownLists.find(digest), otherwise)
}

// heard notes a node's reply to an exchange.
func (g *registry) heard(node int, mode, text string, reply any) {
	g.mu.Lock()
	at := &g.at[node]
	if mode == modeRead {
		at.reading = false
	}
	refusal, refused := reply.(redis.Error)
	if refused {
		if at.source = resp.Code(refusal) == "NOSCRIPT"; !at.source {
			at.refused = explained(refusal, "evalsha")
		}
		g.mu.Unlock()
		return
	}
	said, ok := readRegistration(reply, mode)
	if !ok || mode == modeLeave {
		if ok {
			at.former, at.members = "", nil
		} else {
			at.refused = resp.Unexpected(reply)
		}
		g.mu.Unlock()
		return
	}
	now := g.opts.clock.local()
	at.source, at.refused, at.heard = false, nil, now
	g.learn(node, said.id)
	if at.digest != said.digest {
		at.digest, at.used = said.digest, g.find(said.digest, nil)
	}
	switch {
	case mode == modeVote:
		at.noted, at.former, at.confirmed, at.members = text, "", now, nil
	case said.digest == "":
		at.forget(now)
	}
	switch mode {
	case modeRead:
		at.used = knownLists.read(said.texts)
		for i := range g.at {
			g.at[i].used = g.find(g.at[i].digest, g.at[i].used)
		}
	case modeCount:
		g.count(node, said.counts)
	}
	lost := quorum.Set(0).With(node)
	for i := range g.at {
		// What a node says in answer to a registration never leads to another: that might go on for ever.
		if at := &g.at[i]; at.lacks(at.noted) && !(i == node && mode == modeVote) {
			at.forget(now)
			lost = lost.With(i)
		}
	}
	before := g.refusal.Load()
	var leave, tell, read quorum.Set
	if g.opened { // before that, open judges
		leave = g.judge(now)
	}
	after := g.refusal.Load()
	for i := range g.at {
		if g.mayRegister() && (before != nil || lost.Has(i) && g.at[i].noted == "" && g.lapses(i)) {
			tell = tell.With(i)
		}
	}
	if at.unread() && !at.reading {
		read = read.With(node)
	}
	g.mu.Unlock()
	g.send(modeLeave, leave)
	g.send(modeRead, read)
	g.send(modeVote, tell)
	if (before == nil) != (after == nil) {
		g.told(node)
	}
}

// unread reports whether the lists that are in use at the node are not known.
func (at *registered) unread() bool { return at.digest != "" && at.used == nil }

// maxTold is how many texts a node tells at most: see lists.lua.
const maxTold = 100

// lacks reports whether the node has forgotten a text: those in use there are known, and it is not among them.
func (at *registered) lacks(text string) bool {
	return text != "" && at.used != nil && len(at.used.texts) < maxTold && !slices.Contains(at.used.texts, text)
}

// forget notes that the node has forgotten the lists that it was told.
func (at *registered) forget(now time.Time) {
	if at.noted != "" {
		at.noted, at.forgot = "", now
	}
}

// count notes how many clients have the lists that the node was asked about. The caller holds mu.
func (g *registry) count(node int, counts []int) {
	at := &g.at[node]
	at.counts = nil
	if at.used == nil || len(counts) != len(at.used.texts) {
		return // the lists have changed meanwhile
	}
	at.counts = make(map[string]int)
	for i, text := range at.used.texts {
		at.counts[text] = counts[i]
	}
}

// registration is a node's reply to an exchange.
type registration struct {
	id, digest string
	texts      []string // if they were read
	counts     []int    // if they were counted
}

func readRegistration(reply any, mode string) (r registration, ok bool) {
	parts, _ := reply.([]any)
	if len(parts) != 3 {
		return r, false
	}
	said, err := redis.Strings(parts[:2], nil)
	if err != nil {
		return r, false
	}
	r.id, r.digest = said[0], said[1]
	switch mode {
	case modeRead:
		r.texts, err = redis.Strings(parts[2], nil)
	case modeCount:
		r.counts, err = redis.Ints(parts[2], nil)
	}
	return r, err == nil
}

// judge decides anew whether this client is refused. It returns the nodes that must forget it if it is refused from now
// on. The caller holds mu.
func (g *registry) judge(now time.Time) (leave quorum.Set) {
	var confirmed, remembered quorum.Set
	unread := false
	for i := range g.at {
		at := &g.at[i]
		if at.noted != "" && now.Sub(at.confirmed) < registrationLives { // whatever the text's life: who is away is late
			confirmed = confirmed.With(i)
			// One that had forgotten the client has not told newcomers of it. Others may have forgotten it, too: within this
			// time all of them are asked.
			if at.forgot.IsZero() || now.Sub(at.forgot) >= confirmsWithin {
				remembered = remembered.With(i)
			}
		}
		unread = unread || at.unread() && now.Sub(at.heard) < registrationLives
	}
	majority := g.electorate.Suffice(confirmed)
	established := g.electorate.Suffice(remembered) && !g.clear.IsZero() && now.Sub(g.clear) >= establishedAfter
	conflict, doubtful := g.conflict(now)
	if !majority || !established && (conflict != nil || doubtful || unread) {
		g.clear = time.Time{}
	} else if g.clear.IsZero() {
		g.clear = now
	}
	switch {
	case g.opts.onlyLooks:
	case conflict == nil && unread: // what is not known may be one
	case conflict == nil, established: // whoever came later is refused
		g.refusal.Store(nil)
	default:
		g.refusal.Store(conflict)
		for i := range g.at { // what it has on the nodes still counts against others
			if at := &g.at[i]; at.noted != "" && !g.closed && !g.holds() && !g.ticketsOut() {
				at.noted, at.former, leave = "", at.noted, leave.With(i)
			}
		}
	}
	return leave
}

// conflict returns the first conflict of this client's lists with others, or nil, and whether some may turn out to be
// one. The caller holds mu.
func (g *registry) conflict(now time.Time) (first *ListConflictError, doubtful bool) {
	for i, conn := range g.conns {
		used := g.at[i].used
		if used == nil {
			continue
		}
		v := used.judge(g.own)
		var theirs nodeLists
		for _, l := range v.conflicts {
			if theirs == nil && g.says(i, l, now) {
				theirs = used.lists[l]
			}
		}
		for _, l := range v.doubtful {
			switch {
			case !g.says(i, l, now):
			case g.lasts(i, l):
				theirs = used.lists[l]
			default:
				doubtful = true
				g.doubt(used.texts[l], now)
			}
		}
		if theirs != nil {
			return &ListConflictError{
				Node: conn.Addr(), Own: g.lists.addresses(), Other: theirs.addresses(), apart: g.lists.apart(theirs),
			}, true
		}
	}
	return nil, doubtful
}

// doubt notes lists that conflict unless a node has lost its data lately. They are not forgotten when they are out of
// use, since short-lived clients use them now and then. The caller holds mu.
func (g *registry) doubt(text string, now time.Time) {
	if !g.doubts[text].IsZero() {
		return
	}
	if g.doubts == nil || len(g.doubts) >= maxDoubts {
		g.doubts = make(map[string]time.Time)
	}
	g.doubts[text] = now
}

// maxDoubts is how many lists are remembered: more than a node tells.
const maxDoubts = 200

// lasts reports whether lists, by index, have been in use for longer than a restart explains, as the node says. That
// depends on their life, for the client that confirmed them may have crashed. The caller holds mu.
func (g *registry) lasts(node, index int) bool {
	at := &g.at[node]
	since := g.doubts[at.used.texts[index]]
	return !since.IsZero() && at.heard.Sub(since) >= at.used.lives[index]+restartExplains
}

// says reports whether the node has said that the lists with that index are in use, and that is not longer ago than
// they live. The caller holds mu.
func (g *registry) says(node, index int, now time.Time) bool {
	at := &g.at[node]
	return now.Sub(at.heard) < at.used.lives[index]
}

// send asks nodes, and does not wait.
func (g *registry) send(mode string, to quorum.Set) {
	for i := range g.conns {
		if to.Has(i) {
			g.ask(i, mode, func() {})
		}
	}
}

// ask asks a node, and does not wait. It calls then when the node has answered or failed to.
func (g *registry) ask(node int, mode string, then func()) {
	x := g.exchange(node, mode)
	g.conns[node].Ask(func(replies []any, err error) {
		defer then()
		if err == nil {
			x.heard(replies[0])
			g.told(node)
		} else if mode == modeRead {
			g.mu.Lock()
			g.at[node].reading = false
			g.mu.Unlock()
		}
	}, x.command)
}

// askAll asks each node that is connected what mode returns for it, if that is not "", and returns when all have
// answered or ctx is done. It reports whether it has asked any. mode is called with mu held.
func (g *registry) askAll(ctx context.Context, mode func(node int) string) (asked bool) {
	answers, wanted := make(chan struct{}, len(g.conns)), 0
	for i, conn := range g.conns {
		if up, _ := conn.State(); !up {
			continue
		}
		g.mu.Lock()
		what := mode(i)
		g.mu.Unlock()
		if what != "" {
			g.ask(i, what, func() { answers <- struct{}{} })
			wanted++
		}
	}
	for range wanted {
		select {
		case <-answers:
		case <-ctx.Done():
		}
	}
	return wanted > 0
}

// unknown returns what to ask a node to learn which lists are in use there; "": that is known. The caller holds mu.
func (g *registry) unknown(node int) string {
	switch at := &g.at[node]; {
	case at.heard.IsZero() && at.refused == nil:
		return modeAsk
	case at.unread():
		return modeRead
	default:
		return ""
	}
}

// open registers this client after its first attempts to connect, and waits for the answers, for the node timeout at
// most. It returns why the client is refused, or nil.
func (g *registry) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), g.opts.nodeTimeout)
	defer cancel()
	g.learnAll(ctx)
	g.mu.Lock()
	g.opened = true
	g.describe()
	g.judge(g.opts.clock.local())
	refusal := g.refusal.Load()
	g.mu.Unlock()
	if g.opts.onlyLooks {
		return nil
	}
	if refusal == nil {
		g.askAll(ctx, func(int) string { return modeVote })
		g.learnAll(ctx)
		refusal = g.refusal.Load()
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// learnAll asks until it is known which lists are in use at each node that answers, or until ctx is done.
func (g *registry) learnAll(ctx context.Context) {
	for range 3 { // the lists of a crowd may change all the while
		if ctx.Err() != nil || !g.askAll(ctx, g.unknown) {
			return
		}
	}
}

// countClients asks a node how many clients have which lists.
func (g *registry) countClients(ctx context.Context, node int) {
	g.askAll(ctx, func(i int) string {
		if i == node {
			return g.unknown(i)
		}
		return ""
	})
	g.askAll(ctx, func(i int) string {
		if i == node && g.at[i].used != nil {
			return modeCount
		}
		return ""
	})
	g.seeConflicts(ctx, node)
}

// seenWithin are the ages that are told apart when clients were last seen. Those that are at work are seen every 30 to
// 45 s, so longer ago than the last of these is a client that has ended without a word.
var seenWithin = []time.Duration{
	10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, 50 * time.Second,
}

// seeConflicts asks a node when clients were last seen whose lists conflict with this client's. A node that does not
// say so leaves that open.
func (g *registry) seeConflicts(ctx context.Context, node int) {
	g.mu.Lock()
	var texts []string
	var more []time.Duration
	if used := g.at[node].used; used != nil {
		for i, l := range used.lists {
			if l != nil && !g.lists.exclude(l, !g.lasts(node, i)) {
				texts, more = append(texts, used.texts[i]), append(more, used.lives[i]-registrationLives)
			}
		}
	}
	g.at[node].seen = nil
	g.mu.Unlock()
	if texts == nil {
		return
	}
	said, err := g.conns[node].Do(ctx, []any{"TIME"})
	if err != nil {
		return
	}
	micros, err := guard.Micros(said[0])
	if err != nil {
		return
	}
	var commands [][]any
	for i, text := range texts { // each is confirmed at its score less what its life is longer than the least one
		for _, age := range seenWithin {
			since := time.UnixMicro(micros).Add(more[i] - age).UnixMilli()
			commands = append(commands, []any{"ZCOUNT", g.clientsKey(text), since, "+inf"})
		}
	}
	counts, err := redis.Ints(g.conns[node].Do(ctx, commands...))
	if err != nil || len(counts) != len(commands) {
		return
	}
	seen := make(map[string]time.Duration)
	for i, text := range texts {
		of := counts[i*len(seenWithin):][:len(seenWithin)]
		if at := slices.IndexFunc(of, func(n int) bool { return n > 0 }); at >= 0 {
			seen[text] = seenWithin[at]
		} else {
			seen[text] = 0
		}
	}
	g.mu.Lock()
	g.at[node].seen = seen
	g.mu.Unlock()
}

// closing ends what the registry does by itself. It is called while the holds that are left still count: afterwards,
// nobody but close, which knows of them, lets the nodes forget the client.
func (g *registry) closing() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.correction != nil {
		g.correction.Stop()
	}
}

// close lets the nodes forget this client, unless holds or tickets are left: then conflicting clients must not come
// before the nodes have forgotten the registration by themselves, which is later than the end of these.
func (g *registry) close(holds int) {
	keep := holds > 0 || g.ticketsOut()
	g.mu.Lock()
	told := quorum.Set(0)
	for i := range g.at {
		if at := &g.at[i]; !keep && (at.sent || at.noted != "" || at.former != "" || at.members != nil) {
			told = told.With(i)
		}
	}
	g.mu.Unlock()
	g.send(modeLeave, told)
}

// NodeClients says with which lists of nodes clients vote, and how many do.
type NodeClients struct {
	Lists [][]string // the addresses of the nodes, as those clients know them: one list, or the old and the new one
	// Clients is how many were seen lately. One that ended without Close counts for a minute or longer: see New.
	Clients int
	// Conflict reports that two could hold one lock: a client with these lists and one with this Locker's.
	Conflict bool

	apart []string // addresses by which they reach other masters than this Locker does
	seen  lastSeen
}

// lastSeen is when clients were last seen, if that is known.
type lastSeen struct {
	known  bool
	within time.Duration // how long ago, at most; 0: longer ago than clients are silent that are at work
}

// clients returns what a node said of clients, by the addresses in their lists, and whether any two lists conflict.
func (g *registry) clients(node int) (list []NodeClients, clash bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, now := &g.at[node], g.opts.clock.local()
	used := at.used
	if used == nil {
		return nil, false
	}
	for i, l := range used.lists {
		if l == nil || !g.says(node, i, now) {
			continue
		}
		lists, n := l.addresses(), at.counts[used.texts[i]]
		conflict := !g.lists.exclude(l, !g.lasts(node, i))
		var apart []string
		if conflict {
			apart = g.lists.apart(l)
		}
		same := func(c NodeClients) bool {
			return c.Conflict == conflict && slices.EqualFunc(c.Lists, lists, slices.Equal[[]string])
		}
		within, known := at.seen[used.texts[i]]
		seen := lastSeen{known, within}
		if at := slices.IndexFunc(list, same); at >= 0 { // one node has another id meanwhile, or the TTLs are longer
			list[at].Clients += n
			if seen.known && seen.within > 0 && (list[at].seen.within == 0 || seen.within < list[at].seen.within) {
				list[at].seen = seen
			}
		} else {
			list = append(list, NodeClients{Lists: lists, Clients: n, Conflict: conflict, apart: apart, seen: seen})
		}
	}
	slices.SortFunc(list, func(a, b NodeClients) int { return slices.CompareFunc(a.Lists, b.Lists, slices.Compare) })
	return list, now.Sub(at.heard) < registrationLives && used.clash()
}

// addresses returns this client's lists as addresses.
func (g *registry) addresses() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lists.addresses()
}

// refused returns why the node does not answer to registrations, or nil.
func (g *registry) refused(node int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[node].refused
}
