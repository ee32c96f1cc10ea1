package sim

import (
	"fmt"
	"sync"
	"time"
)

// A Node is the model of one Redis 7.0 master: one command at a time, keys that expire by the node's own clock,
// scripts, both protocols, and the ways in which a server dies. All methods may be called from any goroutine of the
// bubble.
type Node struct {
	addr string
	seed uint64

	mu       sync.Mutex // protects the following fields: this is Redis's single thread
	clock    nodeClock
	data     dataset
	scripts  map[string]bool // by SHA1; forgotten by SCRIPT FLUSH and by a restart
	lua      *interpreter    // made at the first script
	clients  []*client       // in the order of connecting
	nextID   int64
	config   map[string]string
	password string          // of the default user; "": none
	denied   map[string]bool // commands that the ACL refuses, lower case
	strict   bool            // see Strict
	honoured string          // likewise
	disabled map[string]bool // commands that it does not know, lower case
	faults   []*injection
	calls    map[string]int64
	values   int64 // what scripts have got from the commands that they ran
	observe  func(Command)
	alter    func(Command) (reply any, other bool, late time.Duration)
	liar     *Liar
	copies   map[string]string // clients that hear what others are told: see Copy
	watch    *watch

	up      bool
	paused  bool
	resumed *sync.Cond // signalled by Resume and by a crash; L is &mu
	lives   uint64     // number of starts, the seed of run_id
	started time.Time  // node time of the last start
	runID   string
	replID  string
	replID2 string // all zeros unless the node was promoted
	master  string // address of its master while it is a replica
	loading bool

	serving sync.WaitGroup // connections being served
}

// A Command is one executed command as Observe reports it.
type Command struct {
	At     time.Time // virtual
	Node   string
	Client string
	Conn   int64 // which of the node's connections, by CLIENT ID
	Args   []string
	Reply  any
}

const noReplID = "0000000000000000000000000000000000000000"

// NewNode returns a running, empty node. It has been up for an hour, so that no restart guard is on its mind.
func NewNode(addr string, seed uint64) *Node {
	n := &Node{addr: addr, seed: mix(seed, hash(addr)), clock: newNodeClock(), data: dataset{}, up: true}
	n.resumed = sync.NewCond(&n.mu)
	n.calls = map[string]int64{}
	n.denied = map[string]bool{}
	n.config = map[string]string{
		"maxmemory": "0", "maxmemory-policy": "noeviction", "appendonly": "no", "appendfsync": "everysec",
		"no-appendfsync-on-rewrite": "no", "save": "", "min-replicas-to-write": "0", "repl-backlog-ttl": "3600",
	}
	n.start()
	n.started = n.clock.now().Add(-time.Hour)
	return n
}

// start gives the process its identity. Caller holds mu or owns the node.
func (n *Node) start() {
	n.lives++
	n.up, n.paused, n.loading = true, false, false
	n.started = n.clock.now()
	n.runID = hexID(mix(n.seed, n.lives))
	n.replID = hexID(mix(n.seed+1, n.lives))
	n.replID2 = noReplID
	n.scripts = map[string]bool{}
	n.lua = nil
	clear(n.calls)
}

func hexID(h uint64) string {
	return fmt.Sprintf("%016x%016x%08x", mix(h, 1), mix(h, 2), mix(h, 3)>>32)
}

// Addr returns the address under which the node is attached to a network.
func (n *Node) Addr() string { return n.addr }

// Now returns what the node's clock shows.
func (n *Node) Now() time.Time { return locked(n, func() time.Time { return n.clock.now() }) }

// Step sets the node's clock forward, or back if d is negative.
func (n *Node) Step(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.purge(n.clock.ms()) // what expired before the step does not come back by it
	n.clock.set(d, n.clock.rate)
}

// SetRate makes the node's clock run at the rate: 1.001 gains a millisecond a second.
func (n *Node) SetRate(rate float64) { n.set(func() { n.clock.set(0, rate) }) }

// Observe makes f see every command that a connection or Do executes, with the node's lock held: f must not call the
// node.
func (n *Node) Observe(f func(Command)) { n.set(func() { n.observe = f }) }

// Alter lets f decide what connections get for a command that was executed: another reply, or one that comes late. Nil
// ends that. f must not call the node.
func (n *Node) Alter(f func(Command) (reply any, other bool, late time.Duration)) {
	n.set(func() { n.alter = f })
}

// Do executes a command as a local administrator would: no password, no fault, no pause. It works on a dead node, too,
// and is how tests look at what is there.
func (n *Node) Do(args ...any) any {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = fmt.Sprint(a)
	}
	return n.execute(&client{node: n, trusted: true}, s)
}

// Keys returns the living keys of database 0 in byte order.
func (n *Node) Keys() []string {
	return locked(n, func() []string { return n.data.keys(n.clock.ms()) })
}

// Calls returns how often the command was executed since the start, also inside scripts.
func (n *Node) Calls(command string) int64 {
	return locked(n, func() int64 { return n.calls[command] })
}

// ScriptValues returns how many values scripts have got from the commands that they ran: what a script walks through is
// work that a count of commands does not show.
func (n *Node) ScriptValues() int64 { return locked(n, func() int64 { return n.values }) }

// accept serves conn in the background, and closes it in the end; false: nobody listens.
func (n *Node) accept(conn *Conn, from string, id uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up {
		return false
	}
	n.nextID++
	c := &client{
		node: n, conn: conn, from: from, id: n.nextID, jitter: time.Duration(id % 99991), authed: n.password == "",
	}
	n.clients = append(n.clients, c)
	n.serving.Go(c.loop)
	return true
}

// Close ends the node for good and waits for its connections.
func (n *Node) Close() {
	n.Crash(true)
	n.serving.Wait()
}
