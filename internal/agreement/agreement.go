// Package agreement is what clients that lock the same names tell the nodes and learn of each other: settings, lists of
// nodes, and a label for people. Nobody compares their configurations, and two that disagree can hold one lock.
//
// It knows what is sent behind a handshake or a probe, what was said, and whether this client may lock. It must not
// know holds, rounds, options, nor what users see of an error.
//
// To be read in this order: label.go; settings.go (pure); lists.go, node.go, registry.go and refusal.go (pure: lists as
// text, what a node said, what to ask and to tell, who is refused); exchange.go and count.go, which ask; this file.
package agreement

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// Agreement is what one client and its nodes have told each other.
type Agreement struct {
	Label     *Label       // which draws the owners of the client's holds
	longest   atomic.Int64 // the longest TTL of a call, in ns; 0: no lock was asked for yet
	*exchange              // of lists

	mu    sync.Mutex // guards known and labelled of the nodes; nothing is called while it is held
	nodes []disclosure
}

// disclosure is what one node was told and has said, lists aside.
type disclosure struct {
	ttl      int64      // the longest that the last handshake told; owned by Handshake and Connected
	known    []settings // those in use, also this client's, as the node said last
	labelled time.Time  // when it last got the label
}

var settingsScript = lua.Load("settings")

// Scripts returns the scripts that an Agreement sends.
func Scripts() []*lua.Script { return []*lua.Script{settingsScript, listsScript} }

// New returns the Agreement of a client that has told nobody anything.
func New(c Config) *Agreement {
	return &Agreement{
		Label: newLabel(c.Label, c.Guard, c.TTL), exchange: newExchange(c), nodes: make([]disclosure, len(c.Conns)),
	}
}

// Handshake returns what to ask a node on connecting. It tells the settings alone: lists are told by Connected.
func (a *Agreement) Handshake(node int) []redisconn.Call {
	a.nodes[node].ttl = a.longest.Load()
	return []redisconn.Call{a.tellSettings(node), a.call(node, modeAsk)}
}

// Connected sends what must go ahead of requests, over a new connection: also of those that waited for it.
func (a *Agreement) Connected(node int) {
	for _, call := range a.leaveLabel(node, 0) {
		a.conf.Conns[node].AskScript(call)
	}
	a.tell(modeVote, func(g *registry) quorum.Set { return g.connected(node) })
	a.tell(modeCount, func(g *registry) quorum.Set { return g.recounts(quorum.Set(0).With(node), a.conf.Now()) })
	if a.longest.Load() != a.nodes[node].ttl { // a call has begun since
		a.conf.Conns[node].AskScript(a.tellSettings(node))
	}
}

// Probe returns what to ask a node with a probe. A quick one leaves out what was exchanged a moment ago.
func (a *Agreement) Probe(node int, kind guard.ProbeKind) []redisconn.Call {
	calls := a.leaveLabel(node, a.Label.kept/4)
	if mode := a.due(node); mode != "" || kind != guard.QuickProbe {
		calls = append(calls, a.tellSettings(node), a.call(node, cmp.Or(mode, modeAsk)))
	}
	return calls
}

// UseTTL is called with the TTL of each call. If it is longer than all before, the nodes are told: once, in most
// programs. UseTTL does not wait, but goes ahead of what the call sends.
func (a *Agreement) UseTTL(ttl time.Duration) {
	if !raise(&a.longest, int64(ttl)) {
		return
	}
	for i, conn := range a.conf.Conns {
		conn.AskScript(a.tellSettings(i))
	}
	a.tell(modeVote, func(g *registry) quorum.Set { return g.prolong(ttl) })
}

// Said is what a node said of lists.
type Said struct {
	Clients []Clients
	Clash   bool       // some two of their lists do not exclude each other
	Refused error      // why the node says nothing, or nil
	Own     [][]string // the addresses in this client's lists
}

// Said returns what a node said of lists.
func (a *Agreement) Said(node int) Said {
	a.exchange.mu.Lock()
	defer a.exchange.mu.Unlock()
	g := a.registry
	clients, clash := g.clients(node, a.conf.Now())
	return Said{clients, clash, g.at[node].refused, g.lists.Addresses()}
}

// Refusal returns why the client may not lock, or nil.
func (a *Agreement) Refusal() *Conflict { return a.registry.refusal.Load() }

// Disagreement describes how the settings of other clients differ from this one's; text is "" if they do not.
func (a *Agreement) Disagreement(node int) (unsafe bool, text, remedy string) {
	a.mu.Lock()
	known := a.nodes[node].known
	a.mu.Unlock()
	return a.settings().compare(known)
}

func (a *Agreement) settings() settings {
	return settings{a.conf.Guard, a.conf.Retention, time.Duration(a.longest.Load())}
}

// tellSettings returns the call that tells a node the settings and asks for others'. One that refuses tells nothing.
func (a *Agreement) tellSettings(node int) redisconn.Call {
	told := ""
	if s := a.settings(); s.ttl > 0 {
		told = s.String()
	}
	heard := func(reply any, err error) {
		if err != nil {
			return
		}
		texts, err := redis.Strings(reply, nil)
		if _, refused := reply.(redis.Error); err != nil && !refused {
			err = fmt.Errorf("script settings: %w", resp.Unexpected(reply))
		}
		a.conf.Heard(node, "script settings", err)
		a.mu.Lock()
		a.nodes[node].known = readSettings(texts)
		a.mu.Unlock()
	}
	return redisconn.Call{Script: settingsScript, Args: []any{1, a.conf.Prefix + "settings", told}, Heard: heard}
}

// leaveLabel returns the call that leaves the label on a node; none if that was done within the time given.
func (a *Agreement) leaveLabel(node int, within time.Duration) []redisconn.Call {
	at, now := &a.nodes[node], a.conf.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Label.text == "" || now.Sub(at.labelled) < within {
		return nil
	}
	at.labelled = now
	heard := func(any, error) {} // without a label, locks are as good
	args := []any{"SET", a.conf.Prefix + "label:" + a.Label.ID(), a.Label.text, "PX", a.Label.kept.Milliseconds()}
	return []redisconn.Call{{Args: args, Heard: heard}}
}
