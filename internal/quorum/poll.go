package quorum

import (
	"sync/atomic"
	"time"
)

// Vote is one node's answer to one request, as it is counted.
type Vote uint8

// The votes, from good to bad. Only Granted counts towards a majority of grants.
const (
	Granted   Vote = iota // yes
	Outbid                // the node gave us the lock, but knows a larger token
	Absent                // no owner has the key there
	Taken                 // another owner has the key there
	Abstained             // the node answered, but its vote does not count at present
	Failed                // an error, or no answer in time
	VoteKinds
)

// Marker is the value of a lock's key while a node has readers. It sorts behind owners, which begin with a hex digit.
const Marker = "readers"

// Answer is one node's answer in detail.
type Answer struct {
	Vote      Vote
	Owner     string        // Taken: the holder's owner, if known
	Label     string        // Taken: what the holder's client calls itself, if known
	Remaining time.Duration // Taken: for how long the node keeps the key, if known
	Token     int64         // the token that the node knows, if it said so
	Ahead     int           // how many waiters are ahead of this one in the queue; of a grant: 1 for some
	Which     int           // Taken: the index of the first of several locks that is taken
	Err       error         // Failed, Abstained: why; Taken: why, if not because of a holder
	Revoked   bool          // Taken: an administrator has taken it from this owner
	Uncounted bool          // Taken: the node abstains, so the vote does not count for its holder either
	Reply     any           // the reply of a command that is no vote on a lock
}

// Verdict is the outcome of a poll, as far as the votes so far decide it.
type Verdict uint8

// The verdicts. No other verdict ever turns back into Pending, and Won and Lost are final.
const (
	Pending Verdict = iota
	Won             // a majority of each list granted
	Short           // a majority of each list gave the lock, but of some list fewer accepted the token
	Lost            // for some list a majority of grants has become impossible
)

// Poll counts the votes of all nodes on one question. Any goroutine may cast a node's vote. The answer is written
// before the vote is counted, so whoever has seen the vote may read it.
type Poll struct {
	Everyone bool // the outcome is certain only when all nodes have answered

	electorate *Electorate
	votes      atomic.Uint64 // a tally
	answers    []Answer      // by node
}

// Init makes a poll of an electorate. It is called once.
func (p *Poll) Init(e *Electorate) { p.electorate, p.answers = e, make([]Answer, e.Size) }

// Begin forgets what a former question got.
func (p *Poll) Begin() {
	p.votes.Store(0)
	for i := range p.answers {
		p.answers[i] = Answer{Vote: Absent}
	}
}

// Cast counts a node's vote. It returns the votes up to it, and whether the outcome had been certain before.
func (p *Poll) Cast(node int, a Answer) (votes Count, decided bool) {
	p.answers[node] = a
	b := p.electorate.ballot(node, a.Vote)
	after := tally(p.votes.Add(uint64(b)))
	return Count{p, after}, Count{p, after - b}.Certain()
}

// SoFar returns the votes that have been cast.
func (p *Poll) SoFar() Count { return Count{p, tally(p.votes.Load())} }

// Count is the votes of a poll at one moment.
type Count struct {
	poll  *Poll
	tally tally
}

// Verdict decides as soon as no missing vote can change the outcome. Short comes even earlier: see list.verdict.
func (c Count) Verdict() Verdict { return c.poll.electorate.verdict(c.tally) }

// Certain reports whether the missing votes cannot change the outcome.
func (c Count) Certain() bool {
	if c.poll.Everyone {
		return c.Voters() == c.poll.electorate.All
	}
	return c.Verdict() != Pending
}

// Electorate returns who may vote.
func (c Count) Electorate() *Electorate { return c.poll.electorate }

// Voters returns the nodes that have voted.
func (c Count) Voters() Set { return c.tally.voters() }

// Voted reports whether a node has voted.
func (c Count) Voted(node int) bool { return c.tally.voters().Has(node) }

// AnyTaken reports whether some node has said that the lock is taken.
func (c Count) AnyTaken() bool { return c.tally>>takenShift&countMask > 0 }

// Answer returns the answer of a node that has voted. It must not be kept for longer than the poll.
func (c Count) Answer(node int) *Answer { return &c.poll.answers[node] }

// Who returns the nodes that cast v.
func (c Count) Who(v Vote) Set { return c.where(func(a *Answer) bool { return a.Vote == v }) }

// where returns the nodes that have voted and for whose answer is returns true.
func (c Count) where(is func(a *Answer) bool) Set {
	return Where(len(c.poll.answers), func(i int) bool { return c.Voted(i) && is(c.Answer(i)) })
}

// tally packs all votes of one poll into a word: for each list, how many nodes granted and how many gave the lock but
// know a larger token, in 5 bits each; how many of all nodes said that it is taken; above them a bit for each node that
// has voted. So a vote is one atomic addition, and a reader always sees a consistent state.
type tally uint64

// MaxNodes is the number of nodes that fit into a tally, those of two lists together. Five nodes are usual.
const MaxNodes = 31

const (
	countBits  = 5
	listBits   = 2 * countBits // granted, outbid
	takenShift = 2 * listBits
	maskShift  = takenShift + countBits
	countMask  = 1<<countBits - 1
)

// ballot is the tally of a single vote.
func (e *Electorate) ballot(node int, v Vote) tally {
	b := tally(1) << (maskShift + uint(node))
	switch v {
	case Granted, Outbid:
		for i, l := range e.lists {
			if l.nodes.Has(node) {
				b += 1 << (uint(i)*listBits + uint(v)*countBits)
			}
		}
	case Taken:
		b += 1 << takenShift
	case Absent, Abstained, Failed, VoteKinds:
	}
	return b
}

func (t tally) voters() Set { return Set(t >> maskShift) }

// verdict is that of all lists together.
func (e *Electorate) verdict(votes tally) Verdict {
	all := Won
	for i, l := range e.lists {
		counts := votes >> (uint(i) * listBits)
		switch v := l.verdict(int(counts)&countMask, int(counts>>countBits)&countMask, votes.voters()); {
		case v == Lost:
			return Lost // whatever the other list says
		case v == Pending, all == Pending:
			all = Pending
		case v == Short:
			all = Short
		}
	}
	return all
}

// verdict is that of one list.
func (l *list) verdict(granted, outbid int, voted Set) Verdict {
	given := granted + outbid
	refused := (voted & l.nodes).Size() - given
	switch {
	case granted >= l.need:
		return Won
	case given >= l.need:
		// A straggler's grant might still complete a majority of grants, but that means waiting for the slowest node.
		return Short
	case refused > l.size-l.need:
		return Lost
	default:
		return Pending
	}
}
