package modelcheck

import "fmt"

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
	owner   uint8
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

var _ model[guardState, event] = (*guardModel)(nil)

func (m *guardModel) explore() result { return explore[guardState, event](m) }

func (m *guardModel) initial() []guardState { return []guardState{{}} }

func (m *guardModel) merged(s guardState) guardState {
	sortNodes(s.node[:], all)
	return s
}

func (n guardedNode) order() uint64 {
	order := uint64(n.owner)<<24 | uint64(n.expires)<<16 | uint64(n.upAt)<<8 | uint64(n.counts)
	for _, v := range n.vote {
		order = order<<2 | uint64(v)
	}
	return order
}

func (m *guardModel) next(s *guardState, emit func(event, *guardState, string)) {
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
		emit(event{kind: ticks}, &t, "")
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
		emit(event{kind: forgets, node: uint8(n)}, &t, "")
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

func (m *guardModel) attemptSteps(s *guardState, a int, emit func(event, *guardState, string)) {
	if s.hold[a].phase == idle {
		if a > 0 && s.hold[a-1].phase == idle {
			return // the attempts are alike: they begin in order
		}
		t := *s
		t.hold[a] = guardedHold{acquiring, s.now}
		for n := range t.node {
			t.node[n].vote[a] = outForVote
		}
		emit(event{kind: begins, attempt: uint8(a)}, &t, "")
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
			if s.now < node.counts || !m.valid(s, a) {
				t.node[n].vote[a] = voided
			}
			emit(event{kind: executes, attempt: uint8(a), node: uint8(n)}, &t, "")
		}
	}
	if s.hold[a].phase == acquiring && votes >= majority && m.valid(s, a) {
		t := *s
		t.hold[a].phase = won
		broken := ""
		for b := range t.hold {
			if b != a && t.hold[b].phase == won && m.valid(&t, b) {
				broken = "exclusion: both are valid"
			}
		}
		t.end(a)
		emit(event{kind: decides, attempt: uint8(a)}, &t, broken)
	}
}

// valid reports whether a hold of attempt a could be trusted now.
func (m *guardModel) valid(s *guardState, a int) bool { return s.now < s.hold[a].start+m.ttl }

func (m *guardModel) describe(_ *guardState, act event, after *guardState) string {
	return fmt.Sprintf("%-40s %d %v", act, after.now, after.node)
}
