package modelcheck

import "slices"

// config says which protocol runs in which world. The zero value of every switch is the protocol as it is shipped and a
// world without the fault; each flaw is one of the naive variants that must be found broken.
type config struct {
	form     form
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
	// guard is for how many ticks the votes of a node that restarted abstain. Whether they do is settled when the acquire
	// is sent, or, with lateGuard, only when the answers are counted.
	guard     uint8
	lateGuard bool
	// silentLoss lets a loss leave the connections alone, as FLUSHALL does: nobody notices, nobody abstains.
	silentLoss bool

	trim      bool  // entries older than retention may be removed, by the fastest of the clocks
	retention uint8 // in ticks

	// asksAgain lets an attempt ask every node a second time, under the same owner and with a larger token, as the oldest
	// of those that split the votes does (docs/algorithm.md): the node gives what is free or the attempt's own. Only in
	// the form script. Here any attempt may do so at any moment before it has decided.
	asksAgain bool

	handOver bool // a release may set the key to a waiting attempt's owner (DESIGN.md section 7)
	repair   bool // a holder may set its key and token again where they are gone (DESIGN.md section 6)

	unreduced bool // take the steps that wireStep leaves out, too

	flaw flaw
	// beyondValidity also demands order by grant from a holder whose keys are already gone when it is granted the lock.
	// The protocol does not promise that; see doc.go.
	beyondValidity bool
}

// form is how a node handles an acquire.
type form uint8

const (
	script   form = iota // SET NX and ZADD GT CH F in one atomic step
	pipeline             // SET NX, ZADD GT CH F, GET: three steps, others' commands and expiry in between
	counter              // the fall-back: the node adds one to its own entry and says what that makes
)

// flaw is one thing done wrong.
type flaw string

const (
	noFlaw        flaw = ""
	maxOnly       flaw = "V0: largest token of a majority, no second round"
	atLeast       flaw = "V1: a node that holds ≥ F counts as having accepted F"
	rawRaise      flaw = "V2: raise without owner check"
	blindOK       flaw = "V3: raise answers OK, not what the node holds"
	recreate      flaw = "A2: raise creates a lost entry anew"
	torn          flaw = "SET and ZADD without the last GET"
	hastyHandOver flaw = "hand-over to an owner whose SET, ZADD, GET are under way"
	bothRounds    flaw = "votes of the first question count for the second one's token"
	oldToken      flaw = "the second question has the first one's token, and knowing it counts as acceptance"
	staleAgain    flaw = "the second question's token is one above the first one's, whatever the time is"
	clientClock   flaw = "the client's clock alone"
)

// ticks are apart by more tokens than a run has raises, so that a raise never overtakes the clock. On real nodes a
// token is a microsecond and a raise takes a round trip: the same.
const tokensPerTick = 4

// proposed lists what an attempt that begins at tick now may propose.
func (c *config) proposed(now uint8) []uint8 {
	var list []uint8
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
