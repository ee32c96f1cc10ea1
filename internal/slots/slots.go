// Package slots decides which slot of a semaphore a caller tries, and for which one it waits.
//
// It knows what nodes have said about the slots, as values, and of a hold whether it is over. It must not know how a
// node is asked, what a slot is called, nor who holds one; it reads no clock. How a slot is chosen affects speed only:
// each is a lock of its own, so a bad choice lets nobody in who has no majority.
package slots

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/quorum"
)

// Slots is what one client knows about the slots of a semaphore without asking the nodes.
type Slots struct {
	electorate *quorum.Electorate

	mu             sync.Mutex // guards the fields below
	all            []slot
	contendedUntil time.Time
}

type slot struct {
	last    Hold // this client's latest hold of the slot; nil: none, or another client has had the slot since
	callers int  // callers of this client that attempt the slot or wait for it
}

// Hold is a hold of a slot.
type Hold interface {
	IsGone() bool // the slot may be free
}

// New returns n slots, of which nothing is known.
func New(n int, e *quorum.Electorate) *Slots { return &Slots{electorate: e, all: make([]slot, n)} }

// None is no slot's index.
const None = -1

// Guess returns a slot that may be free, without asking the nodes: one that this client held and released, or else one
// that it knows nothing about, chosen at random so that clients try different slots. It returns None if there is no
// such slot, or if slots are contended, so that a survey is the better start.
func (s *Slots) Guess(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.contendedUntil) {
		return None
	}
	unknown, first := None, random(len(s.all))
	for n := range s.all {
		i := (first + n) % len(s.all)
		switch at := &s.all[i]; {
		case at.callers > 0:
		case at.last == nil:
			unknown = i
		case at.last.IsGone():
			return i
		}
	}
	return unknown
}

func random(n int) int { return int(chance.Duration(time.Duration(n))) }

// AddCallers adds n, which may be negative, to the callers at slot i.
func (s *Slots) AddCallers(i, n int) {
	s.mu.Lock()
	s.all[i].callers += n
	s.mu.Unlock()
}

// Contend says that slots are contended until then.
func (s *Slots) Contend(until time.Time) {
	s.mu.Lock()
	s.contendedUntil = until
	s.mu.Unlock()
}

// Record records the latest hold of slot i, or with nil that another client has the slot.
func (s *Slots) Record(i int, h Hold) {
	s.mu.Lock()
	if at := &s.all[i]; h != nil || at.last != nil && at.last.IsGone() {
		at.last = h
	}
	s.mu.Unlock()
}

// Free returns the slots that are taken on so few nodes that a majority of each list is free, and that no caller of
// this client is at: those taken on the fewest nodes first, otherwise in random order. If a slot is taken on a few
// nodes only, another client is just acquiring it, or its release has not reached those nodes.
func (s *Slots) Free(seen *Survey) []int {
	var free []int
	s.mu.Lock()
	for i, at := range seen.slots {
		if !s.electorate.Block(at.taken) && s.all[i].callers == 0 {
			free = append(free, i)
		}
	}
	s.mu.Unlock()
	shuffle(free)
	taken := func(i int) int { return seen.slots[i].taken.Size() }
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(taken(a), taken(b)) })
	return free
}

func shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := random(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// ShortestQueue returns the slot to wait for: of those that change hands the one with the fewest waiters, and of those
// the one whose keys expire first; except only if there is no other. seen is nil if there was no survey.
func (s *Slots) ShortestQueue(seen *Survey, except int) int {
	order := make([]int, 0, len(s.all))
	for i := range s.all {
		if i != except || len(s.all) == 1 {
			order = append(order, i)
		}
	}
	shuffle(order)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.MinFunc(order, func(a, b int) int {
		if seen == nil {
			return cmp.Compare(s.all[a].callers, s.all[b].callers)
		}
		moves := func(i int) int { return min(seen.slots[i].turns, enoughTurns) }
		// The survey may not show this client's own waiters yet.
		return cmp.Or(
			cmp.Compare(moves(b), moves(a)),
			cmp.Compare(max(seen.slots[a].waiters, s.all[a].callers), max(seen.slots[b].waiters, s.all[b].callers)),
			cmp.Compare(seen.slots[a].remaining, seen.slots[b].remaining))
	})
}

// Survey is what the nodes have said about all slots at one moment of a wait.
type Survey struct {
	Waiters int           // in all queues
	Soonest time.Duration // until the first slot is free, if no hold is extended

	slots []slotState
}

// slotState is what the nodes have said about one slot.
type slotState struct {
	taken     quorum.Set    // nodes that have the key
	remaining time.Duration // until enough keys expire that a majority of each list is free, if none is extended
	waiters   int           // the longest queue on any node
	token     int64         // the largest that a node knows
	turns     int           // how often the surveys of one wait have found a larger token
}

// Reply is what one node has said about one slot.
type Reply struct {
	Taken   bool
	Left    time.Duration // until the key expires
	Waiters int
	Token   int64 // the largest that the node knows
}

// Survey combines the nodes' replies, each about all slots; nil: none. before is the same wait's last survey, or nil.
func (s *Slots) Survey(replies [][]Reply, before *Survey) *Survey {
	v := &Survey{slots: make([]slotState, len(s.all))}
	remaining := make([]time.Duration, len(replies))
	for i := range v.slots {
		at := &v.slots[i]
		for n, reply := range replies {
			if reply == nil {
				remaining[n] = quorum.NoReply
				continue
			}
			remaining[n] = reply[i].Left
			if reply[i].Taken {
				at.taken = at.taken.With(n)
			}
			at.waiters, at.token = max(at.waiters, reply[i].Waiters), max(at.token, reply[i].Token)
		}
		at.remaining, _ = s.electorate.MajorityBy(remaining)
		if before != nil { // the count of turns goes on
			was := &before.slots[i]
			if at.turns = was.turns; at.token > was.token {
				at.turns++
			}
			at.token = max(at.token, was.token)
		}
		v.Waiters += at.waiters
		if i == 0 || at.remaining < v.Soonest {
			v.Soonest = at.remaining
		}
	}
	return v
}

// enoughTurns is how often another slot changes hands before a waiter moves, if its own has not. Where all holds are
// about as long, each slot changes hands once or twice between two turns of another.
const enoughTurns = 3

// Stuck reports whether slot i has not changed hands since the survey joined, while another one has time and again.
func (v *Survey) Stuck(i int, joined *Survey) bool {
	since := func(n int) int { return v.slots[n].turns - joined.slots[n].turns }
	for n := range v.slots {
		if since(n) >= enoughTurns && since(i) == 0 {
			return true
		}
	}
	return false
}
