package sim

import (
	"bufio"
	"errors"
	"slices"
	"time"
)

// client is one connection as the node sees it.
type client struct {
	node    *Node
	conn    *Conn
	from    string        // the client's name in the network, for traces
	id      int64         // CLIENT ID
	jitter  time.Duration // spreads connections that are resumed at one instant
	trusted bool          // Node.Do: nothing is refused

	// The following fields are guarded by node.mu.
	gone    bool
	authed  bool
	proto   int64    // 3: RESP3
	subs    []string // channels, in the order of subscribing
	pending []byte   // replies not yet written
}

// loop reads, executes and answers until the connection ends. Replies are written when no further request is buffered,
// as Redis does at the end of its event loop's turn.
func (c *client) loop() {
	defer func() { _ = c.conn.Close() }()
	r := bufio.NewReaderSize(c.conn, 16<<10)
	for {
		args, err := readRequest(r)
		if err != nil {
			c.end(err)
			return
		}
		if len(args) > 0 && !c.handle(args, r.Buffered() == 0) {
			return
		}
	}
}

// handle executes one request in the node's thread. False: the connection is over.
func (c *client) handle(args []string, flush bool) bool {
	n := c.node
	n.mu.Lock()
	for n.paused && !c.gone {
		for n.paused && !c.gone {
			n.resumed.Wait()
		}
		if !c.gone {
			n.mu.Unlock()
			time.Sleep(c.jitter)
			n.mu.Lock()
		}
	}
	defer n.mu.Unlock()
	if c.gone {
		return false
	}
	if n.liar != nil {
		return c.lied(args, flush)
	}
	reply := n.execute(c, args)
	if n.alter != nil {
		instead, other, late := n.alter(Command{Node: n.addr, Args: args, Reply: reply})
		if other {
			reply = instead
		}
		if late > 0 && !c.wait(late) {
			return false
		}
	}
	c.answer(reply)
	if flush {
		c.flush()
	}
	return true
}

// answer appends a reply, or several, to the pending ones.
func (c *client) answer(reply any) {
	if many, ok := reply.(replies); ok {
		for _, r := range many {
			c.append(pushed(r.([]any)))
		}
	} else {
		c.append(reply)
	}
}

// wait lets others have the node for a while, once what is pending is written. False: the connection has ended.
func (c *client) wait(d time.Duration) bool {
	c.flush()
	c.node.mu.Unlock()
	time.Sleep(d)
	c.node.mu.Lock()
	return !c.gone
}

func (c *client) append(reply any) { c.pending = appendReply(c.pending, reply, c.proto == 3) }

// flush writes the pending replies. Caller holds node.mu.
func (c *client) flush() {
	if len(c.pending) > 0 {
		_, _ = c.conn.Write(c.pending) // a broken connection shows itself at the next read
		c.pending = c.pending[:0]
	}
}

// push sends a message out of turn. Caller holds node.mu.
func (c *client) push(message []any) {
	c.append(pushed(message))
	c.flush()
}

// end is called when the peer left or spoke nonsense.
func (c *client) end(err error) {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	if errors.Is(err, errProtocol) && !c.gone {
		c.append(Error("ERR Protocol error"))
		c.flush()
	}
	c.node.forget(c)
}

// abort resets the connection. Caller holds node.mu.
func (c *client) abort() {
	c.gone = true
	c.conn.abort()
}

// forget drops a client from the node's list. Caller holds mu.
func (n *Node) forget(c *client) {
	c.gone = true
	n.clients = slices.DeleteFunc(slices.Clone(n.clients), func(other *client) bool { return other == c })
}
