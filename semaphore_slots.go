package redlock

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// Why there are never more holders than permits: a permit is a slot, and a slot is
// a lock of a name of its own, acquired, extended, lost and released like
// any other. So of each slot at most one hold is valid at a time, since any two majorities
// share a node, and of k slots at most k. Nothing is counted anywhere; how slots are chosen, guessed and
// looked at below matters to speed alone.
//
// The road not taken is a counter on each of the N nodes that lets k in. It hands out N·k
// votes, and a holder needs a majority M of them: so up to N·k/M get in, 3 for k = 2 on three nodes.
// The pigeonholes must be exclusive, not just few. (internal/modelcheck shows both.)

// slots are what a Semaphore knows by itself of its slots.
type slots struct {
	mu  sync.Mutex
	all []slot
	hot time.Time // until when a permit counts as contended; guarded by mu
}

// slot is one of them. Guarded by slots.mu, but for the name and the key, which never change.
type slot struct {
	name string
	key  string
	last *hold // our latest hold of it; nil: others had it since, as far as we know
	here int   // how many of ours try it or wait for it
}

// outlook is what the nodes say of one slot.
type outlook struct {
	taken   int           // nodes that have the key
	remains time.Duration // until so many keys have ended that a majority is free, unless they are extended
	waiters int           // at most
}

// guess returns a slot that may be free, without asking: the one that we gave back, or else one that
// we know nothing of, so that Lockers and goroutines come apart. It returns -1 where we hold or want them all,
// or where permits are contended, so that a look is the better beginning.
func (s *slots) guess(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.hot) {
		return -1
	}
	unknown, first := -1, random(len(s.all))
	for n := range s.all {
		i := (first + n) % len(s.all)
		switch at := &s.all[i]; {
		case at.here > 0:
		case at.last == nil:
			unknown = i
		case at.last.isOver():
			return i
		}
	}
	return unknown
}

func random(n int) int { return int(chance.Duration(time.Duration(n))) }

// enlist counts those of ours that are at a slot.
func (s *slots) enlist(i, n int) {
	s.mu.Lock()
	s.all[i].here += n
	s.mu.Unlock()
}

// contended notes that permits are, for a while from now.
func (s *slots) contended(now time.Time) {
	s.mu.Lock()
	s.hot = now.Add(hotFor)
	s.mu.Unlock()
}

// learn notes our latest hold of a slot, or that others have it.
func (s *slots) learn(i int, h *hold) {
	s.mu.Lock()
	if at := &s.all[i]; h != nil || at.last != nil && at.last.isOver() {
		at.last = h
	}
	s.mu.Unlock()
}

// survey is what all nodes said when they were asked about all slots.
type survey struct {
	slots []outlook
	nodes []NodeError // for an error that says that all slots are taken
}

var surveySlots = script(command{read: readSurvey}, rows(1), "readers", "queue", "survey")

// outlooks sums up what nodes told of the slots: two numbers for each, see internal/lua/survey.lua.
func outlooks(told [][]int64, slots, need int) []outlook {
	seen, remains := make([]outlook, slots), make([]time.Duration, len(told))
	for i := range seen {
		at := &seen[i]
		for n, t := range told {
			ms, waiters := t[2*i], t[2*i+1]
			remains[n] = time.Duration(max(ms, 0)) * time.Millisecond
			if ms == -1 {
				remains[n] = time.Hour // it does not end by itself
			}
			if ms != -2 {
				at.taken++
			}
			at.waiters = max(at.waiters, int(waiters))
		}
		slices.Sort(remains)
		at.remains = remains[need-1]
	}
	return seen
}

// readSurvey wants numbers, two for each slot; how many slots there are, the Semaphore knows.
func readSurvey(reply any) answer {
	parts, ok := reply.([]any)
	numbers := make([]int64, len(parts))
	for i, p := range parts {
		var is bool
		numbers[i], is = p.(int64)
		ok = ok && is
	}
	if !ok || len(parts) == 0 {
		return badReply(reply)
	}
	return answer{vote: voteGranted, reply: numbers}
}

// free returns the slots that may be had, where no more than spare nodes have given them away: those first that no node has given to anybody, and
// otherwise in random order. Of a slot that is taken on a few nodes alone somebody is just getting hold,
// or those nodes have not heard of its release.
func (s *slots) free(seen *survey, spare int) []int {
	var free []int
	s.mu.Lock()
	for i, at := range seen.slots {
		if at.taken <= spare && s.all[i].here == 0 {
			free = append(free, i)
		}
	}
	s.mu.Unlock()
	shuffle(free)
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(seen.slots[a].taken, seen.slots[b].taken) })
	return free
}

func shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := random(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// shortest returns the slot, other than the given one, to wait for: with the fewest waiters, and of those the
// one that ends first if nobody extends it. seen may be nil: the nodes have told nothing.
func (s *slots) shortest(seen *survey, other int) int {
	order := make([]int, 0, len(s.all))
	for i := range s.all {
		if i != other || len(s.all) == 1 {
			order = append(order, i)
		}
	}
	shuffle(order)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.MinFunc(order, func(a, b int) int {
		if seen == nil {
			return cmp.Compare(s.all[a].here, s.all[b].here)
		}
		// Ours may not have arrived in the queues yet.
		return cmp.Or(
			cmp.Compare(max(seen.slots[a].waiters, s.all[a].here), max(seen.slots[b].waiters, s.all[b].here)),
			cmp.Compare(seen.slots[a].remains, seen.slots[b].remains))
	})
}
