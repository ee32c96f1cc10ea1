package sim

import (
	"strings"
	"time"
)

// set changes what the node is.
func (n *Node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// locked returns what f says of the node.
func locked[T any](n *Node, f func() T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return f()
}

// Crash kills the node as kill -9 does: open connections are reset, dialling is refused. What the node holds survives
// if keepData (appendfsync always), else it is gone.
func (n *Node) Crash(keepData bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = false
	if !keepData {
		n.data = dataset{}
	}
	n.disconnect()
}

// disconnect resets every connection. Caller holds mu.
func (n *Node) disconnect() {
	for _, c := range n.clients {
		c.abort()
	}
	n.clients = nil
	n.resumed.Broadcast()
}

// Restart starts a crashed node: a new identity, an uptime of 0, no scripts. Keys that expired meanwhile are gone.
func (n *Node) Restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disconnect() // a running node is killed first
	n.start()
	n.data.purge(n.clock.ms())
}

// A Snapshot is what an RDB file of an instant holds.
type Snapshot struct{ data dataset }

// Snapshot copies the data set.
func (n *Node) Snapshot() Snapshot {
	return locked(n, func() Snapshot { return Snapshot{n.data.clone()} })
}

// RestartFrom is Restart from an older state: everything since the snapshot is rolled back.
func (n *Node) RestartFrom(s Snapshot) {
	n.set(func() { n.data = s.data.clone() })
	n.Restart()
}

// Up reports whether the node runs, paused or not.
func (n *Node) Up() bool { return locked(n, func() bool { return n.up }) }

// Pause stops the process as SIGSTOP does: connections are accepted, requests pile up, the clock goes on.
func (n *Node) Pause() { n.set(func() { n.paused = true }) }

// Resume ends Pause. Connections are served in an order that the seed decides.
func (n *Node) Resume() { n.set(func() { n.paused = false; n.resumed.Broadcast() }) }

// Demote makes the node a replica of another, as REPLICAOF does: connections live on, writes are refused. The model
// replicates nothing.
func (n *Node) Demote(master string) { n.set(func() { n.master = master }) }

// Promote makes a replica a master, as REPLICAOF NO ONE does: run_id and connections stay, replid changes. On a node
// that is a master it does nothing.
func (n *Node) Promote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.master == "" {
		return
	}
	n.master = ""
	n.lives++
	n.replID2, n.replID = n.replID, hexID(mix(n.seed+2, n.lives))
}

// BackUp gives a master another replication id, as the first replica that comes does, or a backup: it makes a backlog.
// A node that was promoted has one.
func (n *Node) BackUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replID2 == noReplID {
		n.lives++
		n.replID = hexID(mix(n.seed+3, n.lives))
	}
}

// SetLoading makes the node answer LOADING, or ends that.
func (n *Node) SetLoading(loading bool) { n.set(func() { n.loading = loading }) }

// SetPassword sets requirepass; connections that are open stay authenticated.
func (n *Node) SetPassword(password string) { n.set(func() { n.password = password }) }

// Disable makes the node not know the commands, like rename-command in its configuration.
func (n *Node) Disable(commands ...string) { n.set(func() { n.disabled = lowered(commands) }) }

// Deny makes the ACL refuse the commands; Deny() allows everything again.
func (n *Node) Deny(commands ...string) { n.set(func() { n.denied = lowered(commands) }) }

func lowered(commands []string) map[string]bool {
	set := map[string]bool{}
	for _, c := range commands {
		set[strings.ToLower(c)] = true
	}
	return set
}

// Strict makes the node refuse that scripts use keys which they do not declare, unless they begin with honoured, if
// that is not empty.
func (n *Node) Strict(honoured string) { n.set(func() { n.strict, n.honoured = true, honoured }) }

// SetConfig sets a parameter of CONFIG. maxmemory of 1 makes every write that may need memory fail with OOM.
func (n *Node) SetConfig(name, value string) { n.set(func() { n.config[name] = value }) }

// SetUptime makes INFO report the uptime: what a node says of its age is all that a client can know.
func (n *Node) SetUptime(d time.Duration) { n.set(func() { n.started = n.clock.now().Add(-d) }) }

// injection is an error that is answered in place of execution.
type injection struct {
	command string
	reply   Error
	left    int // times; < 0: for ever
}

// Fail makes the node answer the command ("*": every one) with the error instead of executing it, so many times; a
// negative number means until Recover. Commands inside scripts are not concerned.
func (n *Node) Fail(command, reply string, times int) {
	n.set(func() { n.faults = append(n.faults, &injection{strings.ToLower(command), Error(reply), times}) })
}

// Recover ends every Fail.
func (n *Node) Recover() { n.set(func() { n.faults = nil }) }

func (n *Node) injected(command string) (Error, bool) {
	for _, f := range n.faults {
		if f.left != 0 && (f.command == "*" || f.command == command) {
			if f.left > 0 {
				f.left--
			}
			return f.reply, true
		}
	}
	return "", false
}
