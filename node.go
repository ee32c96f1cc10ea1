package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/printable"
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

	// What the node said when Status was called last.
	trial       atomic.Pointer[tried]    // nil: it was not called
	idleTimeout atomic.Int64             // after how many seconds it closes an idle connection; 0: never, or unknown
	odd         atomic.Pointer[oddReply] // the last one over this connection, until that command has its usual reply

	attempted    atomic.Bool   // the first attempt to connect has ended
	firstAttempt chan struct{} // closed after the outcome of the first attempt was announced

	roundTrip atomic.Int64 // of the last reading of the node's clock, in ns
	reporting atomic.Bool  // report was called, and the findings have not been looked at since

	announcing sync.Mutex // guards announced
	announced  string     // the state in the last event
}

// addr returns the node's address without user and password.
func (n *node) addr() string { return n.conn.Addr() }

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
	strange    string      // the refusal: these keys of ours are of another type; "": none is
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

func (n *node) connConfig() redisconn.Config {
	o := n.opts
	return redisconn.Config{
		Timeout: o.nodeTimeout, ConnectTimeout: o.connectTimeout(), Dial: o.node.Dial, DialID: o.dialerID, TLS: o.node.TLS,
		Now: o.clock.local, Credentials: o.node.Credentials, Scripts: allScripts(), ExtraKey: o.prefix + tokensName,
		Handshake: n.handshake, OnConnect: n.connected, OnDisconnect: n.unclaim, OnChange: n.stateChanged, Explain: explained,
		Check: n.check, CheckEvery: probeEvery,
	}
}

func (o *options) rules() *guard.Rules {
	return &guard.Rules{
		Period: o.guard, Late: o.connectTimeout(), Prefix: o.prefix,
		WithoutInfo: o.node.AllowNoInfo, MayEvict: o.node.AllowEviction, Durable: o.node.TrustDisk, Explain: explained,
	}
}

// connected runs when there is a new connection. It sends what must go ahead of requests, also of those that waited for
// the connection: while there was none, nothing could be sent ahead of them.
func (n *node) connected() {
	n.peers.agreement.Connected(n.index)
	n.peers.trimmedAt.Store(0) // first, so that a call that begins after the look at busy trims by itself
	if n.opts.trims() && n.tokens.KnowsMajority() && (n.peers.busy() || n.conn.Backlog() > 0) {
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
	n.peers.agreement.Label.Salt(micros)
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
		n.tokens.Dropped(n.index, info.Floor)
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
	}, append(n.peers.agreement.Probe(n.index, kind), also...)...)
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

// abstention returns why the node abstains from a request sent then, or nil. It lifts one that was over by then.
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
		return abstains(a, n.opts.clock.local())
	}
	return nil
}

// vote returns why the node's votes do not count now, or nil. An idle connection that is renewed at once is no outage.
func (n *node) vote(now time.Time) error {
	if _, down := n.conn.State(); down != nil && !n.conn.Returns() {
		return down
	}
	return n.abstaining(now)
}

// announce wakes those who wait for the node's state, and emits an event if it has changed. Called without its mutexes.
func (n *node) announce() {
	n.peers.states.change()
	if n.events == nil || !n.attempted.Load() {
		return
	}
	n.announcing.Lock() // before reading the state, so that the last event has the latest state
	defer n.announcing.Unlock()
	err := n.vote(n.opts.clock.local())
	if state := stateOf(err); state != n.announced && !n.conn.Stopped() {
		n.announced = state
		n.events.emit(Event{Kind: EventNode, Node: n.addr(), Err: err})
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

const (
	probeEvery   = 10 * time.Second   // mean pause between two probes of a node; it is random, from half to 1.5 times that
	longestPause = 3 * probeEvery / 2 // but for a tenth of a second
	idleTrim     = 6                  // every how many checks an idle client trims the node's tokens, from the first on
)

// check is run by the connection now and then. It probes the node, and makes it drop the tokens that are older than the
// retention. An idle client seldom does: tokens that others write are theirs to trim, and end by themselves.
func (n *node) check(ctx context.Context) error {
	kind, also := guard.QuickProbe, []redisconn.Call(nil)
	if n.bars() != nil { // which Ready awaits the end of
		kind, also = guard.FullProbe, append(also, n.trialCall())
	}
	idle := !n.peers.busy() && n.conn.IdleChecks()%idleTrim != 1
	if idle || !n.opts.trims() || !n.tokens.KnowsMajority() { // a floor must not follow the clock of a single node
		return n.reprobe(ctx, kind, also...)
	}
	return n.reprobe(ctx, kind, append(also, n.trimCall(2*probeEvery, ""))...)
}

// refusal returns what the node refuses of what locks need, or nil: EVALSHA, which asks for lists, or the trial's EVAL.
func (n *node) refusal() (refusal *ReplyError) {
	if errors.As(n.peers.agreement.Said(n.index).Refused, &refusal) && refusal.isOf("evalsha") {
		return refusal
	}
	if t := n.trial.Load(); t != nil {
		return t.refusal
	}
	return nil
}

// bars returns why the node grants no lock although its vote may count, or nil. Its scripts are tried when its memory
// is full, too, but what they delete first spares them the refusal.
func (n *node) bars() error {
	i, _, _ := n.guard.Status()
	refusal, now, floor := n.refusal(), n.opts.clock.now(), n.tokens.Below(n.index, 0)
	switch {
	case refusal != nil && refusal.bars():
		return refusal.marked()
	case i != nil && i.MaxMemory > 0 && i.UsedMemory >= i.MaxMemory && i.Policy == "noeviction":
		return &ReplyError{Code: "OOM", Reply: "OOM maxmemory is in use"}
	case n.opts.fencing && n.tokens.TooFarAhead(floor, n.tokens.micros(now)):
		return n.tokens.tooFarAhead("has dropped a token", floor, now)
	default:
		return nil
	}
}

// trial finds out whether scripts may do what locks need: else calls fail half-way.
var trial = lua.Load("trial")

func (n *node) trialCall() redisconn.Call {
	args := []any{"EVAL", trial.Source, 1, n.rules.TokensKey(), n.opts.prefix + ownChannels}
	return redisconn.Call{Args: args, Heard: n.noteTrial}
}

// noteTrial takes the reply to trial.
func (n *node) noteTrial(reply any, failed error) {
	if failed != nil {
		return
	}
	t := &tried{}
	refusal, refused := reply.(redis.Error)
	said, err := redis.Strings(reply, nil)
	odd := err != nil || len(said) != 4
	if !odd {
		t.largest, _ = token.Parse(said[0])
	}
	switch {
	case refused:
		errors.As(explained(refusal, "eval"), &t.refusal)
	case odd:
		n.heard("script trial", fmt.Errorf("script trial: %w", resp.Unexpected(reply)))
	case said[1] != "":
		errors.As(explained(redis.Error(said[2]), ""), &t.refusal)
		if t.refusal.Code == "WRONGTYPE" {
			t.strange = printable.Beginning(said[1], printable.Most)
			break
		}
		t.refusal.Command, t.undeclared = printable.Beginning(strings.ToLower(said[1]), printable.Most), said[3] != ""
	default:
		n.heard("script trial", nil)
	}
	n.trial.Store(t)
}

// trimCall is a call of trim. The set of tokens outlives the retention by extra. begin "1" makes it, so it can expire.
func (n *node) trimCall(extra time.Duration, begin string) redisconn.Call {
	retention := n.opts.retention
	return redisconn.Call{Script: trim, Heard: n.trimmed, Args: []any{
		3, n.rules.FloorKey(), n.rules.TokensKey(), n.opts.prefix + ownNames + "settings",
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
			n.tokens.Dropped(n.index, floor) // 0 if the node has none
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
		strayed = m.guard.SetClock(offsets[m.index], jumps[m.index]) || strayed
		m.announce()
	}
	roundTrip := now.local.Sub(asked.local)
	n.roundTrip.Store(int64(roundTrip))
	n.events.measured(n.addr(), roundTrip, offsets[n.index].Ahead)
	if strayed && n.peers.mayReread(n.tokens.micros(now)) {
		// This machine may have been suspended: read all clocks anew. If instead a node's clock was set forward, the probe
		// writes that into the node's record.
		for _, m := range n.peers.nodes {
			m.conn.CheckSoon()
		}
	}
}
