package modelcheck

import (
	"fmt"
	"slices"
	"time"
)

// key is a state packed into a few words: what the explorer remembers of it. Two states with one key must have the same
// future; a model uses that to merge states that differ only in the names of its nodes.
type key [nodes]uint64

// model is a transition system over states S and actions A.
type model[S, A any] interface {
	initial() []S
	// next emits every state that one action leads to from s, which it leaves alone. broken is empty, or the property
	// that this very action violates.
	next(s *S, emit func(act A, t *S, broken string))
	key(s *S) key
}

type step[S, A any] struct {
	before S
	act    A
	after  S
}

// outcome is what an exploration found. If broken is empty, no reachable state violates a property.
type outcome[S, A any] struct {
	states  int
	depth   int // actions from an initial state to the farthest one
	elapsed time.Duration
	broken  string
	trace   []step[S, A] // a shortest way to the violation; empty if there is none
}

func (o *outcome[S, A]) String() string {
	verdict := "clean"
	if o.broken != "" {
		verdict = fmt.Sprintf("broken in %d steps", len(o.trace))
	}
	return fmt.Sprintf("%s: %d states, depth %d, %.2f s", verdict, o.states, o.depth, o.elapsed.Seconds())
}

// explore visits every reachable state, breadth first, and stops at the first violation, to which its trace is
// therefore a shortest one.
func explore[S, A any](m model[S, A]) *outcome[S, A] {
	start := time.Now()
	out := &outcome[S, A]{}
	seen := newVisited()
	type visit struct {
		id    uint32
		state S
	}
	var level, following []visit
	for _, s := range m.initial() {
		if id, isNew := seen.add(m.key(&s), noParent); isNew {
			level = append(level, visit{id, s})
		}
	}
	brokenAt := uint32(noParent)
	for len(level) > 0 && out.broken == "" {
		following = following[:0]
		for i := range level {
			id := level[i].id
			m.next(&level[i].state, func(_ A, t *S, broken string) {
				if out.broken != "" {
					return
				}
				if broken != "" {
					out.broken, brokenAt = broken, id
					return
				}
				if child, isNew := seen.add(m.key(t), id); isNew {
					following = append(following, visit{child, *t})
				}
			})
			if out.broken != "" {
				break
			}
		}
		if len(following) > 0 {
			out.depth++
		}
		level, following = following, level
	}
	out.states = len(seen.keys)
	if out.broken != "" {
		out.trace = replay(m, seen.path(brokenAt))
	}
	out.elapsed = time.Since(start)
	return out
}

// replay walks a path of keys again, now with the states and actions themselves, and one more step into the violation.
// Keys forget which node is which; the walk from one concrete state to the next gives the names back.
func replay[S, A any](m model[S, A], path []key) []step[S, A] {
	var trace []step[S, A]
	var at S
	for _, s := range m.initial() {
		if m.key(&s) == path[0] {
			at = s
		}
	}
	for i := range path {
		var found *step[S, A]
		m.next(&at, func(act A, t *S, broken string) {
			last := i == len(path)-1
			if found == nil && (last && broken != "" || !last && broken == "" && m.key(t) == path[i+1]) {
				found = &step[S, A]{at, act, *t}
			}
		})
		trace = append(trace, *found)
		at = found.after
	}
	return trace
}

const noParent = 1<<32 - 1

// visited is a set of keys that knows from where each was reached first: open addressing over a slice, because a Go map
// of the same would need twice the memory.
type visited struct {
	keys   []key
	parent []uint32
	slots  []uint32 // index into keys plus one; 0 is free
}

func newVisited() *visited { return &visited{slots: make([]uint32, 1<<12)} }

// add returns the index of k and whether it was not there before.
func (v *visited) add(k key, parent uint32) (uint32, bool) {
	if len(v.keys)*2 >= len(v.slots) {
		v.grow()
	}
	slot := v.find(k)
	if at := v.slots[slot]; at != 0 {
		return at - 1, false
	}
	v.keys = append(v.keys, k)
	v.parent = append(v.parent, parent)
	v.slots[slot] = uint32(len(v.keys))
	return uint32(len(v.keys) - 1), true
}

// find returns the slot that holds k, or the free one where it belongs.
func (v *visited) find(k key) uint64 {
	mask := uint64(len(v.slots) - 1)
	h := uint64(0)
	for _, word := range k {
		h = (h ^ word) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	for slot := h & mask; ; slot = (slot + 1) & mask {
		if at := v.slots[slot]; at == 0 || v.keys[at-1] == k {
			return slot
		}
	}
}

func (v *visited) grow() {
	v.slots = make([]uint32, 2*len(v.slots))
	for i, k := range v.keys {
		v.slots[v.find(k)] = uint32(i + 1)
	}
}

// path returns the keys from an initial state to the one at index id.
func (v *visited) path(id uint32) []key {
	var path []key
	for ; id != noParent; id = v.parent[id] {
		path = append(path, v.keys[id])
	}
	slices.Reverse(path)
	return path
}
