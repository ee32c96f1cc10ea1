package modelcheck

import (
	"fmt"
	"slices"
)

// config says which protocol runs in which world. The zero value of every switch is the protocol as it is shipped and a
// world without the fault; each flaw is one of the naive variants that must be found broken.
type config struct {
	// counter is the protocol that was rejected (ADR 0004): the node adds one to its own entry and says what that makes.
	counter  bool
	attempts int
	// raiseAll sends the raise to the nodes too that have not answered the acquire yet; on their connections it queues
	// behind it. Otherwise only the nodes whose answer gave the lock get one.
	raiseAll bool

	// Without a clock (horizon 0) an attempt may propose any token in 1…proposals: no assumption at all.
	proposals int
	// With a clock, time goes from tick 0 to horizon, and a proposal is the time plus a skew in 0…skew ticks: clients
	// disagree by so much. An attempt that is older than lifetime ticks decides nothing any more.
	horizon, skew, lifetime uint8

	entries []uint8 // the token entries that a node may have to begin with

	// losses is how often a node may restart without its data. It then holds no lock and, as its token entry, forgetTo:
	// 0 for an empty node, the first of entries for one that came back with an old snapshot.
	losses   uint8
	forgetTo uint8
	guard    uint8 // for how many ticks the votes of a node that restarted abstain, settled when the acquire is sent
	// silentLoss lets a loss leave the connections alone, as FLUSHALL does: nobody notices, nobody abstains.
	silentLoss bool

	trim      bool  // entries older than retention may be removed, by the fastest of the clocks
	retention uint8 // in ticks

	// asksAgain lets an attempt ask every node a second time, under the same owner and with a larger token, as the oldest
	// of those that split the votes does (docs/algorithm.md): the node gives what is free or the attempt's own. Here any
	// attempt may do so at any moment before it has decided.
	asksAgain bool

	handOver bool // a release may set the key to a waiting attempt's owner (docs/algorithm.md, While you wait)
	repair   bool // a holder may set its key and token again where they are gone (docs/algorithm.md, While it is held)

	unreduced bool // take the steps that wireStep leaves out, too

	flaw flaw
	// beyondValidity also demands order by grant from a holder whose keys are already gone when it is granted the lock.
	// The protocol does not promise that; see doc.go.
	beyondValidity bool
}

// flaw is one thing done wrong.
type flaw string

const (
	maxOnly     flaw = "V0: largest token of a majority, no second round"
	atLeast     flaw = "V1: a node that holds ≥ F counts as having accepted F"
	rawRaise    flaw = "V2: raise without owner check"
	blindOK     flaw = "V3: raise answers OK, not what the node holds"
	recreate    flaw = "A2: raise creates a lost entry anew"
	bothRounds  flaw = "votes of the first question count for the second one's token"
	oldToken    flaw = "the second question has the first one's token, and knowing it counts as acceptance"
	staleAgain  flaw = "the second question's token is one above the first one's, whatever the time is"
	clientClock flaw = "the client's clock alone"
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
	owner uint8 // who holds the lock key
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

// conn is the connection between an attempt and a node: what is on the wire, or what came of it.
//
// A reply is never delivered as a step of its own. Where a decision is taken, the attempt picks which of the answers
// given so far have arrived; those it leaves out are late or lost.
type conn struct {
	at    stage
	value uint8 // asked…: the proposal in the message; told…: what the node answered
}

type stage uint8

const (
	unsent           stage = iota
	asked                  // the acquire is on the wire
	askedNoVote            // the same, to a node that abstains: it is obeyed, not counted
	askedAgain             // the second question is on the wire, with nothing before it
	askedAgainNoVote       // the same, to a node that abstains
	raiseAsked             // the raise to attempt.token is on the wire
	toldAccepted           // answered: the lock is given, the token value accepted
	toldKnown              // answered: the lock is given, but a token value ≥ the proposal is known
	raised                 // answered: exactly attempt.token accepted
	noVote                 // answered no, abstained, died with a connection, or no longer of interest
)

func (c conn) gaveLock() bool { return c.at == toldAccepted || c.at == toldKnown }

// acquires reports whether the next command asks for the lock.
func (c conn) acquires() bool { return c.at >= asked && c.at <= askedAgainNoVote }

// onWire reports whether commands of this connection may still be executed.
func (c conn) onWire() bool { return c.acquires() || c.at == raiseAsked }

var _ model[state, event] = (*config)(nil)

func (c *config) explore() result { return explore[state, event](c) }

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

// merged: the protocol treats the nodes alike. The attempts need no such trick, because the model starts them in order.
func (c *config) merged(s state) state {
	sortNodes(s.node[:], all)
	return s
}

func (n node) order() uint64 {
	order := uint64(n.owner)<<16 | uint64(n.score)<<8 | uint64(n.since)
	for _, c := range n.conn {
		order = order<<10 | uint64(c.at)<<6 | uint64(c.value)
	}
	return order
}

// forever is a tick that no run reaches.
const forever = 7

func (n *node) abstains(now uint8) bool { return now < n.since }

// taken reports whether the key is another's. A key that was handed over to this very owner is not.
func (n *node) taken(a int) bool { return n.owner != 0 && n.owner != owner(a) }

// zaddGT is ZADD GT CH: whether the entry changed, that is, whether the node accepted the token.
func (n *node) zaddGT(token uint8) bool {
	if token <= n.score {
		return false
	}
	n.score = token
	return true
}

// Ticks are apart by more tokens than a run has raises, so that a raise never overtakes the clock. On real nodes a
// token is a microsecond and a raise takes a round trip: the same.
const tokensPerTick = 4

// proposed lists what an attempt that begins at tick now may propose.
func (c *config) proposed(now uint8) (list []uint8) {
	if c.horizon == 0 {
		for f := 1; f <= c.proposals; f++ {
			list = append(list, uint8(f))
		}
		return list
	}
	for skew := uint8(0); skew <= c.skew; skew++ {
		list = append(list, (now+1+skew)*tokensPerTick)
	}
	return list
}

// proposedAgain lists what an attempt may propose with its second question: larger tokens than its first, and with a
// clock, what the time is then.
func (c *config) proposedAgain(first, now uint8) []uint8 {
	if c.flaw == oldToken {
		return []uint8{first}
	}
	if c.horizon == 0 || c.flaw == staleAgain {
		list := []uint8{first + 1}
		for token := first + 2; int(token) <= c.proposals; token++ {
			list = append(list, token)
		}
		return list
	}
	list := c.proposed(now)
	for i := range list {
		list[i] = max(list[i], first+1)
	}
	return slices.Compact(list)
}

// describe tells a step, and what attempts and nodes have after it: a:2/1 is a node whose lock key belongs to client 2,
// and whose entry for the name is 1.
func (c *config) describe(_ *state, act event, after *state) string {
	is := after.attempt[act.attempt]
	node := after.node
	return fmt.Sprintf("%-42s token %d; a:%d/%d b:%d/%d c:%d/%d", act, is.token,
		node[0].owner, node[0].score, node[1].owner, node[1].score, node[2].owner, node[2].score)
}
