package modelcheck

// event is one step of the fencing protocol or of the world around it.
type event struct {
	kind    kind
	attempt int
	node    int
	arrived nodeSet
	token   uint8
}

type kind uint8

const (
	begins kind = iota
	asksAgain
	decides
	executes
	refuses
	expires
	forgets
	trims
	handsOver
	repairs
	ticks
)

// config is the model of the fencing protocol.
var _ model[state, event] = (*config)(nil)

func (c *config) key(s *state) key { return s.pack() }

// initial lists the starting states: every way to fill the nodes from entries, up to their order.
func (c *config) initial() []state {
	entries := c.entries
	if len(entries) == 0 {
		entries = []uint8{0}
	}
	states := []state{{}}
	for n := range nodes {
		var wider []state
		for _, s := range states {
			for _, entry := range entries {
				s.node[n].score = entry
				wider = append(wider, s)
			}
		}
		states = wider
	}
	return states
}

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
	switch s.attempt[a].phase {
	case idle:
		if a > 0 && s.attempt[a-1].phase == idle {
			return // the attempts are alike: without loss of generality they begin in order
		}
		for _, token := range c.proposed(s.now) {
			t := *s
			c.begin(&t, a, token)
			emit(event{kind: begins, attempt: a, token: token}, &t, "")
		}
	case acquiring, raising:
		if c.asksAgain && s.attempt[a].phase == acquiring && !s.attempt[a].again {
			for _, token := range c.proposedAgain(s.attempt[a].token, s.now) {
				t := *s
				c.askAgain(&t, a, token)
				emit(event{kind: asksAgain, attempt: a, token: token}, &t, "")
			}
		}
		answered := c.answered(s, a)
		for arrived := nodeSet(1); arrived <= allNodes; arrived++ {
			if arrived&^answered != 0 {
				continue
			}
			t := *s
			if decided, broken := c.decide(&t, a, arrived); decided {
				emit(event{kind: decides, attempt: a, arrived: arrived}, &t, broken)
			}
		}
	}
}

// wireStep lets node n execute the next command of attempt a.
//
// Some steps are left out, because they only take possibilities away: whatever follows them can follow without them. A
// command that changes nothing on the node and earns no vote: it may as well stay on the wire. The expiry or release of
// a lock key by itself: it may as well happen when another owner's SET comes, so that SET either finds the key taken or
// takes it over. And some are joined to their neighbour: the GET may as well follow its ZADD at once, and a SET that is
// refused precede its ZADD at once, since a key that was taken stays so until it is taken over. unreduced takes every
// step by itself; the tests compare.
func (c *config) wireStep(s *state, a, n int, emit func(event, *state, string)) {
	before := &s.node[n]
	acquires := before.conn[a].acquires()
	taken := acquires && before.taken(a)
	joined := !c.unreduced && !c.handOver && !c.silentLoss
	emitUnlessIdle := func(kind kind, t *state) {
		after := &t.node[n]
		idle := after.owner == before.owner && after.score == before.score && after.conn[a].at == noVote
		if c.unreduced || !idle {
			c.giveUpIfHopeless(t, a)
			emit(event{kind: kind, attempt: a, node: n}, t, "")
		}
	}
	if taken && (c.unreduced || c.form == pipeline) {
		t := *s
		c.refuse(&t, a, n)
		if joined {
			c.execute(&t, a, n)
		}
		emitUnlessIdle(refuses, &t)
	}
	if taken && c.unreduced {
		return
	}
	t := *s
	c.execute(&t, a, n)
	if at := t.node[n].conn[a].at; joined && (at == addedAccepted || at == addedKnown) {
		c.execute(&t, a, n)
	}
	emitUnlessIdle(executes, &t)
}

func (c *config) nodeSteps(s *state, n int, emit func(event, *state, string)) {
	if c.unreduced && s.node[n].owner != 0 {
		t := *s
		t.node[n].owner = 0
		emit(event{kind: expires, node: n, attempt: int(s.node[n].owner) - 1}, &t, "")
	}
	if c.mayForget(s, n) {
		t := *s
		c.forget(&t, n)
		emit(event{kind: forgets, node: n}, &t, "")
	}
	if c.trim && c.trimmable(s, n) {
		t := *s
		t.node[n].score = 0
		emit(event{kind: trims, node: n}, &t, "")
	}
	for a := range c.attempts {
		holder := int(s.node[n].owner) - 1
		if c.handOver && holder >= 0 && holder != a && s.attempt[holder].phase == won && c.waits(s, a, n) {
			t := *s
			t.node[n].owner = owner(a)
			emit(event{kind: handsOver, node: n, attempt: a}, &t, "")
		}
		if c.repair && holder != a && !(c.unreduced && holder >= 0) && s.attempt[a].phase == won {
			t := *s
			t.node[n].owner = owner(a)
			t.node[n].zaddGT(t.attempt[a].token)
			emit(event{kind: repairs, node: n, attempt: a}, &t, "")
		}
	}
}

// waits reports whether node n may reserve the key for attempt a. A waiter queues on a node behind its own acquire, on
// the same connection, so that acquire is over, and what may come is a confirmation, which here is the attempt's only
// acquire: not begun, or not yet executed. hastyHandOver forgets that order.
func (c *config) waits(s *state, a, n int) bool {
	switch s.node[n].conn[a].at {
	case unsent, asked:
		return s.attempt[a].phase != won && s.attempt[a].phase != lost
	case set, addedAccepted, addedKnown:
		return c.flaw == hastyHandOver
	}
	return false
}

// mayForget reports whether node n may lose its data now. While one node's votes abstain no other node forgets: two
// nodes that forget within one guard period are a majority, and nothing is promised then.
func (c *config) mayForget(s *state, n int) bool {
	if s.losses >= c.losses {
		return false
	}
	for other := range s.node {
		if other != n && s.node[other].abstains(s.now) {
			return false
		}
	}
	return true
}
