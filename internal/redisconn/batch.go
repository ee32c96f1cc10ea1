package redisconn

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// group is requests of one command that are sent together: as one call of a script, which gets one reply, or as native
// commands, which get one reply each.
type group struct {
	command  *Command
	requests []*Request
	keys     int   // of all requests
	answered int   // requests; guarded by Conn.mu
	replies  []any // to the next request, if it has several; guarded by Conn.mu
}

const maxGroup = 128 // keys: bounds how long a script runs, and how much Lua has to unpack

// batch sorts requests into groups. Groups are sent one after the other, and requests about one key must stay in order:
// an undo behind the request that it undoes. So a key that comes a second time closes all open groups.
type batch struct {
	open []*group // one for each command
	free []*group // to be reused
	keys *keySet  // of all requests since the last close; nil: none
}

// keySets are shared by all connections, since one needs its set only while it sorts a batch.
var keySets = sync.Pool{New: func() any { return new(keySet) }}

// add puts r into a group and appends the groups that are complete to out.
func (b *batch) add(r *Request, out *groups) {
	if !b.addKeys(r.Hashes) {
		b.close(out)
		b.addKeys(r.Hashes)
	}
	at := slices.IndexFunc(b.open, func(g *group) bool { return g.command == r.Command })
	if at >= 0 && b.open[at].keys+len(r.Hashes) > maxGroup {
		b.complete(at, out)
		at = -1
	}
	if at < 0 {
		at = len(b.open)
		b.open = append(b.open, b.newGroup(r.Command))
	}
	g := b.open[at]
	g.requests = append(g.requests, r)
	if g.keys += len(r.Hashes); g.keys == maxGroup {
		b.complete(at, out)
	}
}

// addKeys adds the keys to the set. It adds none and returns false if one is in the set already, or if the set is full.
func (b *batch) addKeys(hashes []uint64) bool {
	if b.keys == nil {
		b.keys = keySets.Get().(*keySet)
	}
	if !b.keys.hasRoom(len(hashes)) || slices.ContainsFunc(hashes, b.keys.has) {
		return false
	}
	for _, h := range hashes {
		b.keys.add(h)
	}
	return true
}

// complete moves an open group to out.
func (b *batch) complete(at int, out *groups) {
	out.push(b.open[at])
	b.open = slices.Delete(b.open, at, at+1)
}

// close moves all open groups to out, the urgent ones first, and forgets the keys. No two of these groups have a key in
// common, so that their order does not matter.
func (b *batch) close(out *groups) {
	for _, urgent := range []bool{true, false} {
		for _, g := range b.open {
			if g.command.Urgent == urgent {
				out.push(g)
			}
		}
	}
	clear(b.open)
	b.open = b.open[:0]
	if b.keys != nil {
		b.keys.clear()
		keySets.Put(b.keys)
		b.keys = nil
	}
}

func (b *batch) newGroup(k *Command) *group {
	last := len(b.free) - 1
	if last < 0 {
		return &group{command: k}
	}
	g := b.free[last]
	b.free = b.free[:last]
	g.command = k
	return g
}

// recycle keeps an answered group for reuse.
func (b *batch) recycle(g *group) {
	clear(g.requests)
	g.requests, g.keys, g.answered, g.replies = g.requests[:0], 0, 0, nil
	if len(b.free) < 16 {
		b.free = append(b.free, g)
	}
}

// encode appends the group's commands to those to be flushed.
func (g *group) encode(e *Encoder, extraKey string) {
	k := g.command
	if k.Script == nil {
		for _, r := range g.requests {
			e.buf = append(e.buf, r.Native...)
		}
		return
	}
	eval, n := false, g.keys
	for _, r := range g.requests {
		eval = eval || r.eval
	}
	if eval {
		e.AddString("EVAL")
		e.AddString(k.Script.Source)
	} else {
		e.AddString("EVALSHA")
		e.AddString(k.Script.SHA)
	}
	if k.ExtraKey {
		n++
	}
	e.AddInt(int64(n))
	for _, r := range g.requests {
		e.AddEncoded(r.Keys, len(r.Hashes))
	}
	if k.ExtraKey {
		e.AddString(extraKey)
	}
	k.Args(g.requests, e)
	e.end()
}

// details returns what a script replied about each key, nil if every key had the usual result.
func (g *group) details(r reply) ([]any, error) {
	if r.err != nil {
		return nil, r.err
	}
	switch all := r.value.(type) {
	case int64:
		if all == int64(g.keys) {
			return nil, nil
		}
	case []any:
		if len(all) == g.keys {
			return all, nil
		}
	}
	return nil, fmt.Errorf("unexpected reply %v", r.value)
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

// keySet is a set of keys, by their hashes: two keys with one hash count as one. To clear it costs nothing. The zero
// value is empty.
type keySet struct {
	slots      [1 << 10]keySlot
	generation uint32 // a slot of another generation is empty
	n          int
}

type keySlot struct {
	hash       uint64
	generation uint32 // when it was filled, plus one
}

// hasRoom reports whether n more keys may be added. Half of the slots stay empty, which keeps searches short.
func (s *keySet) hasRoom(n int) bool { return s.n+n <= len(s.slots)/2 }

// slot returns the hash's slot, or the empty slot where it belongs.
func (s *keySet) slot(hash uint64) (at *keySlot, in bool) {
	for i := hash; ; i++ {
		at = &s.slots[i%uint64(len(s.slots))]
		if at.generation != s.generation+1 {
			return at, false
		}
		if at.hash == hash {
			return at, true
		}
	}
}

func (s *keySet) has(hash uint64) bool {
	_, in := s.slot(hash)
	return in
}

func (s *keySet) add(hash uint64) {
	at, in := s.slot(hash)
	if !in {
		*at = keySlot{hash, s.generation + 1}
		s.n++
	}
}

func (s *keySet) clear() {
	s.n = 0
	if s.generation++; s.generation == math.MaxUint32 {
		*s = keySet{}
	}
}
