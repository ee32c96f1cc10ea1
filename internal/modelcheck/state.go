package modelcheck

import "slices"

const (
	nodes       = 3
	majority    = nodes/2 + 1
	maxAttempts = 3
)

// state is everything at one moment: the nodes, the attempts, and what is on the wire between them.
type state struct {
	node    [nodes]node
	attempt [maxAttempts]attempt
	now     uint8 // ticks since the start
	losses  uint8 // how often a node forgot
}

// node is one Redis master, as far as one lock name goes.
type node struct {
	owner uint8 // who holds the lock key: attempt + 1; 0: the key is free
	score uint8 // the name's token in the sorted set; 0: no entry
	since uint8 // it forgot something; its votes abstain until this tick; 0: they do not
	conn  [maxAttempts]conn
}

// attempt is one client's one try for the lock. A client that tries again is another attempt: owners are never reused.
type attempt struct {
	phase phase
	token uint8 // what it proposes now; when it won, its fencing token
	start uint8 // the tick at which it began
	after uint8 // bit set of the attempts that had won before this one began
	again bool  // it has asked a second time: what is asked on the wire has the second question behind it
}

type phase uint8

const (
	idle      phase = iota
	acquiring       // the proposal is out to every node
	raising         // the second round is out
	won
	lost // too few votes are possible any more; only what is on the wire matters
)

// conn is the connection between an attempt and a node: what is on the wire, or what came of it.
//
// A reply is never delivered as a step of its own. Where a decision is taken, the attempt picks which of the answers
// given so far have arrived; those it leaves out are late or lost.
type conn struct {
	at    stage
	value uint8 // asked…added: the proposal in the message; told: what the node answered
}

type stage uint8

const (
	unsent           stage = iota
	asked                  // the acquire is on the wire
	askedNoVote            // the same, to a node that abstains: it is obeyed, not counted
	set                    // native form: SET gave the lock, ZADD is next
	setNoVote              // native form: ZADD is still to come although no vote can come of it
	addedAccepted          // native form: ZADD accepted, GET is next
	addedKnown             // native form: ZADD refused, GET is next
	toldAccepted           // answered: the lock is given, the token value accepted
	toldKnown              // answered: the lock is given, but a token value ≥ the proposal is known
	raiseAsked             // the raise to attempt.token is on the wire
	raised                 // answered: exactly attempt.token accepted
	noVote                 // answered no, abstained, died with a connection, or no longer of interest
	askedAgain             // the second question is on the wire, with nothing before it
	askedAgainNoVote       // the same, to a node that abstains
)

func (c conn) gaveLock() bool { return c.at == toldAccepted || c.at == toldKnown }

// acquires reports whether the next command asks for the lock.
func (c conn) acquires() bool {
	return c.at == asked || c.at == askedNoVote || c.at == askedAgain || c.at == askedAgainNoVote
}

// onWire reports whether commands of this connection may still be executed.
func (c conn) onWire() bool {
	return c.at >= asked && c.at <= addedKnown || c.at == raiseAsked || c.at == askedAgain || c.at == askedAgainNoVote
}

// pack writes the state into three words, one per node, each with a third of the rest above the node's 41 bits. The
// nodes are sorted first: the protocol treats them alike, so states that differ only in their order are one state.
// The attempts need no such trick, because the model starts them in order.
func (s *state) pack() key {
	var k key
	for i := range s.node {
		n := &s.node[i]
		word := uint64(n.owner) | uint64(n.score)<<2 | uint64(n.since)<<8
		for j, c := range n.conn {
			word |= (uint64(c.at) | uint64(c.value)<<4) << (11 + 10*j)
		}
		k[i] = word
	}
	slices.Sort(k[:])
	for i := range s.attempt {
		a := &s.attempt[i]
		rest := uint64(a.phase) | uint64(a.token)<<3 | uint64(a.start)<<9 | uint64(a.after)<<12
		k[i] |= rest << 41
	}
	k[0] |= uint64(s.now) << 56
	k[1] |= uint64(s.losses) << 56
	for i := range s.attempt {
		if s.attempt[i].again {
			k[2] |= 1 << (56 + i)
		}
	}
	return k
}
