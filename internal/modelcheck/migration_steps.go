package modelcheck

import (
	"fmt"
	"slices"
)

// What can happen in a migration.

func (m *migration) next(s *migrationState, emit func(event, *migrationState, string)) {
	for a := range m.attempts {
		switch s.attempt[a].phase {
		case idle:
			if a == 0 || s.attempt[a-1].phase != idle { // the attempts are alike: they begin in order
				m.beginSteps(s, a, emit)
			}
		case acquiring, raising:
			m.decideSteps(s, a, emit)
			m.end(s, a, lost, emit)
		case won:
			m.extendSteps(s, a, emit)
			m.end(s, a, over, emit)
		}
		for n := range s.node {
			m.wireStep(s, a, n, emit)
			m.repairStep(s, a, n, emit)
		}
	}
	if s.now < m.horizon {
		t := *s
		t.now++
		for i, tick := range t.notBefore {
			if tick <= t.now {
				t.notBefore[i] = 0
			}
		}
		emit(event{kind: ticks}, &t, "")
	}
}

func (m *migration) beginSteps(s *migrationState, a int, emit func(event, *migrationState, string)) {
	for with := onlyA; with <= both; with++ {
		if !m.mayCome(s, with) || a < len(m.with) && m.with[a] != with {
			continue
		}
		for _, token := range m.proposed(s.now) {
			t := *s
			at := &t.attempt[a]
			*at = migrationAttempt{phase: acquiring, with: with, proposal: token, token: token}
			for b := range a {
				if m.lapses && t.attempt[b].hasWon() {
					at.after |= 1 << b
				}
			}
			for n := range t.node {
				if m.asked(with).has(n) {
					t.node[n].conn[a] = acquireOut
				}
			}
			emit(event{kind: begins, attempt: uint8(a)}, &t, "")
		}
	}
}

// decideSteps lets attempt a win or raise with every set of answers that it may have. Of the sets that win, the
// smallest are enough; of those that raise, one for each token to which they raise.
func (m *migration) decideSteps(s *migrationState, a int, emit func(event, *migrationState, string)) {
	at := &s.attempt[a]
	var gave, accepted nodeSet
	for n := range s.node {
		switch c := s.node[n].conn[a]; {
		case c == accepts, c == acceptsRaise:
			gave, accepted = gave|1<<n, accepted|1<<n
		case c >= knows:
			gave |= 1 << n
		}
	}
	wins := func(arrived nodeSet) bool { return m.enoughToWin(at.with, arrived, arrived&accepted) }
	for _, voters := range smallest(gave, wins) {
		t := *s
		t.attempt[a].phase = won
		t.rest(a, voters)
		emit(event{kind: decides, attempt: uint8(a), voters: voters}, &t, m.violated(&t, a))
	}
	if at.phase == raising {
		return
	}
	var raised []uint8
	for arrived := range gave.subsets {
		if !m.enough(at.with, arrived) || wins(arrived) {
			continue
		}
		token := at.token
		for n := range s.node {
			if c := s.node[n].conn[a]; arrived.has(n) && c >= knows {
				token = max(token, uint8(c-knows))
			}
		}
		if token++; !slices.Contains(raised, token) {
			raised = append(raised, token)
			t := *s
			t.raise(a, token)
			emit(event{kind: decides, attempt: uint8(a), voters: arrived}, &t, "")
		}
	}
}

// smallest lists the subsets of nodes that are enough, but are not if any node is left out.
func smallest(nodes nodeSet, enough func(nodeSet) bool) (sets []nodeSet) {
	if !enough(nodes) {
		return nil
	}
	for set := range nodes.subsets {
		needed := enough(set)
		for n := range maxListed {
			needed = needed && !(set.has(n) && enough(set&^(1<<n)))
		}
		if needed {
			sets = append(sets, set)
		}
	}
	return sets
}

// rest lets the hold of attempt a rest on voters alone. Answers that did not count no longer matter; requests on the
// wire do.
func (s *migrationState) rest(a int, voters nodeSet) {
	for n := range s.node {
		switch c := &s.node[n].conn[a]; {
		case voters.has(n):
			*c = rests
		case *c != acquireOut && *c != raiseOut:
			*c = nothing
		}
	}
}

// raise sends the second round to every node; where the acquire is still on the wire, the raise is behind it.
func (s *migrationState) raise(a int, token uint8) {
	s.attempt[a].phase, s.attempt[a].token = raising, token
	for n := range s.node {
		if c := &s.node[n].conn[a]; *c != nothing && *c != acquireOut {
			*c = raiseOut
		}
	}
}

// extendSteps lets the hold rest on any nodes that have its key now.
func (m *migration) extendSteps(s *migrationState, a int, emit func(event, *migrationState, string)) {
	var has nodeSet
	for n := range s.node {
		if c := s.node[n].conn[a]; s.node[n].owner == owner(a) && (c == nothing || c == rests) {
			has |= 1 << n
		}
	}
	enough := func(voters nodeSet) bool { return m.enoughToExtend(s.attempt[a].with, voters) }
	for _, voters := range smallest(has, enough) {
		t := *s
		t.rest(a, voters)
		emit(event{kind: extends, attempt: uint8(a), voters: voters}, &t, "")
	}
}

// end lets attempt a give up, release, run out of validity or crash: from now on its client does nothing.
func (m *migration) end(s *migrationState, a int, how phase, emit func(event, *migrationState, string)) {
	t := *s
	t.attempt[a].phase = how
	t.rest(a, 0)
	if with := t.attempt[a].with; with != both && m.middle > 0 {
		others := both &^ with
		t.notBefore[others-onlyA] = min(s.now+m.middle, forever)
	}
	emit(event{kind: ends, attempt: uint8(a)}, &t, "")
}

// wireStep lets node n execute what is on the wire from attempt a. An acquire that would be refused stays there.
func (m *migration) wireStep(s *migrationState, a, n int, emit func(event, *migrationState, string)) {
	if m.idle(s, a, n) {
		return
	}
	t := *s
	node, at := &t.node[n], &t.attempt[a]
	switch c := &node.conn[a]; *c {
	case acquireOut:
		if m.stands(s, n) {
			return
		}
		node.owner = owner(a)
		known := node.entry
		node.entry = max(known, at.proposal)
		switch {
		case at.token > at.proposal:
			*c = raiseOut
		case at.phase != acquiring:
			*c = nothing
		case at.proposal > known:
			*c = accepts
		default:
			*c = knows + contact(known)
		}
	case raiseOut:
		node.entry = at.token
		*c = nothing
		if at.phase == raising {
			*c = acceptsRaise
		}
	default:
		return
	}
	emit(event{kind: executes, attempt: uint8(a), node: uint8(n)}, &t, "")
}

// repairStep sets the key and token of a hold again where another's key, or none, is. The node's vote counts from the
// next extension on. The request may be late: then the hold is over. Where the acquire or raise is still on the wire,
// that does the same.
func (m *migration) repairStep(s *migrationState, a, n int, emit func(event, *migrationState, string)) {
	node, at := &s.node[n], &s.attempt[a]
	idleConn := node.conn[a] == nothing || node.conn[a] == rests
	if !m.repair || !at.hasWon() || !idleConn || node.owner == owner(a) || m.stands(s, n) || !m.asked(at.with).has(n) {
		return
	}
	t := *s
	t.node[n].owner = owner(a)
	t.node[n].entry = max(node.entry, at.token)
	t.node[n].conn[a] = nothing
	emit(event{kind: repairs, attempt: uint8(a), node: uint8(n)}, &t, "")
}

// describe tells a step in the words of docs/changing-nodes.md, with tokens where not all propose the same.
func (m *migration) describe(before *migrationState, act event, after *migrationState) string {
	is, node := after.attempt[act.attempt], after.node[act.node]
	who, at, told := client(act.attempt), nodeName(act.node), ""
	switch act.kind {
	case begins:
		told = fmt.Sprintf("%s (%s) asks %s", who, is.with, m.asked(is.with))
	case decides:
		what := "it holds the lock"
		if is.phase == raising {
			what = "it raises its token"
		}
		told = fmt.Sprintf("%s has %s, a majority of %s: %s", who, act.voters, is.with, what)
	case executes:
		told = fmt.Sprintf("%s gives %s the lock", at, who)
		if before.node[act.node].conn[act.attempt] == raiseOut {
			told = fmt.Sprintf("%s raises the token of %s", at, who)
		}
	default:
		told = act.String()
	}
	if m.proposals != 1 {
		told += fmt.Sprintf(" (token %d; %s: %d)", is.token, at, node.entry)
	}
	return told
}

func (w votesWith) String() string {
	return [...]string{onlyA: "list A", onlyB: "list B", both: "each list"}[w]
}
