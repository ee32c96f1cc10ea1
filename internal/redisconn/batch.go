package redisconn

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// group is requests of one command that are sent together: one call of a script, or native commands, each with a reply.
type group struct {
	command  *Command
	requests []*Request
	keys     int32         // of all requests
	answered int32         // requests; guarded by Conn.mu
	sent     time.Duration // when the writer took it: after Conn.since
	replies  []any         // to the next request, if it has several; guarded by Conn.mu
}

const maxGroup = 128 // keys: bounds how long a script runs, and how much Lua has to unpack

// batch sorts requests into groups. Groups are sent one after the other, and requests about one key must stay in order:
// an undo behind the request that it undoes. So each group is on a level: the first request about a key is on level 0,
// the second on level 1, and so on. The levels are sent in order; within a level, no key comes twice.
type batch struct {
	levels []level  // the queue since the last close
	free   []*group // to be reused
	keys   *keySet  // of all requests since the last close; nil: none
}

// level is groups without a key in common, so that their order does not matter.
type level []*group

// keySets are shared by all connections, since one needs its set only while it sorts a batch.
var keySets = sync.Pool{New: func() any { return new(keySet) }}

// add puts r into a group. If there is no room for its keys, it moves the groups so far to out.
func (b *batch) add(r *Request, out *groups) {
	if b.keys != nil && !b.keys.hasRoom(len(r.Hashes)) {
		b.close(out)
	}
	if b.keys == nil {
		b.keys = keySets.Get().(*keySet)
	}
	at := b.keys.add(r.Hashes)
	if at == len(b.levels) {
		b.levels = slices.Grow(b.levels, 1)[:at+1]
	}
	g := b.levels[at].last(r.Command)
	if g == nil || int(g.keys)+len(r.Hashes) > maxGroup {
		g = b.newGroup(r.Command)
		b.levels[at] = append(b.levels[at], g)
	}
	g.requests = append(g.requests, r)
	g.keys += int32(len(r.Hashes))
}

// last returns the last group of a command, nil if there is none.
func (l level) last(k *Command) *group {
	for _, g := range slices.Backward(l) {
		if g.command == k {
			return g
		}
	}
	return nil
}

// close moves all groups to out, level by level, the urgent ones of each first, and forgets the keys.
func (b *batch) close(out *groups) {
	for i, l := range b.levels {
		for _, urgent := range []bool{true, false} {
			for _, g := range l {
				if g.command.Urgent == urgent {
					out.push(g)
				}
			}
		}
		clear(l)
		b.levels[i] = l[:0]
	}
	if b.levels = b.levels[:0]; cap(b.levels) > 64 {
		b.levels = nil // a rare queue for one key is not kept in memory
	}
	if b.keys != nil {
		b.keys.clear()
		keySets.Put(b.keys)
		b.keys = nil
	}
}

func (b *batch) newGroup(k *Command) *group {
	if len(b.free) == 0 {
		return &group{command: k}
	}
	g := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	g.command = k
	return g
}

func (b *batch) recycle(g *group) {
	clear(g.requests)
	g.requests, g.keys, g.answered, g.replies = g.requests[:0], 0, 0, nil
	if len(b.free) < 16 {
		b.free = append(b.free, g)
	}
}

// encode appends the group's commands to those to be flushed.
func (g *group) encode(e *resp.Encoder, extraKey string) {
	k := g.command
	if k.Script == nil {
		for _, r := range g.requests {
			e.Encoded(r.Native)
		}
		return
	}
	if slices.ContainsFunc(g.requests, func(r *Request) bool { return r.eval }) {
		e.ArgString("EVAL")
		e.ArgString(k.Script.Source)
	} else {
		e.ArgString("EVALSHA")
		e.ArgString(k.Script.SHA)
	}
	n := int64(g.keys)
	if k.ExtraKey {
		n++
	}
	e.ArgInt(n)
	for _, r := range g.requests {
		e.ArgEncoded(r.Keys, len(r.Hashes))
	}
	if k.ExtraKey {
		e.ArgString(extraKey)
	}
	k.Args(g.requests, e)
	e.End()
}

// details returns what a script replied about each key, nil if every key had the usual result.
func (g *group) details(r resp.Reply) ([]any, error) {
	all, isList := r.Value.([]any)
	switch {
	case r.Err != nil:
		return nil, r.Err
	case isList && len(all) == int(g.keys):
		return all, nil
	case r.Value == int64(g.keys):
		return nil, nil
	default:
		return nil, resp.Unexpected(r.Value)
	}
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

// peek returns the oldest group, nil if there is none.
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

// keySet says how often keys were added, by their hashes: keys with one hash count as one. To clear it costs nothing.
type keySet struct {
	slots      [1 << 10]keySlot
	generation uint32 // a slot of another generation is empty
	n          int
}

type keySlot struct {
	hash       uint64
	generation uint32 // when it was filled, plus one
	next       uint32 // the level of the key's next request
}

// hasRoom reports whether n more keys may be added. Half of the slots stay empty, which keeps searches short.
func (s *keySet) hasRoom(n int) bool { return s.n+n <= len(s.slots)/2 }

// slot returns the hash's slot, which is new if the hash was not in the set.
func (s *keySet) slot(hash uint64) *keySlot {
	for i := hash; ; i++ {
		at := &s.slots[i%uint64(len(s.slots))]
		if at.generation != s.generation+1 {
			*at = keySlot{hash: hash, generation: s.generation + 1}
			s.n++
			return at
		}
		if at.hash == hash {
			return at
		}
	}
}

// add adds the keys of a request and returns its level, which is above those of all earlier requests about these keys.
func (s *keySet) add(hashes []uint64) int {
	var level uint32
	for _, h := range hashes {
		level = max(level, s.slot(h).next)
	}
	for _, h := range hashes {
		s.slot(h).next = level + 1
	}
	return int(level)
}

func (s *keySet) clear() {
	s.n = 0
	if s.generation++; s.generation == math.MaxUint32 {
		*s = keySet{}
	}
}
