package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// NodeStatus is what the Locker knows about one node.
type NodeStatus struct {
	Addr      string // without user and password
	TLS       bool   // the URL is rediss://
	Connected bool
	Err       error // why it is not connected, or why its votes do not count (as in Ready); nil: they count

	Product, Version string // "Redis", "Valkey" …; empty: not known
	Role             string // "master", or what it is instead
	Uptime           time.Duration
	AbstainsUntil    time.Time // zero: it does not abstain, or the end is not known (see Err)
	Persistence      string    // "none", "snapshots", "append-only, fsync always" …
	EvictionPolicy   string
	MaxMemory        int64         // bytes; 0: no limit
	ClockOffset      time.Duration // how far its clock is ahead of the median of the nodes
	RoundTrip        time.Duration // of the last reading of its clock
	List             Membership    // in which list it is; "" without [WithMigration]
	Clients          []NodeClients // which clients vote with it, as it says
	Findings         []Finding
}

// Finding is something that the administrator of a node should know, about the node or about all nodes together.
// docs/operations.md explains each Code.
type Finding struct {
	Code     string
	Severity Severity
	Text     string // what was found
	Remedy   string // what to change; "": Text says it
}

// Severity says how much a finding matters.
type Severity int

// The severities.
const (
	SeverityNote        Severity = iota // as intended, but good to know
	SeverityDegraded                    // locks are safe, with less to spare
	SeverityUnavailable                 // no lock can be granted: no majority votes, or other clients' lists conflict
	SeverityUnsafe                      // a lock may be granted twice
)

// Nodes asks every connected node for its state and returns what is known about all nodes, in the order in which they
// were given to New. Each node tries, in one script that leaves nothing behind, what locks need. Nodes returns within
// the node timeout, or when ctx is done. Calls at the same time share the answers.
func (l *Locker) Nodes(ctx context.Context) []NodeStatus {
	answered := l.asking.DoChan("", func() (any, error) { //nolint:contextcheck // not until this caller leaves
		l.probeAll()
		return nil, nil
	})
	select {
	case <-answered:
	case <-ctx.Done():
	}
	list := make([]NodeStatus, len(l.nodes))
	for i, n := range l.nodes {
		list[i] = n.status()
	}
	return list
}

// probeAll probes all connected nodes and returns within the node timeout.
func (l *Locker) probeAll() {
	if l.begin(l.ctx) != nil {
		return
	}
	defer l.calls.end()
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.nodeTimeout)
	defer cancel()
	var probes sync.WaitGroup
	for _, n := range l.nodes {
		if up, _ := n.conn.State(); up {
			probes.Go(func() {
				if n.reprobe(ctx, guard.FullProbe,
					extra{[]any{"EVAL", trial.Source, 1, n.rules.TokensKey(), n.opts.prefix + ownChannels}, n.noteTrial},
					extra{[]any{"CONFIG", "GET", "timeout"}, n.noteIdleTimeout},
				) != nil {
					n.conn.CheckSoon() // the check gives the connection up
				}
				n.peers.registry.countClients(ctx, n.index)
			})
		}
	}
	probes.Wait()
}

func (n *node) status() NodeStatus {
	connected, down := n.conn.State()
	now := n.opts.clock.local()
	info, learnt, ahead := n.guard.Status()
	n.mu.Lock()
	st := NodeStatus{
		Addr: n.addr(), TLS: n.conn.TLS(), Connected: connected, Err: down, ClockOffset: ahead, RoundTrip: n.roundTrip,
	}
	n.mu.Unlock()
	if i := info; i != nil {
		st.Product, st.Version, st.Role, st.EvictionPolicy, st.MaxMemory = i.Product, i.Version, i.Role, i.Policy, i.MaxMemory
		st.Persistence = i.Persistence()
		if i.Uptime > 0 || i.Refused == "" {
			st.Uptime = i.Uptime + now.Sub(learnt).Truncate(time.Second)
		}
	}
	if a := n.guard.Newcomer(now); connected && a != nil {
		st.AbstainsUntil = a.Until
		if st.Err == nil {
			st.Err = abstainError(a, now)
		}
	}
	st.List = n.membership()
	st.Clients, _ = n.peers.registry.clients(n.index)
	st.Findings = n.findings(info, st.Err, connected)
	return st
}

const oddRemedy = "check host and port, and what is between"

// findings lists the findings about a node. err is why its votes do not count at present, or nil.
func (n *node) findings(i *guard.Info, err error, connected bool) []Finding {
	var list []Finding
	o := n.opts
	add := func(severity Severity, code, remedy, format string, args ...any) {
		list = append(list, Finding{code, severity, fmt.Sprintf(format, args...), remedy})
	}
	var why *AbstainError
	var refusal *ReplyError
	var mismatch redisconn.MismatchError
	switch {
	case err == nil:
	case errors.As(err, &mismatch):
		code, remedy := mismatchInWords(mismatch.Kind)
		add(SeverityDegraded, code, remedy, "%s", unwrapDown(err))
	case errors.As(err, &why) && why.Until.IsZero():
		add(SeverityDegraded, "clock", "run chrony or ntpd on the node and let it slew", "%s", why.Reason)
	case errors.As(err, &why):
		add(SeverityDegraded, "abstains", "wait; restart one node at a time, further apart than the restart guard", "%s", why)
	case errors.As(err, new(redisconn.UnexpectedError)):
		add(SeverityDegraded, "not-redis", oddRemedy, "it does not answer as Redis does: %s", unwrapDown(err))
	case errors.Is(err, errDuplicate):
		add(SeverityUnsafe, "twice", "give each URL a master of its own", "%s", unwrapDown(err))
	case errors.Is(err, ErrNodeRefused):
		add(SeverityDegraded, "refused", "", "%s", unwrapDown(err))
	case errors.As(err, new(redisconn.CredentialsError)):
		add(SeverityDegraded, "credentials", "fix the function of WithCredentials or WithTLSConfig",
			"%s", unwrapDown(err))
	case errors.As(err, &refusal) && refusal.refusesLogin():
		add(SeverityDegraded, "reply-"+strings.ToLower(refusal.Code), "check user and password of the node", "%s", refusal)
	case errors.As(err, &refusal):
		add(SeverityDegraded, "reply-"+strings.ToLower(refusal.Code), "see the code in docs/operations.md", "%s", refusal)
	case errors.As(err, new(redisconn.SilentError)):
		add(SeverityDegraded, "silent", "check the node's load and the network", "%s", unwrapDown(err))
	case !connected && lookedUp(err) != "":
		add(SeverityDegraded, "unreachable", "check the host's name, and what this machine asks for names",
			"%s", unwrapDown(err))
	case !connected:
		add(SeverityDegraded, "unreachable", "check the address, the network and whether the node runs",
			"%s", unwrapDown(err))
	default:
		add(SeverityDegraded, "silent", "check the node's load and the network", "%s", err)
	}
	if odd := n.odd.Load(); connected && odd != nil {
		add(SeverityDegraded, "not-redis", oddRemedy, "it does not always answer as Redis does: %s", odd.err)
	}
	if i == nil {
		return list
	}
	if i.Refused != "" && o.withoutInfo {
		add(SeverityDegraded, "info-refused", "ACL SETUSER … +info",
			"INFO is refused: age, role and memory policy are taken on trust: %s", i.Refused)
	}
	if i.Blind != "" && i.AOF {
		add(SeverityNote, "config-refused", "ACL SETUSER … +config|get",
			"CONFIG GET is refused, so the node counts as one that forgets when it restarts: %s", i.Blind)
	}
	if i.Unkept != nil && !errors.Is(err, ErrNodeRefused) {
		add(SeverityDegraded, "record", "allow GET, SET and EVAL on the key, or make it a string",
			"the node record %s cannot be kept, so FLUSHALL goes unnoticed: %v", n.rules.RecordKey(), i.Unkept)
	}
	switch {
	case i.Evicts() && o.evictionAllowed:
		add(SeverityUnsafe, "evicts", "CONFIG SET maxmemory-policy noeviction",
			"maxmemory-policy %s may evict locks that are held", i.Policy)
	case i.MaxMemory == 0 && i.Policy != "noeviction" && i.Policy != "":
		add(SeverityNote, "eviction-policy", "CONFIG SET maxmemory-policy noeviction",
			"maxmemory-policy is %s: without effect as long as maxmemory is 0", i.Policy)
	}
	if i.MaxMemory > 0 && i.UsedMemory > i.MaxMemory/10*9 {
		add(SeverityDegraded, "memory", "raise maxmemory, or move what else is stored there",
			"%d of %d bytes are in use: soon no lock can be taken there", i.UsedMemory, i.MaxMemory)
	}
	switch {
	case i.AOF && i.Fsync == "always" && i.Lazy == "yes":
		add(SeverityNote, "rewrite", "CONFIG SET no-appendfsync-on-rewrite no",
			"appendfsync always is suspended during rewrites: the node counts as one that forgets when it restarts")
	case i.AOF && i.Fsync != "always" && i.Fsync != "":
		add(SeverityNote, "fsync", "none needed; appendfsync always keeps them",
			"appendfsync %s loses the last moments before a crash, so that the node counts as one that forgets "+
				"when it restarts", i.Fsync)
	}
	if t := n.idleTimeout.Load(); t > 0 && t <= int64(longestPause/time.Second) {
		add(SeverityNote, "timeout", "CONFIG SET timeout 0, or at least 20",
			"it closes connections that are idle for %d s, and probes are up to %s apart: each is made again, at the price of "+
				"a handshake", t, guard.Seconds(longestPause))
	}
	switch unsafe, text, remedy := n.settings.disagreement(); {
	case !connected || text == "":
	case unsafe:
		add(SeverityUnsafe, "settings", remedy, "%s", text)
	default:
		add(SeverityDegraded, "settings", remedy, "%s", text)
	}
	if connected {
		n.addTrialFinding(add)
		n.addListFinding(add)
		n.addClockFindings(i, add)
	}
	if i.Promoted && i.Role == "master" {
		add(SeverityNote, "promoted", "none needed; masters without replicas are what Redlock wants",
			"the node has been a replica, or has had one")
	}
	return list
}

// addListFinding adds a finding if clients are at work whose lists of nodes do not exclude each other, or if this
// Locker's and theirs do not.
func (n *node) addListFinding(add func(severity Severity, code, remedy, format string, args ...any)) {
	clients, clash := n.peers.registry.clients(n.index)
	var lists []string
	other := -1
	for i, c := range clients {
		lists = append(lists, listsInWords(c.Lists))
		if c.Conflict {
			lists[len(lists)-1] += apartInWords(c.apart)
			if other < 0 {
				other = i
			}
		}
	}
	registered := !n.opts.onlyLooks && n.peers.registry.refusal.Load() == nil
	switch {
	case clash, registered && other >= 0:
		if !clash { // the node has yet to be told of this Locker
			lists = append(lists, listsInWords(n.peers.registry.addresses()))
		}
		const remedy = "stop the clients with the wrong list; to change nodes, use WithMigration (docs/changing-nodes.md)"
		add(SeverityUnsafe, "lists", remedy, "clients with lists of nodes that do not exclude each other are at work, so "+
			"two can hold one lock: %s", strings.Join(lists, "; and "))
	case other >= 0:
		const remedy = "correct the list that is wrong: this one, or the others'; to change nodes, use WithMigration " +
			"(docs/changing-nodes.md)"
		add(SeverityUnavailable, "lists", remedy, "%s",
			refusedInWords(n.peers.registry.addresses(), clients[other], n.peers.whyDown))
	}
	if err := n.peers.registry.refused(n.index); err != nil {
		add(SeverityNote, "lists-refused", "allow the commands in docs/deploy/users.acl",
			"which clients use which list of nodes is not known: %v", err)
	}
}

// whyDown says in a few words why there is no connection to the node of that address; "": there is one.
func (p *peers) whyDown(addr string) string {
	for _, n := range p.nodes {
		if _, down := n.conn.State(); n.addr() == addr && down != nil {
			word, more := NodeError{Outcome: OutcomeFailed, Err: down}.short()
			return cmp.Or(lookedUp(down), more, word)
		}
	}
	return ""
}

// refusedInWords says that clients with these lists are refused because of the others': which node of these lists comes
// first that is not in theirs, and what it has, then what they use. whyDown says why a node cannot be reached.
func refusedInWords(own [][]string, others NodeClients, whyDown func(addr string) string) string {
	missing := func(all, in [][]string) (addrs []string) {
		for _, addr := range slices.Concat(all...) {
			if !slices.Contains(slices.Concat(in...), addr) && !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
			}
		}
		return addrs
	}
	text, clients := "", "other clients"
	ours, theirs := missing(own, others.Lists), missing(others.Lists, own)
	switch {
	case others.apart != nil, ours == nil && theirs == nil:
		theirs = []string{listsInWords(others.Lists) + apartInWords(others.apart)}
	case ours == nil:
		text = "this list lacks " + theirs[0]
	default:
		if text = ours[0]; whyDown(ours[0]) != "" {
			text += ": " + whyDown(ours[0])
		} else {
			text += " is in this list alone"
		}
	}
	if text != "" {
		text, clients = text+"; ", "others"
	}
	use := cmp.Or(strings.Join(theirs, " "), "one node less")
	seen, longest := others.seen, seenWithin[len(seenWithin)-1]
	switch {
	case seen.known && seen.within == 0:
		return fmt.Sprintf("%s%s used %s, over %s ago: "+
			"a client with this list is refused until the nodes have forgotten them",
			text, clients, use, guard.Seconds(longest))
	case seen.known && seen.within > seenWithin[0]:
		use += fmt.Sprintf(", or did up to %s ago", guard.Seconds(seen.within))
	}
	return fmt.Sprintf("%s%s use %s: a client with this list is refused as long as they do", text, clients, use)
}

// trial finds out whether scripts may do what locks need: else calls fail half-way.
var trial = lua.Load("trial")

// tried is what trial found.
type tried struct {
	largest    int64       // the largest token that the node knows; 0: unknown
	refusal    *ReplyError // nil: scripts may do all
	undeclared bool        // the refusal: scripts may not use keys that they do not declare
}

// noteTrial takes the reply to trial.
func (n *node) noteTrial(reply any) {
	t := &tried{}
	refusal, refused := reply.(redis.Error)
	said, err := redis.Strings(reply, nil)
	switch odd := err != nil || len(said) != 4; {
	case refused:
		errors.As(explained(refusal, "eval"), &t.refusal)
	case odd:
		n.heard("script trial", fmt.Errorf("script trial: %w", redisconn.Unexpected(reply)))
	case said[1] != "":
		errors.As(explained(redis.Error(said[2]), ""), &t.refusal)
		t.refusal.Command, t.undeclared = strings.ToLower(said[1]), said[3] != ""
	default:
		t.largest, _ = token.Parse(said[0])
		n.heard("script trial", nil)
	}
	n.trial.Store(t)
}

// addTrialFinding adds what a script may not do.
func (n *node) addTrialFinding(add func(severity Severity, code, remedy, format string, args ...any)) {
	switch t := n.trial.Load(); {
	case t == nil || t.refusal == nil:
	case t.undeclared:
		const remedy = "lua-strict-key-accessing no (Kvrocks); --default_lua_flags=allow-undeclared-keys (Dragonfly)"
		add(SeverityDegraded, "undeclared-keys", remedy,
			"scripts may not use keys that they do not declare, so no lock can be taken or released there: %s", t.refusal)
	default:
		add(SeverityDegraded, "reply-"+strings.ToLower(t.refusal.Code), "see the code in docs/operations.md",
			"scripts may not do all that locks need: %s", t.refusal)
	}
}

// noteIdleTimeout takes the reply to CONFIG GET.
func (n *node) noteIdleTimeout(reply any) {
	said, _ := redis.StringMap(reply, nil)
	seconds, _ := strconv.ParseInt(said["timeout"], 10, 64) // 0 if it is refused
	n.idleTimeout.Store(seconds)
}

// addClockFindings adds what is left of a time when the node's clock, or all clocks, were ahead.
func (n *node) addClockFindings(i *guard.Info, add func(severity Severity, code, remedy, format string, args ...any)) {
	if i.Uptime < 0 {
		add(SeverityNote, "uptime", "none needed if its clock is right now",
			"its clock was %s ahead when it started, at least, or is behind: clients go by what they have seen of it", -i.Uptime)
	}
	t, now := n.trial.Load(), n.opts.clock.now()
	if n.opts.fencing && t != nil && n.tokens.TooFarAhead(t.largest, n.tokens.micros(now)) {
		add(SeverityDegraded, "token-ahead",
			fmt.Sprintf("SET %s %d, if the clocks are right now", n.rules.FloorKey(), t.largest),
			"its largest token is %s ahead of the nodes' clocks: names with such tokens cannot be locked before",
			n.tokens.ahead(t.largest, now))
	}
}

// mismatchInWords returns the code of the finding about what answers in place of a node, and the remedy.
func mismatchInWords(kind redisconn.MismatchKind) (code, remedy string) {
	switch kind {
	case redisconn.NotRedis:
		return "not-redis", ""
	case redisconn.Certificate:
		return "certificate", "set RootCAs or ServerName by WithTLSConfig, or replace the node's certificate"
	case redisconn.OurCertificate:
		return "certificate", "set Certificates by WithTLSConfig"
	case redisconn.NoTLS, redisconn.PerhapsNoTLS, redisconn.Alert:
		return "tls", ""
	case redisconn.PerhapsTLS:
		return "unreachable", "check whether the node runs, and what its port leads to"
	default:
		return "unreachable", ""
	}
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
		n.events.look(n.logFindings)
	}
}

// logFindings logs the findings if they have changed. It is run by the goroutine of events.
func (n *node) logFindings() {
	n.reporting.Store(false) // first: what changes from now on is looked at again
	if n.conn.Returns() {
		return
	}
	st := n.status()
	var codes []string
	for _, f := range st.Findings {
		codes = append(codes, fmt.Sprint(f.Code, f.Severity))
	}
	joined := strings.Join(codes, " ")
	if joined == n.logged {
		return
	}
	n.logged = joined
	for _, f := range st.Findings {
		if f.Severity > SeverityNote {
			write := n.opts.logger.Warn
			if f.Severity == SeverityUnsafe {
				write = n.opts.logger.Error
			}
			write("node: "+f.Text, "node", st.Addr, "finding", f.Code, "remedy", f.Remedy)
		}
	}
}
