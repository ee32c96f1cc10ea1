package modelcheck

import (
	"fmt"
	"slices"
)

// guardModel is the other half of the restart guard: exclusion. It has no tokens, but it has time. Every lock key lives
// for ttl ticks of the node's clock, every hold is valid for ttl ticks from the tick at which its requests were sent,
// all clocks run alike, and one node goes down, stays down for outage ticks and comes back empty; its votes then
// abstain for guard ticks. Messages may be delayed and lost at will.
//
// Property: no two holds are valid at once.
type guardModel struct {
	ttl, outage, guard uint8
	horizon            uint8
}

const holders = 2 // two attempts are enough to overlap

// guardState is everything at one moment of a guardModel.
type guardState struct {
	node [nodes]guardedNode
	hold [holders]guardedHold
	now  uint8
	lost bool // the one loss has happened
}

type guardedNode struct {
	owner   uint8 // attempt + 1; 0: free
	expires uint8 // the tick at which the key is gone
	upAt    uint8 // down until this tick
	counts  uint8 // its votes abstain until this tick
	vote    [holders]vote
}

type guardedHold struct {
	phase phase // idle, acquiring or won
	start uint8
}

type vote uint8

const (
	notAsked   vote = iota
	outForVote      // the request is on the wire
	given           // the node gave the lock
	voided          // it gave the lock while abstaining, or the request died with the connection
)

type guardEvent struct {
	what          string
	attempt, node int
}

var _ model[guardState, guardEvent] = (*guardModel)(nil)

func (m *guardModel) initial() []guardState { return []guardState{{}} }

func (m *guardModel) key(s *guardState) key {
	var k key
	for i := range s.node {
		n := &s.node[i]
		k[i] = uint64(n.owner) | uint64(n.expires)<<8 | uint64(n.upAt)<<16 | uint64(n.counts)<<24
		for a, v := range n.vote {
			k[i] |= uint64(v) << (32 + 2*a)
		}
	}
	slices.Sort(k[:]) // the nodes are alike
	for a, h := range s.hold {
		k[a] |= uint64(h.phase)<<40 | uint64(h.start)<<43
	}
	k[2] |= uint64(s.now) << 40
	if s.lost {
		k[2] |= 1 << 48
	}
	return k
}

func (m *guardModel) next(s *guardState, emit func(guardEvent, *guardState, string)) {
	if s.now < m.horizon {
		t := *s
		t.now++
		for n := range t.node {
			t.node[n].settle(t.now)
		}
		for a := range t.hold {
			if t.hold[a].phase == acquiring && !m.valid(&t, a) {
				t.end(a)
			}
		}
		emit(guardEvent{what: fmt.Sprintf("time is %d", t.now)}, &t, "")
	}
	for a := range s.hold {
		m.attemptSteps(s, a, emit)
	}
	for n := range s.node {
		if s.lost {
			break
		}
		t := *s
		t.lost = true
		t.node[n] = guardedNode{upAt: s.now + m.outage, counts: s.now + m.outage + m.guard}
		for a, v := range s.node[n].vote {
			if v == outForVote {
				v = voided
			}
			t.node[n].vote[a] = v // the client has the vote, whatever became of the node
		}
		emit(guardEvent{what: "goes down and loses its data", node: n}, &t, "")
	}
}

// settle drops what time has made meaningless, so that like states are one.
func (n *guardedNode) settle(now uint8) {
	if n.expires <= now {
		n.owner, n.expires = 0, 0
	}
	if n.upAt <= now {
		n.upAt = 0
	}
	if n.counts <= now {
		n.counts = 0
	}
}

// end drops the votes of an attempt that has won or cannot win any more.
func (s *guardState) end(a int) {
	for n := range s.node {
		if v := &s.node[n].vote[a]; *v == given {
			*v = voided
		}
	}
}

func (m *guardModel) attemptSteps(s *guardState, a int, emit func(guardEvent, *guardState, string)) {
	if s.hold[a].phase == idle && a > 0 && s.hold[a-1].phase == idle {
		return // the attempts are alike: they begin in order
	}
	if s.hold[a].phase == idle {
		t := *s
		t.hold[a] = guardedHold{acquiring, s.now}
		for n := range t.node {
			t.node[n].vote[a] = outForVote
		}
		emit(guardEvent{what: "asks every node", attempt: a}, &t, "")
		return
	}
	votes := 0
	for n := range s.node {
		node := &s.node[n]
		switch {
		case node.vote[a] == given:
			votes++
		case node.vote[a] == outForVote && node.owner == 0 && s.now >= node.upAt:
			t := *s
			t.node[n].owner, t.node[n].expires = owner(a), s.now+m.ttl
			t.node[n].vote[a] = given
			what := "is given the lock"
			if s.now < node.counts || !m.valid(s, a) {
				t.node[n].vote[a] = voided
				what += ", not counted"
			}
			emit(guardEvent{what, a, n}, &t, "")
		}
	}
	if s.hold[a].phase == acquiring && votes >= majority && m.valid(s, a) {
		t := *s
		t.hold[a].phase = won
		broken := ""
		for b := range t.hold {
			if b != a && t.hold[b].phase == won && m.valid(&t, b) {
				broken = fmt.Sprintf("exclusion: %s and %s are both valid", name(b), name(a))
			}
		}
		t.end(a)
		emit(guardEvent{what: "wins", attempt: a}, &t, broken)
	}
}

// valid reports whether a hold of attempt a could be trusted now.
func (m *guardModel) valid(s *guardState, a int) bool { return s.now < s.hold[a].start+m.ttl }
