package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/diagnosis"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
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

// NodeClients says with which lists of nodes clients vote, and how many do.
type NodeClients struct {
	Lists [][]string // the addresses of the nodes, as those clients know them: one list, or the old and the new one
	// Clients is how many were seen lately. One that ended without Close counts for a minute or longer: see New.
	Clients int
	// Conflict reports that two could hold one lock: a client with these lists and one with this Locker's.
	Conflict bool
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
					redisconn.Call{
						Args:  []any{"EVAL", trial.Source, 1, n.rules.TokensKey(), n.opts.prefix + ownChannels},
						Heard: n.noteTrial,
					},
					redisconn.Call{Args: []any{"CONFIG", "GET", "timeout"}, Heard: n.noteIdleTimeout},
				) != nil {
					n.conn.CheckSoon() // the check gives the connection up
				}
				n.peers.agreement.Count(ctx, n.index)
			})
		}
	}
	probes.Wait()
}

func (n *node) status() NodeStatus {
	st, found := n.examine()
	for _, f := range found {
		st.Findings = append(st.Findings, Finding{f.Code, Severity(f.Severity), f.Text, f.Remedy})
	}
	return st
}

// findings returns the findings to be logged, unless the node is about to be connected again.
func (n *node) findings() (found []diagnosis.Finding, settled bool) {
	n.reporting.Store(false) // first: what changes from now on is looked at again
	if n.conn.Returns() {
		return nil, false
	}
	_, found = n.examine()
	return found, true
}

// examine returns what is known about the node, and what diagnosis finds in it.
func (n *node) examine() (NodeStatus, []diagnosis.Finding) {
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
	said := n.peers.agreement.Said(n.index)
	for _, c := range said.Clients {
		st.Clients = append(st.Clients, NodeClients{Lists: c.Lists, Clients: c.Count, Conflict: c.Conflict})
	}
	st.List = n.membership()
	return st, diagnosis.Findings(n.facts(info, &st, said))
}

// facts gathers what the findings go by. said: what the node said of lists.
func (n *node) facts(i *guard.Info, st *NodeStatus, said agreement.Said) *diagnosis.Facts {
	f := &diagnosis.Facts{MayRefuseInfo: n.opts.withoutInfo, MayEvict: n.opts.evictionAllowed}
	f.Trouble, f.Error, f.Reply = troubleOf(st.Err)
	if odd := n.odd.Load(); st.Connected && odd != nil {
		f.Odd = odd.err.Error()
	}
	if i != nil {
		n.addInfo(f, i)
	}
	if i != nil && st.Connected { // else these may have changed
		f.Uptime = i.Uptime
		f.SettingsUnsafe, f.Settings, f.SameSettings = n.peers.agreement.Disagreement(n.index)
		n.addTrial(f)
		n.addLists(f, said)
	}
	return f
}

// addInfo adds what the node says of itself.
func (n *node) addInfo(f *diagnosis.Facts, i *guard.Info) {
	f.InfoRefused, f.ConfigRefused = i.Refused, i.Blind
	f.Role, f.Promoted = i.Role, i.Promoted
	f.AppendOnly, f.Fsync, f.NoFsyncOnRewrite = i.AOF, i.Fsync, i.Lazy
	f.UsedMemory, f.MaxMemory, f.Policy = i.UsedMemory, i.MaxMemory, i.Policy
	f.IdleTimeout, f.ProbePause = n.idleTimeout.Load(), int64(longestPause/time.Second)
	if f.RecordKey = n.rules.RecordKey(); i.Unkept != nil {
		f.Unkept = i.Unkept.Error()
	}
}

// addTrial adds what a script may not do, and the largest token if it is too large.
func (n *node) addTrial(f *diagnosis.Facts) {
	t, now := n.trial.Load(), n.opts.clock.now()
	if t == nil {
		return
	}
	if t.refusal != nil {
		f.ScriptRefused, f.ScriptReply, f.Undeclared = t.refusal.Error(), t.refusal.Code, t.undeclared
	}
	if n.opts.fencing && n.tokens.TooFarAhead(t.largest, n.tokens.micros(now)) {
		f.Token, f.TokenAhead, f.FloorKey = t.largest, n.tokens.ahead(t.largest, now), n.rules.FloorKey()
	}
}

// addLists adds the lists of nodes with which clients vote, as the node says.
func (n *node) addLists(f *diagnosis.Facts, said agreement.Said) {
	f.Own, f.OwnInWords, f.Down = said.Own, listsInWords(said.Own), n.peers.whyDown()
	f.Clash, f.Registered = said.Clash, !n.opts.onlyLooks && n.peers.agreement.Refusal() == nil
	for _, c := range said.Clients {
		f.Clients = append(f.Clients, diagnosis.Clients{
			Lists: c.Lists, InWords: listsInWords(c.Lists) + apartInWords(c.Apart),
			Conflict: c.Conflict, Elsewhere: c.Apart != nil,
			Seen: int(max(c.Within, c.Gone) / time.Second), Gone: c.Gone > 0,
		})
	}
	if said.Refused != nil {
		f.ListsRefused = said.Refused.Error()
	}
}

// whyDown says in a few words why nodes do not answer, by address.
func (p *peers) whyDown() map[string]string {
	why := make(map[string]string)
	for _, n := range p.nodes {
		if _, down := n.conn.State(); down != nil {
			word, more := NodeError{Outcome: OutcomeFailed, Err: down}.short()
			why[n.addr()] = cmp.Or(lookedUp(down), more, word)
		}
	}
	return why
}

// trial finds out whether scripts may do what locks need: else calls fail half-way.
var trial = lua.Load("trial")

// noteTrial takes the reply to trial.
func (n *node) noteTrial(reply any, failed error) {
	if failed != nil {
		return
	}
	t := &tried{}
	refusal, refused := reply.(redis.Error)
	said, err := redis.Strings(reply, nil)
	switch odd := err != nil || len(said) != 4; {
	case refused:
		errors.As(explained(refusal, "eval"), &t.refusal)
	case odd:
		n.heard("script trial", fmt.Errorf("script trial: %w", resp.Unexpected(reply)))
	case said[1] != "":
		errors.As(explained(redis.Error(said[2]), ""), &t.refusal)
		t.refusal.Command, t.undeclared = strings.ToLower(said[1]), said[3] != ""
	default:
		t.largest, _ = token.Parse(said[0])
		n.heard("script trial", nil)
	}
	n.trial.Store(t)
}

// noteIdleTimeout takes the reply to CONFIG GET.
func (n *node) noteIdleTimeout(reply any, failed error) {
	if failed != nil {
		return
	}
	said, _ := redis.StringMap(reply, nil)
	seconds, _ := strconv.ParseInt(said["timeout"], 10, 64) // 0 if it is refused
	n.idleTimeout.Store(seconds)
}
