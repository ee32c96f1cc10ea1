package sim

import "time"

// A Data shows a node's data set to who watches a command, for as long as that lasts.
type Data struct {
	node *Node
	now  int64
}

// Text returns the string at a key, or "" where there is none.
func (d Data) Text(key string) string {
	e := d.node.data.find(key, d.now)
	if e == nil || e.kind != kindString {
		return ""
	}
	return e.str
}

// Score returns the score of a member of the sorted set at a key, or false where there is none.
func (d Data) Score(key, member string) (float64, bool) {
	e := d.node.data.find(key, d.now)
	if e == nil || e.kind != kindZSet {
		return 0, false
	}
	score, ok := e.scores[member]
	return score, ok
}

// Members returns the members of the sorted set at a key, in its order.
func (d Data) Members(key string) (all []string) {
	if e := d.node.data.find(key, d.now); e != nil && e.kind == kindZSet {
		for _, m := range e.ranked() {
			all = append(all, m.name)
		}
	}
	return all
}

// Now returns the node's clock in ms.
func (d Data) Now() int64 { return d.now }

// Expires returns the node's time in ms after which a key is gone, or 0 where there is none or it has no end.
func (d Data) Expires(key string) int64 {
	if e := d.node.data.find(key, d.now); e != nil {
		return e.expires
	}
	return 0
}

type watch struct {
	keys []string
	tell func(c Command, before []string, after Data)
}

// Watch makes f see every command that a connection executes, with the strings that the keys held before it and with
// all data after it. The node's lock is held: f must not call the node.
func (n *Node) Watch(keys []string, f func(c Command, before []string, after Data)) {
	n.set(func() { n.watch = &watch{keys, f} })
}

// watched runs a command between two looks at the keys. Caller holds mu.
func (n *Node) watched(c *client, args []string, run func() any) any {
	if n.watch == nil || c.trusted {
		return run()
	}
	before := make([]string, len(n.watch.keys))
	data := Data{n, n.clock.ms()}
	for i, key := range n.watch.keys {
		before[i] = data.Text(key)
	}
	reply := run()
	n.watch.tell(Command{At: time.Now(), Node: n.addr, Client: c.from, Conn: c.id, Args: args, Reply: reply}, before, data)
	return reply
}
