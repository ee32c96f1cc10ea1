package modelcheck

// What a node does with the commands that reach it. A command on the wire is executed now, later or, as far as the
// exploration leaves it lying, never: delay and loss need no steps of their own.

func owner(a int) uint8 { return uint8(a + 1) }

// zaddGT is ZADD GT CH: whether the entry changed, that is, whether the node accepted the token.
func (n *node) zaddGT(token uint8) bool {
	if token <= n.score {
		return false
	}
	n.score = token
	return true
}

// taken reports whether the key is another's. A key that was handed over to this very owner is not.
func (n *node) taken(a int) bool { return n.owner != 0 && n.owner != owner(a) }

// execute runs the next command on connection (a, n). If it is an acquire, it finds the lock key free, or expired at
// this very moment; see refuse for the other case.
func (c *config) execute(s *state, a, n int) {
	node := &s.node[n]
	at := &node.conn[a]
	switch at.at {
	case asked, askedNoVote, askedAgain, askedAgainNoVote:
		node.owner = owner(a)
		switch {
		case c.form != pipeline:
			c.acquire(s, a, n)
		case at.at == asked:
			at.at = set
		default:
			at.at = setNoVote
		}
	case setNoVote:
		node.zaddGT(at.value)
		*at = conn{at: noVote}
	case set:
		if node.zaddGT(at.value) {
			at.at = addedAccepted
		} else {
			*at = conn{addedKnown, node.score}
		}
		if c.flaw == torn {
			c.answer(s, a, n, at.at == addedAccepted, at.value)
		}
	case addedAccepted, addedKnown:
		if node.owner == owner(a) {
			c.answer(s, a, n, at.at == addedAccepted, at.value)
		} else {
			*at = conn{at: noVote}
		}
	case raiseAsked:
		c.raise(s, a, n)
	}
}

// refuse runs an acquire that finds the lock key taken. The ZADD of a pipeline lands all the same.
func (c *config) refuse(s *state, a, n int) {
	at := &s.node[n].conn[a]
	if c.form == pipeline {
		at.at = setNoVote
	} else {
		c.goOn(s, a, n)
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

// acquire is the rest of an atomic acquire once the lock is given: the script's ZADD, or the counter.
func (c *config) acquire(s *state, a, n int) {
	node := &s.node[n]
	at := &node.conn[a]
	counts := at.at == asked || at.at == askedAgain
	accepted, value := true, at.value
	switch {
	case c.flaw == clientClock: // the nodes keep no tokens
	case c.form == counter:
		node.score++
		value = node.score
	default:
		accepted = node.zaddGT(at.value)
		value = node.score
	}
	if !counts || at.at == asked && s.attempt[a].again {
		c.goOn(s, a, n) // an answer to the first question no longer counts
		return
	}
	c.answer(s, a, n, accepted, value)
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
	if node.owner != owner(a) && c.flaw != rawRaise {
		*at = conn{at: noVote}
		return
	}
	accepted := node.zaddGT(s.attempt[a].token)
	if c.flaw == blindOK || c.flaw == atLeast {
		accepted = true // after ZADD GT every node holds at least the token
	}
	if accepted {
		*at = conn{at: raised}
	} else {
		*at = conn{at: noVote}
	}
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

// forever is a tick that no run reaches.
const forever = 7

func (n *node) abstains(now uint8) bool { return now < n.since }

// trimmable reports whether the name's entry is older than the retention, by the fastest clock there is.
func (c *config) trimmable(s *state, n int) bool {
	oldest := int(s.now) + 1 + int(c.skew) - int(c.retention)
	return s.node[n].score > 0 && int(s.node[n].score) < oldest*tokensPerTick
}
