package modelcheck

import "fmt"

// migration is a change of the list of nodes, from list A to list B (docs/changing-nodes.md). A client votes with A
// alone, with both lists, or with B alone. It asks every node of its lists, and each step takes a majority of each of
// them: to be given the lock, to have its token accepted, to extend its hold.
//
// Who may be out together is one rule: never a client of A alone beside a client of B alone. The phases of a rolling
// change (A; A and both; both; both and B; B), backing out of any of them, and clients that come, go and crash are all
// ways to keep it. An attempt that has no step of its own any more is gone, but what it left on the nodes or on the
// wire stays: a key goes away at any moment, a request is executed at any moment or never.
//
// As in the model of the fencing token, a lost or late answer is one that the attempt does not count, and a key that is
// over goes when the next owner comes (config.wireStep says why that is enough). The raise goes to every node of the
// attempt's lists.
//
// A hold is valid as long as its client trusts it, and rests on the votes of its last round: there its keys stand,
// because the client's validity ends before the nodes' TTL. Everywhere else they may go. An extension is one step. It
// counts any nodes that have the key at that moment, a majority of each list, and from then on the hold rests on those.
// One step is enough: a node that has executed an extension keeps the key until the client has counted it or has given
// up. Holds rest on as few nodes as possible; resting on more would only take possibilities away.
//
// Properties, checked whenever an attempt wins:
//
//  1. Exclusion: no other hold is valid.
//  2. Unique, order: its token is larger than that of every earlier hold with which it shares a list.
//
// 2 holds whatever keys do (config lapses), for a hold that had won before the attempt began. It says nothing of a hold
// with A alone and one with B alone: the nodes that accepted the one token need not know the other, unless a hold with
// both lists came in between. Across that gap, only the clock orders tokens (across). A proposal is the nodes' time,
// and clients disagree about that by up to skew ticks. So the change must stay for more than skew ticks (middle) where
// neither A alone nor B alone is out.
//
// Not here, because it is the same with one list and has its own model: nodes that forget and their guard, trimming, a
// second question, hand-over. Nor is a ticket, which carries a hold to another client: Adopt is an extension and needs
// the same majorities.
type migration struct {
	a, b     nodeSet
	attempts int

	// Without a clock (horizon 0) an attempt proposes any token in 1…proposals. With one, time goes from tick 0 to
	// horizon, and a proposal is the time plus 0…skew ticks.
	proposals             int
	horizon, skew, middle uint8

	beside bool // clients of A alone and of B alone may be out at once
	across bool // order is demanded between a hold with A alone and one with B alone, too
	lapses bool // a key may go at any moment, whatever its client trusts: clocks are wrong, and only order is demanded
	repair bool // a hold may set its key and token again where they are gone, also late, when it is over

	with      []votesWith // the lists of each attempt; any, where it says nothing
	unreduced bool        // keep states apart that differ in nothing that matters, too

	flaw flaw
}

const (
	unionMajority  flaw = "a majority of the nodes of both lists together"
	toIgnored      flaw = "an extension needs a majority of list A only"
	oneListAccepts flaw = "a token counts when a majority of one list accepted it"
)

// votesWith says which lists a client votes with.
type votesWith uint8

const (
	onlyA votesWith = 1 << iota
	onlyB
	both = onlyA | onlyB
)

// asked is every node that a client asks.
func (m *migration) asked(w votesWith) (nodes nodeSet) {
	if w&onlyA != 0 {
		nodes |= m.a
	}
	if w&onlyB != 0 {
		nodes |= m.b
	}
	return nodes
}

// enough reports whether voters are a majority of each of a client's lists.
func (m *migration) enough(w votesWith, voters nodeSet) bool {
	if w == both && m.flaw == unionMajority {
		return (m.a | m.b).decidedBy(voters)
	}
	return (w&onlyA == 0 || m.a.decidedBy(voters)) && (w&onlyB == 0 || m.b.decidedBy(voters))
}

// enoughToWin judges a round: gave are the nodes that gave the lock, accepted those that accepted the token as well.
func (m *migration) enoughToWin(w votesWith, gave, accepted nodeSet) bool {
	if w == both && m.flaw == oneListAccepts {
		return m.enough(w, gave) && (m.a.decidedBy(accepted) || m.b.decidedBy(accepted))
	}
	return m.enough(w, accepted)
}

func (m *migration) enoughToExtend(w votesWith, voters nodeSet) bool {
	if w == both && m.flaw == toIgnored {
		w = onlyA
	}
	return m.enough(w, voters)
}

// migrationState is everything at one moment of a migration.
type migrationState struct {
	node      [maxListed]listedNode
	attempt   [maxAttempts]migrationAttempt
	now       uint8
	notBefore [2]uint8 // the tick before which no client of A alone, or of B alone, may come; 0: it may
}

type listedNode struct {
	owner uint8
	entry uint8 // the largest token accepted
	conn  [maxAttempts]contact
}

// contact is what is on the wire between an attempt and a node, or what came of it.
type contact uint8

const (
	nothing    contact = iota // not asked, answered no, or no longer of interest
	acquireOut                // the acquire is on the wire; if the attempt has raised its token, the raise is behind it
	accepts                   // answered: gave the lock and accepted the proposal
	raiseOut                  // the raise is on the wire
	acceptsRaise
	rests // the hold rests on this node's vote
	knows // plus a token: gave the lock, but knows that token, which is at least the proposal
)

type migrationAttempt struct {
	phase    phase // lost: without ever having been a hold
	with     votesWith
	proposal uint8 // what the acquire proposes
	token    uint8 // the same, or what the raise made of it
	after    uint8 // with lapses: bit set of the attempts that had won before this one began
}

func (at *migrationAttempt) live() bool { return at.phase != idle && at.phase < lost }

func (at *migrationAttempt) hasWon() bool { return at.phase == won || at.phase == over }

var _ model[migrationState, event] = (*migration)(nil)

func (m *migration) explore() result { return explore[migrationState, event](m) }

func (m *migration) initial() []migrationState { return []migrationState{{}} }

// stands reports whether the key on node n cannot go: its client is making its attempt, or has a hold that rests on it.
func (m *migration) stands(s *migrationState, n int) bool {
	holder := s.node[n].owner
	if holder == 0 || m.lapses {
		return false
	}
	at := &s.attempt[holder-1]
	return at.phase == acquiring || at.phase == raising || at.phase == won && s.node[n].conn[holder-1] == rests
}

// mayCome reports whether a client may come now that votes with these lists.
func (m *migration) mayCome(s *migrationState, with votesWith) bool {
	if m.beside || with == both {
		return true
	}
	for i := range s.attempt {
		if s.attempt[i].live() && s.attempt[i].with&with == 0 {
			return false
		}
	}
	return s.notBefore[with-onlyA] <= s.now
}

// proposed lists what an attempt that begins now may propose.
func (m *migration) proposed(now uint8) []uint8 {
	c := config{proposals: m.proposals, horizon: m.horizon, skew: m.skew}
	return c.proposed(now)
}

// violated checks the properties when attempt a wins.
func (m *migration) violated(s *migrationState, a int) string {
	is := &s.attempt[a]
	for b := range s.attempt {
		earlier := &s.attempt[b]
		if b == a || !earlier.hasWon() {
			continue
		}
		was, now := client(uint8(b)), client(uint8(a))
		pair := fmt.Sprintf("%s has token %d, %s has token %d", was, earlier.token, now, is.token)
		switch {
		case earlier.phase == won && !m.lapses:
			return fmt.Sprintf("exclusion: %s and %s hold the lock at the same time", was, now)
		case earlier.with&is.with == 0 && !m.across:
		case earlier.token == is.token:
			return "unique: " + pair
		case earlier.token > is.token && (!m.lapses || is.after>>b&1 != 0):
			return fmt.Sprintf("order: %s held the lock first, yet %s", was, pair)
		}
	}
	return ""
}

// merged sorts nodes that are in the same lists, since those are alike, and drops what nothing follows from.
func (m *migration) merged(s migrationState) migrationState {
	if !m.unreduced && m.decided(&s) {
		return migrationState{now: forever}
	}
	var acquires, raises [maxAttempts]bool
	for n := range s.node {
		node := &s.node[n]
		if holder := node.owner; holder != 0 && !s.attempt[holder-1].live() && node.conn[holder-1] != raiseOut {
			node.owner = 0 // it may go at any moment, and nobody asks whose it was
		}
		for a := range node.conn {
			if m.idle(&s, a, n) {
				node.conn[a] = nothing
			}
			acquires[a] = acquires[a] || node.conn[a] == acquireOut
			raises[a] = raises[a] || node.conn[a] == raiseOut
		}
	}
	sortNodes(s.node[:], func(i, j int) bool { return m.a.has(i) == m.a.has(j) && m.b.has(i) == m.b.has(j) })
	for a := range s.attempt {
		at := &s.attempt[a]
		if !acquires[a] {
			at.proposal = 0
		}
		if at.phase == lost {
			at.with = 0
			if !acquires[a] && !raises[a] {
				at.token = 0
			}
		}
	}
	return s
}

func (n listedNode) order() uint64 {
	order := uint64(n.owner)<<8 | uint64(n.entry)
	for _, c := range n.conn {
		order = order<<8 | uint64(c)
	}
	return order
}

// decided reports whether no attempt can win any more: there is nothing left to find.
func (m *migration) decided(s *migrationState) bool {
	for a := range m.attempts {
		if s.attempt[a].phase < won {
			return false
		}
	}
	return true
}

// idle reports whether what is on the wire from attempt a to node n can do nothing, now or later, but take a key away
// from others: whatever follows it can follow without it. A raise is idle once the node would refuse it, and an acquire
// once its attempt is gone and the node knows its token.
func (m *migration) idle(s *migrationState, a, n int) bool {
	node, at := &s.node[n], &s.attempt[a]
	switch node.conn[a] {
	case acquireOut:
		return !m.unreduced && !at.live() && at.token <= node.entry
	case raiseOut:
		return node.owner != owner(a) || at.token <= node.entry
	}
	return false
}
