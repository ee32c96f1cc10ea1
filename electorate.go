package redlock

import (
	"math/bits"
	"slices"
	"time"
)

// electorate is who votes: one list of nodes, or two while the nodes are being changed (WithMigration). What counts is
// a majority of each list. A node that is in both lists votes in both.
//
// Two clients exclude each other if both need a majority of one list, whatever else each of them needs: these
// majorities share a node, as always. So a client with the lists A and B excludes those with A alone and those with B
// alone, which do not exclude each other. Raft changes its members by the same rule, which it calls joint consensus
// (Ongaro, Consensus: Bridging Theory and Practice, 2014, section 4.3).
type electorate struct {
	lists []nodeList
	all   nodeSet // the nodes of all lists
	size  int     // their number
}

// nodeList is one list of nodes.
type nodeList struct {
	nodes nodeSet
	size  int
	need  int // a majority
}

// oneList returns the electorate of n nodes in one list.
func oneList(n int) *electorate { return newElectorate(allNodes(n)) }

// newElectorate returns the electorate of the lists.
func newElectorate(lists ...nodeSet) *electorate {
	e := &electorate{}
	for _, nodes := range lists {
		e.lists = append(e.lists, nodeList{nodes, nodes.size(), majority(nodes.size())})
		e.all |= nodes
	}
	e.size = e.all.size()
	return e
}

// majority returns the smallest size of a set of n nodes such that any two sets of that size share a node.
func majority(n int) int { return n/2 + 1 }

// suffice reports whether the nodes are a majority of each list, as a hold needs it.
func (e *electorate) suffice(nodes nodeSet) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).size() < l.need {
			return false
		}
	}
	return true
}

// mayHold reports whether the nodes are a majority of some list. That is enough for another client that has this list
// alone, and how many lists another client has is unknown.
func (e *electorate) mayHold(nodes nodeSet) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).size() >= l.need {
			return true
		}
	}
	return false
}

// block reports whether the nodes are so many that the others cannot suffice.
func (e *electorate) block(nodes nodeSet) bool {
	for _, l := range e.lists {
		if (nodes & l.nodes).size() > l.size-l.need {
			return true
		}
	}
	return false
}

// noReply stands for the time of a node that has not told one.
const noReply time.Duration = -1

// majorityBy returns after how long a majority of each list has reached its time, given the times by node, as far as
// majorities have told theirs. known is false if none has.
func (e *electorate) majorityBy(times []time.Duration) (d time.Duration, known bool) {
	for _, l := range e.lists {
		var told []time.Duration
		for i, at := range times {
			if l.nodes.has(i) && at != noReply {
				told = append(told, at)
			}
		}
		if len(told) >= l.need {
			slices.Sort(told)
			d, known = max(d, told[l.need-1]), true
		}
	}
	return d, known
}

// least returns the smallest number of nodes that suffice. Nodes in both lists count in both, so it may be less than a
// majority of all.
func (e *electorate) least() int {
	if len(e.lists) == 1 {
		return e.lists[0].need
	}
	a, b := e.lists[0], e.lists[1]
	both := min((a.nodes & b.nodes).size(), max(a.need, b.need))
	return both + max(0, a.need-both) + max(0, b.need-both)
}

// worst returns size and need of the list that lacks the most votes, and how many of its nodes are among the given ones.
func (e *electorate) worst(votes nodeSet) (size, need, has int) {
	for i, list := range e.lists {
		if n := (votes & list.nodes).size(); i == 0 || list.need-n > need-has {
			size, need, has = list.size, list.need, n
		}
	}
	return size, need, has
}

// list returns the nodes of the list with that index; none if there is no such list.
func (e *electorate) list(i int) nodeSet {
	if i >= len(e.lists) {
		return 0
	}
	return e.lists[i].nodes
}

// nodeSet is a set of nodes by their index.
type nodeSet uint32

func allNodes(n int) nodeSet         { return 1<<uint(n) - 1 }
func (s nodeSet) has(i int) bool     { return s>>uint(i)&1 == 1 }
func (s nodeSet) with(i int) nodeSet { return s | 1<<uint(i) }
func (s nodeSet) size() int          { return bits.OnesCount32(uint32(s)) }

// vote is one node's answer to one request, as it is counted.
type vote uint8

// The votes, from good to bad. Only voteGranted counts towards a majority of grants.
const (
	voteGranted   vote = iota // yes
	voteOutbid                // the node gave us the lock, but knows a larger token
	voteAbsent                // no owner has the key there
	voteTaken                 // another owner has the key there
	voteAbstained             // the node answered, but its vote does not count at present
	voteFailed                // an error, or no answer in time
	voteKinds
)

// marker is the value of a lock's key while a node has readers. It sorts behind all owners, which begin with a
// hexadecimal digit.
const marker = "readers"

// answer is one node's reply in detail. The goroutine that reads the node's replies writes it before it casts the vote;
// the caller reads it only if the tally has the vote.
type answer struct {
	vote      vote
	owner     string        // voteTaken: the holder's owner, if known
	label     string        // voteTaken: what the holder's client calls itself, if known
	remaining time.Duration // voteTaken: for how long the node keeps the key, if known
	token     int64         // the token that the node knows, if it said so
	place     int           // how many waiters are ahead of this one in the queue; of a grant: 1 for some
	which     int           // voteTaken: the index of the first of several locks that is taken
	err       error         // voteFailed, voteAbstained: why
	revoked   bool          // voteTaken: an administrator has taken it from this owner
	uncounted bool          // voteTaken: the node abstains, so the vote does not count for its holder either
	reply     any           // the reply of a command that is no vote on a lock
}

// verdict is the outcome of a round, as far as the votes so far decide it.
type verdict uint8

// The verdicts. No other verdict ever turns back into verdictPending, and verdictWon and verdictLost are final.
const (
	verdictPending verdict = iota
	verdictWon             // a majority of each list granted
	verdictShort           // a majority of each list gave the lock, but of some list fewer accepted the token
	verdictLost            // for some list a majority of grants has become impossible
)

// tally packs all votes of one round into a word: for each list, how many nodes granted and how many gave the lock but
// know a larger token, in 5 bits each; how many of all nodes said that it is taken; above them a bit for each node that
// has voted. So a vote is one atomic addition, and a reader always sees a consistent state.
type tally uint64

// maxNodes is the number of nodes that fit into a tally, those of two lists together. Five nodes are usual.
const maxNodes = 31

const (
	countBits  = 5
	listBits   = 2 * countBits // granted, outbid
	takenShift = 2 * listBits
	maskShift  = takenShift + countBits
	countMask  = 1<<countBits - 1
)

// ballot is the tally of a single vote.
func (e *electorate) ballot(node int, v vote) tally {
	b := tally(1) << (maskShift + uint(node))
	switch v {
	case voteGranted, voteOutbid:
		for i, l := range e.lists {
			if l.nodes.has(node) {
				b += 1 << (uint(i)*listBits + uint(v)*countBits)
			}
		}
	case voteTaken:
		b += 1 << takenShift
	case voteAbsent, voteAbstained, voteFailed, voteKinds:
	}
	return b
}

func (t tally) voters() nodeSet     { return nodeSet(t >> maskShift) }
func (t tally) voted(node int) bool { return t.voters().has(node) }
func (t tally) taken() int          { return int(t>>takenShift) & countMask }

// verdict decides as soon as no missing vote can change the outcome. verdictShort comes even earlier: see below.
func (e *electorate) verdict(votes tally) verdict {
	all := verdictWon
	for i, l := range e.lists {
		counts := votes >> (uint(i) * listBits)
		switch v := l.verdict(int(counts)&countMask, int(counts>>countBits)&countMask, votes.voters()); {
		case v == verdictLost:
			return verdictLost // whatever the other list says
		case v == verdictPending, all == verdictPending:
			all = verdictPending
		case v == verdictShort:
			all = verdictShort
		}
	}
	return all
}

// verdict is that of one list.
func (l *nodeList) verdict(granted, outbid int, voted nodeSet) verdict {
	given := granted + outbid
	refused := (voted & l.nodes).size() - given
	switch {
	case granted >= l.need:
		return verdictWon
	case given >= l.need:
		// A straggler's grant might still complete a majority of grants, but waiting for it means waiting for the slowest
		// node.
		return verdictShort
	case refused > l.size-l.need:
		return verdictLost
	default:
		return verdictPending
	}
}
