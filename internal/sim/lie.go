package sim

import (
	"slices"
	"time"
)

// A Lie is what goes to a client in place of the reply to a command, and what goes before it. The zero Lie is the
// truth.
type Lie struct {
	Instead bool // of the true reply goes
	Reply   any
	Raw     string   // if not empty: these bytes, in place of any reply
	Ends    bool     // the connection, behind that
	Told    []string // channels and messages in turn, to those who listen
}

// A Liar makes a node lie. Its functions are called with the node's lock held: they must not call the node.
type Liar struct {
	Ignores func(Command) bool // whether a command is not executed, though it is answered
	Says    func(Command) Lie  // is given the command with its true reply: nil, where it was not executed
}

// Corrupt has a liar between the node and all connections, or nobody again.
func (n *Node) Corrupt(l *Liar) { n.set(func() { n.liar = l }) }

// lied executes a request and answers it as the liar wants. False: the connection is over. Caller holds node.mu.
func (c *client) lied(args []string, flush bool) bool {
	n := c.node
	command := Command{At: time.Now(), Node: n.addr, Client: c.from, Conn: c.id, Args: args}
	if !n.liar.Ignores(command) {
		command.Reply = n.execute(c, args)
	}
	lie := n.liar.Says(command)
	for i := 0; i+1 < len(lie.Told); i += 2 {
		for _, other := range n.clients {
			if slices.Contains(other.subs, lie.Told[i]) {
				other.push([]any{"message", lie.Told[i], lie.Told[i+1]})
			}
		}
	}
	switch {
	case lie.Raw != "":
		c.pending = append(c.pending, lie.Raw...)
	case lie.Instead:
		c.answer(lie.Reply)
	default:
		c.answer(command.Reply)
	}
	if flush || lie.Ends {
		c.flush()
	}
	if lie.Ends {
		n.forget(c)
	}
	return !lie.Ends
}
