package agreement

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// Config is what a client is like, and what it has.
type Config struct {
	Prefix    string // of the keys of the library itself
	Label     string
	Guard     time.Duration // how long nodes abstain; 0: not at all
	Retention time.Duration // how long nodes keep tokens; 0: there are none
	TTL       time.Duration // of calls that say nothing else
	OnlyLooks bool          // it asks for no locks, and tells no node its lists

	Timeout    time.Duration // for the answers to Open
	Now        func() time.Time
	Conns      []*redisconn.Conn // by node
	Electorate *quorum.Electorate

	Holds func() bool // whether the client has holds
	// Heard is called when a node has replied to a command. err: why that failed, or nil.
	Heard func(node int, command string, err error)
	// Told is called when a node has said something outside of its probes.
	Told func(node int)
	// Explain turns an error reply to a command into what users see.
	Explain func(reply error, command string) error
}

var listsScript = lua.Load("lists")

// correctAfter is how long a client waits at least, and a third of how long at most, before it registers anew because
// it has learnt the identity of a node. After a restart it learns several, and all clients do. If each registered at
// each step, a thousand clients would write dozens of texts, which all of them would then have to read.
const correctAfter = 500 * time.Millisecond

// exchange tells the nodes this client's lists, and hears theirs.
type exchange struct {
	conf     Config
	ticketed atomic.Int64 // when the last hold ends that was handed over by a ticket, in ns since 1970

	// mu guards the fields below. Under it nothing is sent, and only Config.Holds and mutexes of lists.go are called for.
	mu         sync.Mutex
	registry   *registry
	correction *time.Timer // registers anew; nil: it never was due
}

func newExchange(c Config) *exchange {
	g := &registry{prefix: c.Prefix, onlyLooks: c.OnlyLooks, ttl: c.TTL, electorate: c.Electorate}
	for _, conn := range c.Conns {
		g.addrs = append(g.addrs, conn.Addr())
	}
	g.begin()
	return &exchange{conf: c, registry: g}
}

// HandedOver notes until when another process can adopt a hold of this client.
func (x *exchange) HandedOver(until time.Time) { raise(&x.ticketed, until.UnixNano()) }

// raise raises a, and reports whether it was less.
func raise(a *atomic.Int64, to int64) bool {
	for {
		was := a.Load()
		if to <= was {
			return false
		}
		if a.CompareAndSwap(was, to) {
			return true
		}
	}
}

// ticketsOut reports whether a hold of this client may yet be adopted.
func (x *exchange) ticketsOut() bool { return x.conf.Now().UnixNano() < x.ticketed.Load() }

// holds reports whether holds of this client, or its tickets, still count against others.
func (x *exchange) holds() bool { return x.conf.Holds() || x.ticketsOut() }

// due returns what to ask a node with a probe; "": nothing.
func (x *exchange) due(node int) string {
	away, now := x.conf.Electorate.All&^x.connected(), x.conf.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.registry.doubtIDs(away, now)
	return x.registry.due(node, now)
}

// connected returns the nodes that are.
func (x *exchange) connected() quorum.Set {
	return quorum.Where(len(x.conf.Conns), func(i int) bool {
		up, _ := x.conf.Conns[i].State()
		return up
	})
}

// tell asks the nodes that due returns, which is called with mu held, ahead of what is asked later. It does not wait.
func (x *exchange) tell(mode string, due func(g *registry) quorum.Set) {
	x.mu.Lock()
	to := due(x.registry)
	x.mu.Unlock()
	x.send(mode, to)
}

// call returns the call that asks a node, or registers with it.
func (x *exchange) call(node int, mode string) redisconn.Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	text, args := x.registry.request(node, mode)
	at, counted := &x.registry.at[node], []string(nil)
	if mode == modeCount && at.used != nil {
		counted = at.used.texts
	}
	call := redisconn.Call{Script: listsScript, Args: args, Heard: func(reply any, err error) {
		x.heard(node, mode, text, counted, reply, err)
	}}
	if mode == modeVote || mode == modeLeave {
		last := at.requests
		call.Over = func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return at.requests != last
		}
	}
	return call
}

// heard notes a node's reply, or that there is none.
func (x *exchange) heard(node int, mode, text string, counted []string, reply any, failed error) {
	said, err := readRegistration(reply, mode)
	said.of = counted
	if refusal, refused := reply.(redis.Error); refused {
		err = x.conf.Explain(refusal, "evalsha")
	}
	g, now, up := x.registry, x.conf.Now(), x.connected()
	x.mu.Lock()
	at := &g.at[node]
	if mode == modeRead {
		at.reading = false
	}
	if failed == nil {
		at.refused = err
	}
	if failed != nil || err != nil || mode == modeLeave {
		if failed == nil && err == nil {
			at.former, at.members = "", nil
		}
		x.mu.Unlock()
		return
	}
	lost, corrects := g.note(node, mode, text, said, now)
	if corrects {
		x.correctSoon()
	}
	before := g.refusal.Load()
	leave, tell := x.rejudge(lost, now)
	after := g.refusal.Load()
	var read quorum.Set
	if at.unread() && !at.reading {
		read = read.With(node)
	}
	count := g.recounts(up, now)
	x.mu.Unlock()
	x.send(modeLeave, leave)
	x.send(modeRead, read)
	x.send(modeVote, tell)
	x.send(modeCount, count)
	if (before == nil) != (after == nil) {
		x.conf.Told(node)
	}
}

// rejudge decides anew whether the client is refused. It returns the nodes that are to forget it, and those that are to
// be told its lists: lost are those that have forgotten them. The caller holds mu.
func (x *exchange) rejudge(lost quorum.Set, now time.Time) (leave, tell quorum.Set) {
	g := x.registry
	before, waited := g.refusal.Load(), g.waits
	if g.opened {
		leave = g.judge(now, x.holds)
	} else { // then open judges
		g.noteClaims(now)
	}
	tell = quorum.Where(len(g.at), func(i int) bool {
		lacks := (waited || lost.Has(i) && g.at[i].noted == "") && g.lapses(i, now)
		return g.mayRegister() && (before != nil || lacks)
	})
	return leave, tell
}

// correctSoon registers anew in a while. The caller holds mu.
func (x *exchange) correctSoon() {
	if in := correctAfter + chance.Duration(2*correctAfter); x.correction == nil {
		x.correction = time.AfterFunc(in, func() { x.tell(modeVote, (*registry).correct) })
	} else {
		x.correction.Reset(in)
	}
}

// send asks nodes, and does not wait.
func (x *exchange) send(mode string, to quorum.Set) {
	for i := range x.conf.Conns {
		if to.Has(i) {
			x.ask(i, mode, func() {})
		}
	}
}

// ask asks a node, and does not wait. It calls then when the node has answered or failed to.
func (x *exchange) ask(node int, mode string, then func()) {
	call := x.call(node, mode)
	hear := call.Heard
	call.Heard = func(reply any, err error) {
		defer then()
		if hear(reply, err); err == nil {
			x.conf.Told(node)
		}
	}
	x.conf.Conns[node].AskScript(call)
}

// askAll asks each of the nodes that is connected what mode returns for it, if that is not "", and returns when all
// have answered or ctx is done. It reports whether it has asked any. mode is called with mu held.
func (x *exchange) askAll(ctx context.Context, nodes quorum.Set, mode func(node int) string) (asked bool) {
	answers, wanted := make(chan struct{}, len(x.conf.Conns)), 0
	for i, conn := range x.conf.Conns {
		if up, _ := conn.State(); !up || !nodes.Has(i) {
			continue
		}
		x.mu.Lock()
		what := mode(i)
		x.mu.Unlock()
		if what != "" {
			x.ask(i, what, func() { answers <- struct{}{} })
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

// Open registers the client after its first attempts to connect, unless it is refused, and awaits the answers.
func (x *exchange) Open() {
	ctx, cancel := context.WithTimeout(context.Background(), x.conf.Timeout)
	defer cancel()
	x.learn(ctx, x.conf.Electorate.All)
	g := x.registry
	x.mu.Lock()
	g.describe()
	g.judge(x.conf.Now(), x.holds)
	g.opened = true
	x.mu.Unlock()
	// Of two that begin at one moment, each may be refused for the other's sake, until that leaves. New says how it ends.
	for range 8 {
		if ctx.Err() != nil || !x.askAll(ctx, x.conf.Electorate.All, x.registers) {
			return
		}
		x.learn(ctx, x.conf.Electorate.All)
	}
}

// registers returns modeVote if the node does not have this client's lists, and can be told.
func (x *exchange) registers(node int) string {
	if at := &x.registry.at[node]; x.registry.outdated(at) && at.refused == nil {
		return modeVote
	}
	return ""
}

// learn asks until it is known which lists are in use at each of the nodes that answers, or until ctx is done.
func (x *exchange) learn(ctx context.Context, nodes quorum.Set) {
	for range 4 { // the lists of a crowd may change all the while
		if ctx.Err() != nil || !x.askAll(ctx, nodes, x.registry.unknown) {
			return
		}
	}
}

// Close ends what the exchange does by itself, then the holds, of which some are left, and lets the nodes forget this
// client, unless holds or tickets are left: conflicting clients must not come before the nodes have forgotten the
// registration by themselves, which is later than the end of these. Once the holds have ended, nothing else makes them.
func (x *exchange) Close(endHolds func() (left int)) {
	x.mu.Lock()
	x.registry.closed = true
	if x.correction != nil {
		x.correction.Stop()
	}
	x.mu.Unlock()
	if endHolds() > 0 || x.ticketsOut() {
		return
	}
	x.tell(modeLeave, func(g *registry) quorum.Set {
		return g.where(func(at *node) bool { return at.sent || at.noted != "" || at.former != "" || at.members != nil })
	})
}
