package modelcheck

import "fmt"

// What an attempt does: begin, take stock of the answers, win.

// begin sends the proposal to every node.
func (c *config) begin(s *state, a int, proposal uint8) {
	at := &s.attempt[a]
	at.phase, at.token, at.start = acquiring, proposal, s.now
	for b := range s.attempt {
		if s.attempt[b].phase == won {
			at.after |= 1 << b
		}
	}
	for n := range s.node {
		s.node[n].conn[a] = conn{asked, proposal}
		if s.node[n].abstains(s.now) && !c.lateGuard {
			s.node[n].conn[a].at = askedNoVote
		}
	}
}

// askAgain sends the second question to every node, with a new proposal. Answers to the first no longer count, and
// whether the node's vote on the second abstains is settled now, also where the first is still on the wire.
func (c *config) askAgain(s *state, a int, proposal uint8) {
	at := &s.attempt[a]
	at.again, at.token = true, proposal
	for n := range s.node {
		on := &s.node[n].conn[a]
		abstains := s.node[n].abstains(s.now) && !c.lateGuard
		switch {
		case on.onWire() && abstains:
			on.at = askedNoVote
		case on.onWire():
			on.at = asked
		case c.flaw == bothRounds && on.at == toldAccepted:
		case abstains:
			*on = conn{askedAgainNoVote, proposal}
		default:
			*on = conn{askedAgain, proposal}
		}
	}
}

// isVote reports whether an answer to the acquire is a vote for the attempt's token as it is now.
func (c *config) isVote(s *state, a int, answer conn) bool {
	if !answer.gaveLock() {
		return false
	}
	if c.flaw == bothRounds && answer.at == toldAccepted {
		return true
	}
	if c.flaw == atLeast || c.flaw == oldToken && s.attempt[a].again {
		return answer.value >= s.attempt[a].token
	}
	return answer.at == toldAccepted && answer.value == s.attempt[a].token
}

// votes is the set of nodes among those in arrived that gave the lock and accepted the token.
func (c *config) votes(s *state, a int, arrived nodeSet) nodeSet {
	var set nodeSet
	for n := range s.node {
		answer := s.node[n].conn[a]
		if arrived.has(n) && (answer.at == raised || c.isVote(s, a, answer)) {
			set |= 1 << n
		}
	}
	return set
}

// answered is the set of nodes whose answer, arrived or not, gave the lock and may be counted.
func (c *config) answered(s *state, a int) nodeSet {
	var set nodeSet
	for n := range s.node {
		answer := s.node[n].conn[a]
		if (answer.gaveLock() || answer.at == raised) && !(c.lateGuard && s.node[n].abstains(s.now)) {
			set |= 1 << n
		}
	}
	return set
}

// decide takes stock of the answers that have arrived. It returns false if they decide nothing.
func (c *config) decide(s *state, a int, arrived nodeSet) (decided bool, broken string) {
	at := &s.attempt[a]
	if c.lifetime > 0 && s.now > at.start+c.lifetime {
		return false, ""
	}
	if at.phase == raising {
		voters := c.votes(s, a, arrived)
		if voters.size() < majority {
			return false, ""
		}
		return true, c.grant(s, a, voters)
	}
	if arrived.size() < majority {
		return false, ""
	}
	if c.form == counter {
		at.token = 0
		for n := range s.node {
			if arrived.has(n) {
				at.token = max(at.token, s.node[n].conn[a].value)
			}
		}
	}
	if voters := c.votes(s, a, arrived); voters.size() >= majority {
		return true, c.grant(s, a, voters)
	}
	if c.form != counter {
		for n := range s.node {
			if arrived.has(n) && s.node[n].conn[a].at == toldKnown {
				at.token = max(at.token, s.node[n].conn[a].value)
			}
		}
		at.token++
	}
	if c.flaw == maxOnly {
		return true, c.grant(s, a, arrived)
	}
	c.sendRaise(s, a, arrived)
	c.giveUpIfHopeless(s, a)
	return true, ""
}

// sendRaise sends the second round to the nodes in arrived, or to all of them. Where the acquire is still on the wire
// the raise queues behind it, and answer takes it up.
func (c *config) sendRaise(s *state, a int, arrived nodeSet) {
	s.attempt[a].phase = raising
	for n := range s.node {
		at := &s.node[n].conn[a]
		switch {
		case !at.gaveLock() || c.isVote(s, a, *at):
		case !arrived.has(n) && !c.raiseAll, s.node[n].abstains(s.now) && c.flaw != recreate:
			*at = conn{at: noVote}
		default:
			*at = conn{at: raiseAsked}
		}
	}
}

// grant makes the attempt a holder and checks the properties against every holder so far.
func (c *config) grant(s *state, a int, voters nodeSet) (broken string) {
	at := &s.attempt[a]
	kept := 0
	for n := range s.node {
		if voters.has(n) && s.node[n].owner == owner(a) {
			kept++
		}
	}
	after := at.after
	c.finish(s, a, won)
	inTime := kept >= majority || c.beyondValidity
	for b := range s.attempt {
		earlier := &s.attempt[b]
		if b == a || earlier.phase != won || at.token > earlier.token {
			continue
		}
		pair := fmt.Sprintf("%s has token %d, %s has token %d", name(b), earlier.token, name(a), at.token)
		switch {
		case at.token == earlier.token:
			return "unique: " + pair
		case after&(1<<b) != 0:
			return fmt.Sprintf("order: %s won before %s began, yet %s", name(b), name(a), pair)
		case inTime:
			return fmt.Sprintf("order: %s won first and %s, when it won, held a majority, yet %s", name(b), name(a), pair)
		}
	}
	return ""
}

// finish ends an attempt and drops what cannot matter any more, so that like states are one. A command on the wire does
// matter: it may still be executed.
func (c *config) finish(s *state, a int, end phase) {
	at := &s.attempt[a]
	mayRaise := false
	for n := range s.node {
		on := &s.node[n].conn[a]
		if !on.onWire() {
			*on = conn{at: noVote}
		}
		mayRaise = mayRaise || on.at == raiseAsked
	}
	at.phase, at.start, at.after = end, 0, 0
	if !s.firstOnWire(a) {
		at.again = false
	}
	if end == lost && !mayRaise && !at.again {
		at.token = 0
	}
}

// firstOnWire reports whether a first question of the attempt may still be executed.
func (s *state) firstOnWire(a int) bool {
	for n := range s.node {
		if at := s.node[n].conn[a].at; at == asked || at == askedNoVote {
			return true
		}
	}
	return false
}

// giveUpIfHopeless ends an attempt that cannot reach a majority any more.
func (c *config) giveUpIfHopeless(s *state, a int) {
	at := &s.attempt[a]
	if at.phase != acquiring && at.phase != raising && at.phase != lost {
		return
	}
	if c.asksAgain && at.phase == acquiring && !at.again {
		return // every node can be asked again
	}
	possible := 0
	for n := range s.node {
		on := s.node[n].conn[a]
		switch on.at {
		case asked, set, addedAccepted, addedKnown, askedAgain:
			if at.phase == acquiring || c.raiseAll || c.form == counter {
				possible++
			}
		case toldAccepted, toldKnown, raiseAsked, raised:
			possible++
		}
	}
	if possible < majority || at.phase == lost {
		c.finish(s, a, lost)
	}
}

// nodeSet is a bit set of nodes.
type nodeSet uint8

const allNodes nodeSet = 1<<nodes - 1

func (set nodeSet) has(n int) bool { return set&(1<<n) != 0 }

func (set nodeSet) size() (size int) {
	for n := range nodes {
		if set.has(n) {
			size++
		}
	}
	return size
}

func name(a int) string { return string(rune('A' + a)) }
