package modelcheck

import "fmt"

// What can happen in the model of the fencing protocol. A command on the wire is executed now, later or, as far as the
// exploration leaves it lying, never: delay and loss need no steps of their own.

// next emits everything that can happen in s.
func (c *config) next(s *state, emit func(event, *state, string)) {
	for a := range c.attempts {
		c.attemptSteps(s, a, emit)
		for n := range s.node {
			if s.node[n].conn[a].onWire() {
				c.wireStep(s, a, n, emit)
			}
		}
	}
	for n := range s.node {
		c.nodeSteps(s, n, emit)
	}
	if s.now < c.horizon {
		t := *s
		t.now++
		for n := range t.node {
			if !t.node[n].abstains(t.now) {
				t.node[n].since = 0 // forgiven: merge with nodes that never forgot
			}
		}
		emit(event{kind: ticks}, &t, "")
	}
}

func (c *config) attemptSteps(s *state, a int, emit func(event, *state, string)) {
	at := s.attempt[a]
	switch at.phase {
	case idle:
		if a > 0 && s.attempt[a-1].phase == idle {
			return // the attempts are alike: without loss of generality they begin in order
		}
		for _, token := range c.proposed(s.now) {
			t := *s
			c.begin(&t, a, token)
			emit(event{kind: begins, attempt: uint8(a), token: token}, &t, "")
		}
	case acquiring, raising:
		if c.asksAgain && at.phase == acquiring && !at.again {
			for _, token := range c.proposedAgain(at.token, s.now) {
				t := *s
				c.askAgain(&t, a, token)
				emit(event{kind: asksAgain, attempt: uint8(a), token: token}, &t, "")
			}
		}
		answered := s.nodesThat(a, func(answer conn) bool { return answer.gaveLock() || answer.at == raised })
		for arrived := range answered.subsets {
			t := *s
			if decided, broken := c.decide(&t, a, arrived); decided {
				emit(event{kind: decides, attempt: uint8(a), voters: arrived}, &t, broken)
			}
		}
	}
}

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
		if s.node[n].abstains(s.now) {
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
		abstains := s.node[n].abstains(s.now)
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
	switch {
	case !answer.gaveLock():
		return false
	case c.flaw == bothRounds && answer.at == toldAccepted:
		return true
	case c.flaw == atLeast, c.flaw == oldToken && s.attempt[a].again:
		return answer.value >= s.attempt[a].token
	}
	return answer.at == toldAccepted && answer.value == s.attempt[a].token
}

// nodesThat is the set of nodes of whose answer to the attempt a condition is true.
func (s *state) nodesThat(a int, is func(answer conn) bool) (set nodeSet) {
	for n := range s.node {
		if is(s.node[n].conn[a]) {
			set |= 1 << n
		}
	}
	return set
}

// decide takes stock of the answers that have arrived. It returns false if they decide nothing.
func (c *config) decide(s *state, a int, arrived nodeSet) (decided bool, broken string) {
	at := &s.attempt[a]
	if c.lifetime > 0 && s.now > at.start+c.lifetime || arrived.size() < majority {
		return false, ""
	}
	// The largest token among the answers that match.
	largest := func(token uint8, match func(conn) bool) uint8 {
		for n := range s.node {
			if answer := s.node[n].conn[a]; arrived.has(n) && match(answer) {
				token = max(token, answer.value)
			}
		}
		return token
	}
	if at.phase == acquiring && c.counter {
		at.token = largest(0, conn.gaveLock)
	}
	voters := arrived & s.nodesThat(a, func(answer conn) bool { return answer.at == raised || c.isVote(s, a, answer) })
	switch {
	case voters.size() >= majority:
		return true, c.grant(s, a, voters)
	case at.phase == raising:
		return false, ""
	case !c.counter:
		at.token = 1 + largest(at.token, func(answer conn) bool { return answer.at == toldKnown })
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
		is, was := client(uint8(a)), client(uint8(b))
		pair := fmt.Sprintf("%s has token %d, %s has token %d", was, earlier.token, is, at.token)
		switch {
		case at.token == earlier.token:
			return "unique: " + pair
		case after&(1<<b) != 0:
			return fmt.Sprintf("order: %s won before %s began, yet %s", was, is, pair)
		case inTime:
			return fmt.Sprintf("order: %s won first and %s, when it won, held a majority, yet %s", was, is, pair)
		}
	}
	return ""
}

// finish ends an attempt and drops what cannot matter any more, so that like states are one. A command on the wire does
// matter: it may still be executed.
func (c *config) finish(s *state, a int, end phase) {
	at := &s.attempt[a]
	for n := range s.node {
		if on := &s.node[n].conn[a]; !on.onWire() {
			*on = conn{at: noVote}
		}
	}
	at.phase, at.start, at.after = end, 0, 0
	at.again = at.again && s.nodesThat(a, func(on conn) bool { return on.at == asked || on.at == askedNoVote }) != 0
	mayRaise := s.nodesThat(a, func(on conn) bool { return on.at == raiseAsked }) != 0
	if end == lost && !mayRaise && !at.again {
		at.token = 0
	}
}

// giveUpIfHopeless ends an attempt that cannot reach a majority any more.
func (c *config) giveUpIfHopeless(s *state, a int) {
	at := &s.attempt[a]
	switch {
	case at.phase == idle, at.phase == won:
		return
	case c.asksAgain && at.phase == acquiring && !at.again:
		return // every node can be asked again
	}
	possible := s.nodesThat(a, func(on conn) bool {
		if on.at == asked || on.at == askedAgain {
			return at.phase == acquiring || c.raiseAll || c.counter
		}
		return on.gaveLock() || on.at == raiseAsked || on.at == raised
	})
	if possible.size() < majority || at.phase == lost {
		c.finish(s, a, lost)
	}
}

// wireStep lets node n execute the next command of attempt a.
//
// Some steps are left out, because they only take possibilities away: whatever follows them can follow without them. A
// command that changes nothing on the node and earns no vote: it may as well stay on the wire. The expiry or release of
// a lock key by itself: it may as well happen when another owner's acquire comes, so that this either finds the key
// taken or takes it over. unreduced takes every step by itself; the tests compare.
func (c *config) wireStep(s *state, a, n int, emit func(event, *state, string)) {
	t := *s
	before, after := &s.node[n], &t.node[n]
	act := event{kind: executes, attempt: uint8(a), node: uint8(n)}
	switch acquires := before.conn[a].acquires(); {
	case acquires && before.taken(a) && c.unreduced:
		act.kind = refuses
		c.goOn(&t, a, n)
	case acquires:
		after.owner = owner(a)
		c.acquire(&t, a, n)
	default:
		c.raise(&t, a, n)
	}
	nothing := after.owner == before.owner && after.score == before.score && after.conn[a].at == noVote
	if c.unreduced || !nothing {
		c.giveUpIfHopeless(&t, a)
		emit(act, &t, "")
	}
}

// goOn follows an acquire that earned no vote: with the second question, if that stands behind it.
func (c *config) goOn(s *state, a, n int) {
	at := &s.node[n].conn[a]
	switch {
	case s.attempt[a].again && at.at == asked:
		*at = conn{askedAgain, s.attempt[a].token}
	case s.attempt[a].again && at.at == askedNoVote:
		*at = conn{askedAgainNoVote, s.attempt[a].token}
	default:
		*at = conn{at: noVote}
	}
}

// acquire is the rest of an acquire once the lock is given: the script's ZADD, or the counter.
func (c *config) acquire(s *state, a, n int) {
	node := &s.node[n]
	at := &node.conn[a]
	accepted, value := true, at.value
	switch {
	case c.flaw == clientClock: // the nodes keep no tokens
	case c.counter:
		node.score++
		value = node.score
	default:
		accepted = node.zaddGT(at.value)
		value = node.score
	}
	if counts := at.at == asked && !s.attempt[a].again || at.at == askedAgain; counts {
		c.answer(s, a, n, accepted, value)
	} else {
		c.goOn(s, a, n) // an answer to the first question no longer counts where there is a second one
	}
}

// answer records that the node gave the lock and what it said about the token. An answer that comes when the second
// round is already out cannot serve the first any more; the raise queued behind it may still be of use.
func (c *config) answer(s *state, a, n int, accepted bool, value uint8) {
	at := &s.node[n].conn[a]
	told := conn{toldKnown, value}
	if accepted {
		told.at = toldAccepted
	}
	switch {
	case s.attempt[a].phase == acquiring, s.attempt[a].phase == raising && c.isVote(s, a, told):
		*at = told
	case s.attempt[a].phase == raising && c.raiseAll:
		*at = conn{at: raiseAsked}
	default:
		*at = conn{at: noVote}
	}
}

// raise is the second round's script: does the lock still belong to the attempt, and is its token above the entry?
func (c *config) raise(s *state, a, n int) {
	node := &s.node[n]
	at := &node.conn[a]
	if c.flaw == recreate && !(c.unreduced && node.owner != 0) {
		node.owner = owner(a) // the key expired just now
	}
	ours := node.owner == owner(a) || c.flaw == rawRaise
	accepted := ours && node.zaddGT(s.attempt[a].token)
	// After ZADD GT every node holds at least the token.
	if accepted || ours && (c.flaw == blindOK || c.flaw == atLeast) {
		*at = conn{at: raised}
	} else {
		*at = conn{at: noVote}
	}
}

func (c *config) nodeSteps(s *state, n int, emit func(event, *state, string)) {
	at := &s.node[n]
	holder := int(at.owner) - 1
	step := func(kind kind, a int, do func(t *state, n *node)) {
		t := *s
		do(&t, &t.node[n])
		emit(event{kind: kind, node: uint8(n), attempt: uint8(a)}, &t, "")
	}
	if c.unreduced && holder >= 0 {
		step(expires, holder, func(_ *state, n *node) { n.owner = 0 })
	}
	if c.mayForget(s, n) {
		step(forgets, 0, func(t *state, _ *node) { c.forget(t, n) })
	}
	// By the fastest clock there is, is the name's entry older than the retention?
	oldest := int(s.now) + 1 + int(c.skew) - int(c.retention)
	if c.trim && at.score > 0 && int(at.score) < oldest*tokensPerTick {
		step(trims, 0, func(_ *state, n *node) { n.score = 0 })
	}
	for a := range c.attempts {
		is := &s.attempt[a]
		// A waiter queues on a node behind its own acquire, on the same connection, so that acquire is over, and what may
		// come is a confirmation, which here is the attempt's only acquire: not begun, or not yet executed.
		waits := at.conn[a].at <= asked && is.phase != won && is.phase != lost
		if c.handOver && waits && holder >= 0 && holder != a && s.attempt[holder].phase == won {
			step(handsOver, a, func(_ *state, n *node) { n.owner = owner(a) })
		}
		if c.repair && holder != a && !(c.unreduced && holder >= 0) && is.phase == won {
			step(repairs, a, func(_ *state, n *node) {
				n.owner = owner(a)
				n.zaddGT(is.token)
			})
		}
	}
}

// mayForget reports whether node n may lose its data now. While one node's votes abstain no other node forgets: two
// nodes that forget within one guard period are a majority, and nothing is promised then.
func (c *config) mayForget(s *state, n int) bool {
	for other := range s.node {
		if other != n && s.node[other].abstains(s.now) {
			return false
		}
	}
	return s.losses < c.losses
}

// forget is a restart without the data, or with an old copy. Its connections end, and with them what was on the wire.
func (c *config) forget(s *state, n int) {
	node := &s.node[n]
	node.owner, node.score = 0, c.forgetTo
	s.losses++
	if c.silentLoss {
		return
	}
	for a := range node.conn {
		if node.conn[a].onWire() {
			node.conn[a] = conn{at: noVote}
			c.giveUpIfHopeless(s, a)
		}
	}
	if c.guard > 0 {
		node.since = min(s.now+c.guard, forever)
	}
}
