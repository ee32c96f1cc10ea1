package redlock

import (
	"slices"
	"strings"
)

// group is a number of requests of one kind that are sent together: as one call of a
// script, which gets one reply, or as native commands, which get one each.
type group struct {
	kind     *kind
	requests []*request
	keys     int // that the requests are about
	read     int // native: requests answered; guarded by node.mu
}

const maxGroup = 128 // keys: bounds how long a script runs, and what Lua can unpack

// batch sorts requests into groups. Requests for one key must stay in their order – an undo
// behind what it undoes – and groups are sent kind by kind. So a key that comes
// a second time begins a new batch of groups.
type batch struct {
	open [kinds]*group
	free []*group
	keys keySet
}

// add puts r into a group and appends groups that are complete to out.
func (b *batch) add(r *request, out *groups) {
	q := &r.call.question
	if !b.note(q) {
		b.close(out)
		b.note(q)
	}
	at := &b.open[q.kind.index]
	if g := *at; g != nil && g.keys+q.keys() > maxGroup {
		out.push(g)
		*at = nil
	}
	if *at == nil {
		*at = b.take(q.kind)
	}
	g := *at
	g.requests = append(g.requests, r)
	if g.keys += q.keys(); g.keys == maxGroup {
		out.push(g)
		*at = nil
	}
}

// note takes note of the keys, unless one of them has come before, or there is no room for them.
func (b *batch) note(q *question) bool {
	if !b.keys.hasRoom(q.keys()) {
		return false
	}
	if q.several == nil {
		return b.keys.add(q.hash)
	}
	if slices.ContainsFunc(q.several.hashes, b.keys.has) {
		return false
	}
	for _, h := range q.several.hashes {
		b.keys.add(h)
	}
	return true
}

// close appends all open groups to out and begins anew.
func (b *batch) close(out *groups) {
	for i, g := range b.open {
		if g != nil {
			out.push(g)
			b.open[i] = nil
		}
	}
	b.keys.clear()
}

func (b *batch) take(k *kind) *group {
	last := len(b.free) - 1
	if last < 0 {
		return &group{kind: k}
	}
	g := b.free[last]
	b.free = b.free[:last]
	g.kind = k
	return g
}

// put takes back a group that is done with.
func (b *batch) put(g *group) {
	clear(g.requests)
	g.requests, g.keys, g.read = g.requests[:0], 0, 0
	if len(b.free) < 16 {
		b.free = append(b.free, g)
	}
}

// send writes the group's commands into the connection's buffer.
func (g *group) send(w *wire) {
	k := g.kind
	if k.script == nil {
		for _, r := range g.requests {
			r.call.addCommand(w)
		}
		return
	}
	eval, n := false, g.keys
	for _, r := range g.requests {
		eval = eval || r.eval
	}
	if eval {
		w.add("EVAL")
		w.add(k.script.source)
	} else {
		w.addForms(k.script.call, 2)
	}
	if k.tokens {
		n++
	}
	w.add(n)
	for _, r := range g.requests {
		r.call.addKeys(w)
	}
	if k.tokens {
		w.add(g.requests[0].call.tokensKey)
	}
	k.layout(g, w)
	w.end()
}

// answer draws request i's answer from the node's reply to the group. A
// script replies with the number of keys where all of them went as usual,
// and with a list of details otherwise.
func (g *group) answer(i int, reply any, err error) (a answer) {
	if err != nil {
		return answer{vote: voteFailed, err: explained(err, strings.ToLower(g.kind.command))}
	}
	if g.kind.script != nil {
		switch all := reply.(type) {
		case int64:
			if all == int64(g.keys) {
				return answer{vote: voteGranted}
			}
		case []any:
			if len(all) == g.keys {
				return g.pick(i, all)
			}
		}
		return answer{vote: voteFailed, err: unexpected(reply)}
	}
	return g.kind.read(reply)
}

// pick finds in the replies about all keys what is said about those of request i.
func (g *group) pick(i int, replies []any) answer {
	if g.keys == len(g.requests) { // none is about several
		return g.kind.read(replies[i])
	}
	for _, r := range g.requests[:i] {
		replies = replies[r.call.keys():]
	}
	if q := &g.requests[i].call.question; q.several != nil {
		return together(g.kind, replies[:q.keys()])
	}
	return g.kind.read(replies[0])
}

// groups is a queue of groups in a ring.
type groups struct {
	ring    []*group // its length is a power of two
	head, n int
	total   int // requests in all groups
}

func (f *groups) push(g *group) {
	if f.n == len(f.ring) {
		ring := make([]*group, max(16, 2*len(f.ring)))
		for i := range f.n {
			ring[i] = f.at(i)
		}
		f.ring, f.head = ring, 0
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = g
	f.n++
	f.total += len(g.requests)
}

func (f *groups) at(i int) *group { return f.ring[(f.head+i)&(len(f.ring)-1)] }

// peek returns the oldest group, nil where there is none.
func (f *groups) peek() *group {
	if f.n == 0 {
		return nil
	}
	return f.ring[f.head]
}

func (f *groups) pop() {
	f.total -= len(f.ring[f.head].requests)
	f.ring[f.head] = nil
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
}
