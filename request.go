package redlock

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/chance"
)

// request is one node's part in a call. The node holds the call as long as it
// has the request.
type request struct {
	call  *call
	node  int
	voted bool // the vote is cast or will be, by whoever set this; guarded by node.mu
	eval  bool // send the script, not its name; guarded by node.mu
}

// fail casts the vote as a failure. Whoever calls it has set voted, or owns
// the request, and holds the call.
func (r *request) fail(err error) { r.answer(answer{vote: voteFailed, err: err}) }

// again prepares r to be sent with the script's source, unless that was done before. A call
// that is over is not asked again: its undo may be on its way already, and must stay
// behind what it undoes. Called with node.mu held.
func (r *request) again() bool {
	if r.eval || !r.call.kind.undo && r.call.over() {
		return false
	}
	r.eval = true
	return true
}

func (r *request) answer(a answer) {
	r.call.answers[r.node] = a
	r.call.cast(r.node, a.vote)
}

// group is a number of requests of one kind that are sent together: as one call of a
// script, which gets one reply, or as native commands, which get one each.
type group struct {
	kind     *kind
	requests []*request
	read     int // native: requests answered; guarded by node.mu
}

const maxGroup = 128 // bounds how long a script runs, and what Lua can unpack

// batch sorts requests into groups. Requests for one key must stay in their order – an undo
// behind what it undoes – and groups are sent kind by kind. So a key that comes
// a second time begins a new batch of groups.
type batch struct {
	open  [kinds]*group
	free  []*group
	seen  [1 << 12]uint32 // by the key's hash: the round that had such a key last
	round uint32          // never 0
}

// add puts r into a group and appends groups that are complete to out.
func (b *batch) add(r *request, out *groups) {
	slot := &b.seen[r.call.hash%uint64(len(b.seen))]
	if *slot == b.round {
		b.close(out) // the same key, or one with the same hash: no harm
	}
	*slot = b.round
	g := b.open[r.call.kind.index]
	if g == nil {
		g = b.take(r.call.kind)
	}
	g.requests = append(g.requests, r)
	b.open[r.call.kind.index] = g
	if len(g.requests) == maxGroup {
		out.push(g)
		b.open[r.call.kind.index] = nil
	}
}

// close appends all open groups to out and begins a new round.
func (b *batch) close(out *groups) {
	for i, g := range b.open {
		if g != nil {
			out.push(g)
			b.open[i] = nil
		}
	}
	if b.round++; b.round == 0 {
		clear(b.seen[:])
		b.round = 1
	}
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
	g.requests, g.read = g.requests[:0], 0
	if len(b.free) < 16 {
		b.free = append(b.free, g)
	}
}

// send writes the group's commands into the connection's buffer. args is
// scratch space, returned for the next time.
func (g *group) send(conn redis.Conn, args []any) ([]any, error) {
	k := g.kind
	if k.script == nil {
		for _, r := range g.requests {
			args = k.native(&r.call.question, args[:0])
			if err := conn.Send(k.command, args...); err != nil {
				return args, err
			}
		}
		return args, nil
	}
	command, name, n := "EVALSHA", k.script.sha, len(g.requests)
	for _, r := range g.requests {
		if r.eval {
			command, name = "EVAL", k.script.source
		}
	}
	if k.tokens {
		n++
	}
	args = append(args[:0], name, n)
	for _, r := range g.requests {
		args = append(args, r.call.key)
	}
	if k.tokens {
		args = append(args, g.requests[0].call.tokensKey)
	}
	for _, r := range g.requests {
		args = append(args, r.call.args[:k.nargs]...)
	}
	err := conn.Send(command, args...)
	clear(args)
	return args, err
}

// answer draws request i's answer from the node's reply to the group. A
// script replies with the number of requests where all of them went as usual,
// and with a list of details otherwise.
func (g *group) answer(i int, reply any, err error) (a answer) {
	if err != nil {
		return answer{vote: voteFailed, err: explained(err, strings.ToLower(g.kind.command))}
	}
	if g.kind.script != nil {
		switch all := reply.(type) {
		case int64:
			if all == int64(len(g.requests)) {
				return answer{vote: voteGranted}
			}
		case []any:
			if len(all) == len(g.requests) {
				return g.kind.read(all[i])
			}
		}
		return answer{vote: voteFailed, err: unexpected(reply)}
	}
	return g.kind.read(reply)
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

// keep filters a queue in place, releasing the calls of what it drops.
func keep(queue []*request, wanted func(*request) bool) []*request {
	kept := queue[:0]
	for _, r := range queue {
		if wanted(r) {
			kept = append(kept, r)
		} else {
			r.call.release()
		}
	}
	clear(queue[len(kept):])
	return kept
}

// isServerError reports whether err is the node's own word, so that the connection is sound.
func isServerError(err error) bool {
	_, ok := err.(redis.Error) //nolint:errorlint // redigo never wraps it, and every reply passes here
	return ok
}

// saysNoScript reports whether the node has not got the script: after SCRIPT
// FLUSH, or where a proxy has changed the node behind it.
func saysNoScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// losesRole reports whether the error says that the node has become a replica.
// Its connections stay open then, so what was learnt at connect is void.
func losesRole(err error) bool {
	return err != nil && codeOf(err.Error()) == "READONLY"
}

// reconnectDelay spreads the attempts of many clients over time.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
