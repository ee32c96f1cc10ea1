// Package quorum decides what votes amount to: who votes, in one list of nodes or in two; what is a majority; when an
// outcome is certain; who asks again after a tie; which node lists exclude each other.
//
// It is pure: it knows votes and what nodes have said, as values, and not how nodes are asked, the time, or names.
package quorum

import (
	"math/bits"
	"slices"
	"time"
)

// Electorate is who votes: one list of nodes, or two while the nodes are being changed (WithNewNodes). What counts is
// a majority of each list. A node that is in both lists votes in both.
//
// Two clients exclude each other if both need a majority of one list, whatever else each of them needs: these
// majorities share a node, as always. So a client with the lists A and B excludes those with A alone and those with B
// alone, which do not exclude each other. Raft changes its members by the same rule, which it calls joint consensus
// (Ongaro, Consensus: Bridging Theory and Practice, 2014, section 4.3).
type Electorate struct {
	All   Set // the nodes of all lists
	Size  int // their number
	lists []list
}

type list struct {
	nodes Set
	size  int
	need  int // a majority
}

// OneList returns the electorate of n nodes in one list.
func OneList(n int) *Electorate { return New(All(n)) }

// New returns the electorate of the lists.
func New(lists ...Set) *Electorate {
	e := &Electorate{}
	for _, nodes := range lists {
		e.lists = append(e.lists, list{nodes, nodes.Size(), Majority(nodes.Size())})
		e.All |= nodes
	}
	e.Size = e.All.Size()
	return e
}

// Majority returns the smallest size of a set of n nodes such that any two sets of that size share a node.
func Majority(n int) int { return n/2 + 1 }

// Suffice reports whether the nodes are a majority of each list, as a hold needs it.
func (e *Electorate) Suffice(nodes Set) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).Size() < l.need {
			return false
		}
	}
	return true
}

// MayHold reports whether the nodes are a majority of some list: enough for a client that may have that list alone.
func (e *Electorate) MayHold(nodes Set) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).Size() >= l.need {
			return true
		}
	}
	return false
}

// Block reports whether the nodes are so many that the others cannot suffice.
func (e *Electorate) Block(nodes Set) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).Size() > l.size-l.need {
			return true
		}
	}
	return false
}

// NoReply stands for the time of a node that has not told one.
const NoReply time.Duration = -1

// MajorityBy returns after how long a majority of each list has reached its time, given the times by node, as far as
// majorities have told theirs. known is false if none has.
func (e *Electorate) MajorityBy(times []time.Duration) (d time.Duration, known bool) {
	for _, l := range e.lists {
		if told := l.sorted(times); len(told) >= l.need {
			d, known = max(d, told[l.need-1]), true
		}
	}
	return d, known
}

// KeptFor returns for how long a majority of some list keeps what each node keeps for its time.
func (e *Electorate) KeptFor(times []time.Duration) (d time.Duration) {
	for _, l := range e.lists {
		if told := l.sorted(times); len(told) >= l.need {
			d = max(d, told[len(told)-l.need])
		}
	}
	return d
}

// sorted returns the times that nodes of the list have told, in order.
func (l *list) sorted(times []time.Duration) (told []time.Duration) {
	for i, at := range times {
		if l.nodes.Has(i) && at != NoReply {
			told = append(told, at)
		}
	}
	slices.Sort(told)
	return told
}

// Least returns the smallest number of nodes that suffice. Nodes in both lists count in both, so it may be less than a
// majority of all.
func (e *Electorate) Least() int {
	if len(e.lists) == 1 {
		return e.lists[0].need
	}
	a, b := e.lists[0], e.lists[1]
	both := min((a.nodes & b.nodes).Size(), max(a.need, b.need))
	return both + max(0, a.need-both) + max(0, b.need-both)
}

// Worst returns size and need of the list that lacks the most votes, and how many of the given ones it has.
func (e *Electorate) Worst(votes Set) (size, need, has int) {
	for i, list := range e.lists {
		if n := (votes & list.nodes).Size(); i == 0 || list.need-n > need-has {
			size, need, has = list.size, list.need, n
		}
	}
	return size, need, has
}

// List returns the nodes of the list with that index; none if there is no such list.
func (e *Electorate) List(i int) Set {
	if i >= len(e.lists) {
		return 0
	}
	return e.lists[i].nodes
}

// Set is a set of nodes by their index.
type Set uint32

// All is the set of the first n nodes.
func All(n int) Set { return 1<<uint(n) - 1 }

// Has reports whether node i is in the set.
func (s Set) Has(i int) bool { return s>>uint(i)&1 == 1 }

// With returns the set and node i.
func (s Set) With(i int) Set { return s | 1<<uint(i) }

// Where returns those of the first n nodes for which is returns true.
func Where(n int, is func(i int) bool) (s Set) {
	for i := range n {
		if is(i) {
			s = s.With(i)
		}
	}
	return s
}

// Size returns how many nodes are in the set.
func (s Set) Size() int { return bits.OnesCount32(uint32(s)) }
