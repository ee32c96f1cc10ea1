// Package quorum decides what votes amount to: who votes, in one list of nodes or in two; what is a majority; when an
// outcome is certain; who asks again after a tie; what a waiter does next.
//
// It is pure: it knows votes and what nodes have said, as values. It must not know how a node is asked, what the time is,
// nor what a lock is called.
package quorum

import (
	"math/bits"
	"slices"
	"time"
)

// Electorate is who votes: one list of nodes, or two while the nodes are being changed (WithMigration). What counts is
// a majority of each list. A node that is in both lists votes in both.
//
// Two clients exclude each other if both need a majority of one list, whatever else each of them needs: these
// majorities share a node, as always. So a client with the lists A and B excludes those with A alone and those with B
// alone, which do not exclude each other. Raft changes its members by the same rule, which it calls joint consensus
// (Ongaro, Consensus: Bridging Theory and Practice, 2014, section 4.3).
type Electorate struct {
	Lists []nodeList
	All   Set // the nodes of all lists
	Size  int // their number
}

// nodeList is one list of nodes.
type nodeList struct {
	Nodes Set
	size  int
	Need  int // a majority
}

// OneList returns the electorate of n nodes in one list.
func OneList(n int) *Electorate { return New(All(n)) }

// newElectorate returns the electorate of the lists.
func New(lists ...Set) *Electorate {
	e := &Electorate{}
	for _, nodes := range lists {
		e.Lists = append(e.Lists, nodeList{nodes, nodes.Size(), Majority(nodes.Size())})
		e.All |= nodes
	}
	e.Size = e.All.Size()
	return e
}

// Majority returns the smallest size of a set of n nodes such that any two sets of that size share a node.
func Majority(n int) int { return n/2 + 1 }

// Suffice reports whether the nodes are a majority of each list, as a hold needs it.
func (e *Electorate) Suffice(nodes Set) bool {
	for _, l := range e.Lists {
		if (nodes & l.Nodes).Size() < l.Need {
			return false
		}
	}
	return true
}

// MayHold reports whether the nodes are a majority of some list. That is enough for another client that has this list
// alone, and how many lists another client has is unknown.
func (e *Electorate) MayHold(nodes Set) bool {
	for _, l := range e.Lists {
		if (nodes & l.Nodes).Size() >= l.Need {
			return true
		}
	}
	return false
}

// Block reports whether the nodes are so many that the others cannot suffice.
func (e *Electorate) Block(nodes Set) bool {
	for _, l := range e.Lists {
		if (nodes & l.Nodes).Size() > l.size-l.Need {
			return true
		}
	}
	return false
}

// NoReply stands for the time of a node that has not told one.
const NoReply time.Duration = -1

// MajorityBy returns after how long a majority of each list has reached its time, given the times by node, as far as
// majorities have told theirs. known is false if none has.
func (e *Electorate) MajorityBy(times []time.Duration) (d time.Duration, known bool) {
	for _, l := range e.Lists {
		var told []time.Duration
		for i, at := range times {
			if l.Nodes.Has(i) && at != NoReply {
				told = append(told, at)
			}
		}
		if len(told) >= l.Need {
			slices.Sort(told)
			d, known = max(d, told[l.Need-1]), true
		}
	}
	return d, known
}

// Least returns the smallest number of nodes that suffice. Nodes in both lists count in both, so it may be less than a
// Majority of all.
func (e *Electorate) Least() int {
	if len(e.Lists) == 1 {
		return e.Lists[0].Need
	}
	a, b := e.Lists[0], e.Lists[1]
	both := min((a.Nodes & b.Nodes).Size(), max(a.Need, b.Need))
	return both + max(0, a.Need-both) + max(0, b.Need-both)
}

// Worst returns size and need of the list that lacks the most votes, and how many of its nodes are among the given ones.
func (e *Electorate) Worst(votes Set) (size, need, has int) {
	for i, list := range e.Lists {
		if n := (votes & list.Nodes).Size(); i == 0 || list.Need-n > need-has {
			size, need, has = list.size, list.Need, n
		}
	}
	return size, need, has
}

// List returns the nodes of the list with that index; none if there is no such list.
func (e *Electorate) List(i int) Set {
	if i >= len(e.Lists) {
		return 0
	}
	return e.Lists[i].Nodes
}

// nodeSet is a set of nodes by their index.
type Set uint32

func All(n int) Set          { return 1<<uint(n) - 1 }
func (s Set) Has(i int) bool { return s>>uint(i)&1 == 1 }
func (s Set) With(i int) Set { return s | 1<<uint(i) }
func (s Set) Size() int      { return bits.OnesCount32(uint32(s)) }

// Vote is one node's answer to one request, as it is counted.
type Vote uint8

// The votes, from good to bad. Only voteGranted counts towards a majority of grants.
const (
	Granted   Vote = iota // yes
	Outbid                // the node gave us the lock, but knows a larger token
	Absent                // no owner has the key there
	Taken                 // another owner has the key there
	Abstained             // the node answered, but its vote does not count at present
	Failed                // an error, or no answer in time
	VoteKinds
)

// Marker is the value of a lock's key while a node has readers. It sorts behind all owners, which begin with a
// hexadecimal digit.
const Marker = "readers"

// Answer is one node's reply in detail. The goroutine that reads the node's replies writes it before it casts the vote;
// the caller reads it only if the tally has the vote.
type Answer struct {
	Vote      Vote
	Owner     string        // voteTaken: the holder's owner, if known
	Label     string        // voteTaken: what the holder's client calls itself, if known
	Remaining time.Duration // voteTaken: for how long the node keeps the key, if known
	Token     int64         // the token that the node knows, if it said so
	Place     int           // how many waiters are ahead of this one in the queue; of a grant: 1 for some
	Which     int           // voteTaken: the index of the first of several locks that is taken
	Err       error         // voteFailed, voteAbstained: why
	Revoked   bool          // voteTaken: an administrator has taken it from this owner
	Uncounted bool          // voteTaken: the node abstains, so the vote does not count for its holder either
	Reply     any           // the reply of a command that is no vote on a lock
}

// Verdict is the outcome of a round, as far as the votes so far decide it.
type Verdict uint8

// The verdicts. No other verdict ever turns back into verdictPending, and verdictWon and verdictLost are final.
const (
	Pending Verdict = iota
	Won             // a majority of each list granted
	Short           // a majority of each list gave the lock, but of some list fewer accepted the token
	Lost            // for some list a majority of grants has become impossible
)

// Tally packs all votes of one round into a word: for each list, how many nodes granted and how many gave the lock but
// know a larger token, in 5 bits each; how many of all nodes said that it is taken; above them a bit for each node that
// Has voted. So a vote is one atomic addition, and a reader always sees a consistent state.
type Tally uint64

// MaxNodes is the number of nodes that fit into a tally, those of two lists together. Five nodes are usual.
const MaxNodes = 31

const (
	countBits  = 5
	listBits   = 2 * countBits // granted, outbid
	takenShift = 2 * listBits
	maskShift  = takenShift + countBits
	countMask  = 1<<countBits - 1
)

// Ballot is the tally of a single vote.
func (e *Electorate) Ballot(node int, v Vote) Tally {
	b := Tally(1) << (maskShift + uint(node))
	switch v {
	case Granted, Outbid:
		for i, l := range e.Lists {
			if l.Nodes.Has(node) {
				b += 1 << (uint(i)*listBits + uint(v)*countBits)
			}
		}
	case Taken:
		b += 1 << takenShift
	case Absent, Abstained, Failed, VoteKinds:
	}
	return b
}

func (t Tally) Voters() Set         { return Set(t >> maskShift) }
func (t Tally) Voted(node int) bool { return t.Voters().Has(node) }
func (t Tally) Taken() int          { return int(t>>takenShift) & countMask }

// Verdict decides as soon as no missing vote can change the outcome. verdictShort comes even earlier: see below.
func (e *Electorate) Verdict(votes Tally) Verdict {
	all := Won
	for i, l := range e.Lists {
		counts := votes >> (uint(i) * listBits)
		switch v := l.verdict(int(counts)&countMask, int(counts>>countBits)&countMask, votes.Voters()); {
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

// Verdict is that of one list.
func (l *nodeList) verdict(granted, outbid int, voted Set) Verdict {
	given := granted + outbid
	refused := (voted & l.Nodes).Size() - given
	switch {
	case granted >= l.Need:
		return Won
	case given >= l.Need:
		// A straggler's grant might still complete a majority of grants, but waiting for it means waiting for the slowest
		// node.
		return Short
	case refused > l.size-l.Need:
		return Lost
	default:
		return Pending
	}
}
