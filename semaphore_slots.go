package redlock

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/line"
	"github.com/quorumlock/redlock/internal/quorum"
)

// Why there are never more holders than permits: a permit is a slot, and each slot is a lock with its own name,
// acquired, extended, lost and released like any other. Any two majorities share a node, so each slot has at most one
// valid hold at a time, and k slots have at most k. Holders are not counted; how a slot is chosen below affects speed
// only.
//
// The alternative, a counter of k on each of the N nodes, is wrong. It hands out N·k votes, and a holder needs a
// majority M of them: so up to N·k/M clients get in, 3 for k = 2 on three nodes. Each slot must be exclusive
// (internal/modelcheck shows both).

// slots is what a Semaphore knows about its slots without asking the nodes.
type slots struct {
	mu             sync.Mutex
	all            []slot
	contendedUntil time.Time // guarded by mu
}

// slot is one slot. It is guarded by slots.mu, except name and key, which never change.
type slot struct {
	name    string
	key     string
	last    *hold // this Semaphore's latest hold of the slot; nil: none, or another client has had the slot since
	callers int   // callers of this Semaphore that attempt the slot or wait for it
}

// slotState is what the nodes replied about one slot.
type slotState struct {
	taken     quorum.Set    // nodes that have the key
	remaining time.Duration // until enough keys expire that a majority of each list is free, if none is extended
	waiters   int           // the longest queue on any node
	token     int64         // the largest that a node knows
	turns     int           // how often the surveys of one wait have found a larger token
}

// guess returns a slot that may be free, without asking the nodes: one that this Semaphore held and released, or else
// one that it knows nothing about, chosen at random so that clients try different slots. It returns -1 if there is no
// such slot, or if permits are contended, so that a survey is the better start.
func (s *slots) guess(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.contendedUntil) {
		return -1
	}
	unknown, first := -1, random(len(s.all))
	for n := range s.all {
		i := (first + n) % len(s.all)
		switch at := &s.all[i]; {
		case at.callers > 0:
		case at.last == nil:
			unknown = i
		case at.last.isGone():
			return i
		}
	}
	return unknown
}

func random(n int) int { return int(chance.Duration(time.Duration(n))) }

// addCallers adds n, which may be negative, to the callers at slot i.
func (s *slots) addCallers(i, n int) {
	s.mu.Lock()
	s.all[i].callers += n
	s.mu.Unlock()
}

// setContended marks permits as contended, for as long as a lock.
func (s *slots) setContended(now time.Time) {
	s.mu.Lock()
	s.contendedUntil = now.Add(line.ContendedFor)
	s.mu.Unlock()
}

// record records the latest hold of slot i, or with nil that another client has the slot.
func (s *slots) record(i int, h *hold) {
	s.mu.Lock()
	if at := &s.all[i]; h != nil || at.last != nil && at.last.isGone() {
		at.last = h
	}
	s.mu.Unlock()
}

// survey is the nodes' replies about all slots.
type survey struct {
	slots []slotState
	nodes []NodeError // for the error if all slots are taken
}

var surveySlots = script(command{read: readSurvey, tells: true}, rows(1), "readers", "queue", "survey")

// perSlot is how many numbers the nodes reply for each slot: see internal/lua/survey.lua.
const perSlot = 3

// slotStates combines the nodes' replies. nil: the node has not replied.
func slotStates(replies [][]int64, slots int, e *quorum.Electorate) []slotState {
	seen, remaining := make([]slotState, slots), make([]time.Duration, len(replies))
	for i := range seen {
		at := &seen[i]
		for n, reply := range replies {
			if reply == nil {
				remaining[n] = quorum.NoReply
				continue
			}
			ms, waiters, token := reply[perSlot*i], reply[perSlot*i+1], reply[perSlot*i+2]
			remaining[n] = max(readLeft(ms), 0)
			if ms == -1 {
				remaining[n] = time.Hour // the key has no TTL
			}
			if ms != -2 {
				at.taken = at.taken.With(n)
			}
			at.waiters, at.token = max(at.waiters, int(waiters)), max(at.token, token)
		}
		at.remaining, _ = e.MajorityBy(remaining)
	}
	return seen
}

// follow continues the count of turns from an earlier survey of the same wait, nil for none.
func (v *survey) follow(before *survey) {
	if before == nil {
		return
	}
	for i := range v.slots {
		at, was := &v.slots[i], &before.slots[i]
		if at.turns = was.turns; at.token > was.token {
			at.turns++
		}
		at.token = max(at.token, was.token)
	}
}

// enoughTurns is how often another slot changes hands before a waiter moves, if its own has not. Where all holds are
// about as long, each slot changes hands once or twice between two turns of another.
const enoughTurns = 3

// stuck reports whether slot i has not changed hands since the survey joined, while another one has time and again.
func (v *survey) stuck(i int, joined *survey) bool {
	since := func(n int) int { return v.slots[n].turns - joined.slots[n].turns }
	for n := range v.slots {
		if since(n) >= enoughTurns && since(i) == 0 {
			return true
		}
	}
	return false
}

// readSurvey reads a list of numbers. Its caller checks their count, since only the Semaphore knows how many slots it
// has.
func readSurvey(reply any) quorum.Answer {
	parts, ok := reply.([]any)
	numbers := make([]int64, len(parts))
	for i, p := range parts {
		var is bool
		numbers[i], is = p.(int64)
		ok = ok && is
	}
	if !ok || len(parts) == 0 {
		return badReply
	}
	return quorum.Answer{Vote: quorum.Granted, Reply: numbers}
}

// free returns the slots that are taken on so few nodes that a majority of each list is free, and that no caller of
// this Semaphore is at: those taken on the fewest nodes first, otherwise in random order. If a slot is taken on a few
// nodes only, another client is just acquiring it, or its release has not reached those nodes.
func (s *slots) free(seen *survey, e *quorum.Electorate) []int {
	var free []int
	s.mu.Lock()
	for i, at := range seen.slots {
		if !e.Block(at.taken) && s.all[i].callers == 0 {
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

// shortestQueue returns the slot to wait for: of those that change hands the one with the fewest waiters, and of those
// the one whose keys expire first. It returns the slot except only if there is no other. seen is nil if there was no
// survey.
func (s *slots) shortestQueue(seen *survey, except int) int {
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
		// The survey may not show this Semaphore's own waiters yet.
		return cmp.Or(
			cmp.Compare(moves(b), moves(a)),
			cmp.Compare(max(seen.slots[a].waiters, s.all[a].callers), max(seen.slots[b].waiters, s.all[b].callers)),
			cmp.Compare(seen.slots[a].remaining, seen.slots[b].remaining))
	})
}
