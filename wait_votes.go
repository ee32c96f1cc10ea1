package redlock

import (
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// waiterVotes is how the votes stand for one waiter: what the nodes answered to its last question, and what they have
// notified it of since.
type waiterVotes struct {
	given   int   // nodes that gave the lock
	granted int   // of these, nodes that accepted the token
	fresh   int   // nodes that gave the lock in answer to the last question
	sure    int   // of these, nodes that accepted the token
	highest int64 // the highest token that a node knows
	others  map[string]int
	remains []time.Duration // how long the others' keys live still
	place   int             // how many wait before us, at most
}

// notifications are what the nodes said to one waiter unasked, by node.
type notifications struct {
	last     []notification
	accepted []int64 // the highest of our tokens that the node has accepted, asked or unasked
}

// notification is what a node said unasked.
type notification struct {
	answer
	received bool
	stale    bool // received before the last question was asked: the answer to that counts more
}

func newNotifications(nodes int) notifications {
	return notifications{make([]notification, nodes), make([]int64, nodes)}
}

// receive takes a notification, that the waiter's first token was accepted where it is a grant.
func (n *notifications) receive(node int, a answer, first int64) {
	n.last[node] = notification{answer: a, received: true}
	if a.vote == voteGranted {
		n.accept(node, first)
	}
}

func (n *notifications) accept(node int, token int64) {
	n.accepted[node] = max(n.accepted[node], token)
}

// age makes stale what was received so far.
func (n *notifications) age() {
	for i := range n.last {
		n.last[i].stale = true
	}
}

// count sums up what the nodes have answered to the last question, which was asked with that token, and what they said
// unasked. want is the token that the waiter needs by now.
func (n *notifications) count(votes tally, answers []answer, asked, want int64) (v waiterVotes) {
	v.others = make(map[string]int)
	for i := range answers {
		a, fresh := answer{vote: voteFailed}, votes.voted(i)
		if fresh {
			a = answers[i]
		}
		switch last := &n.last[i]; {
		case !last.received:
		case fresh && last.stale && (a.vote == voteFailed || a.vote == voteAbstained):
			*last = notification{} // the node has not confirmed it, and may have forgotten it since
		case !fresh || a.vote == voteFailed || a.vote == voteAbstained:
			a, fresh = last.answer, false
		case a.vote == voteTaken && last.stale:
			*last = notification{} // it was ours and is no longer
		case a.vote == voteTaken:
			a, fresh = last.answer, false // it has become ours since
		}
		switch a.vote {
		case voteGranted, voteOutbid:
			v.given++
			if fresh {
				v.fresh++
				if a.vote == voteGranted {
					n.accept(i, asked)
				}
			}
			// A grant is a vote for one token. It may have been for a lower one than we
			// have now; and a node that "knows" our token may have it from somebody else.
			if n.accepted[i] == want && (a.vote == voteGranted || a.token == want) {
				v.granted++
				if fresh {
					v.sure++
				}
			} else {
				v.highest = max(v.highest, a.token)
			}
		case voteTaken:
			if v.others[a.owner] += 0; !a.uncounted { // it has the vote, for what that is worth
				v.others[a.owner]++
			}
			v.place = max(v.place, a.place)
			if a.remaining > 0 {
				v.remains = append(v.remains, a.remaining)
			}
		case voteAbsent, voteAbstained, voteFailed, voteKinds:
			// says nothing of who has the lock
		}
	}
	return v
}

// splits reports whether we have some votes, and nobody has a majority, and one that is older than
// us has some, too. The oldest keeps its votes, so somebody gets on. What looks like a majority
// to us may be less to who has it, where a node abstains for that one and not for
// us: so after some time we give our votes back to it, too.
//
// Readers give way to every writer, and to none of each other, whose votes do not exclude. Where one is
// refused although readers have the node, a writer waits there. No writer gives way to readers. So the
// oldest writer keeps its votes, and all others come apart.
func (v *waiterVotes) splits(shared bool, owner string, need int, late bool) bool {
	if v.given == 0 || v.given >= need {
		return false
	}
	gives := false
	for other, votes := range v.others {
		readers := other == marker
		if votes >= need && !late && !(shared && readers) {
			return false
		}
		gives = gives || other != "" && (shared || !readers && other < owner)
	}
	return gives
}

// strays reports whether we have some votes for what another has, although somebody has waited longer. The next
// turn is the older one's: without our votes it needs all other nodes, and is as late as the latest of them.
// Readers keep theirs, which exclude no reader.
func (v *waiterVotes) strays(shared bool, need int) bool {
	if shared || v.fresh == 0 || v.given >= need || v.place == 0 {
		return false
	}
	for _, votes := range v.others {
		if votes >= need {
			return true
		}
	}
	return false
}

// deadlocks reports whether we have some votes, others have some, and nobody has a majority.
func (v *waiterVotes) deadlocks(need int) bool {
	if v.given == 0 || v.given >= need || len(v.others) == 0 {
		return false
	}
	for _, votes := range v.others {
		if votes >= need {
			return false
		}
	}
	return true
}

// decision is what a waiter does next that has not got the lock.
type decision uint8

// The decisions.
const (
	keepVotes decision = iota // and ask again
	giveBack                  // what votes we have, to somebody who is before us
	beginAnew                 // at the end of the queues, without votes: nobody gets on
)

// patience is what a waiter has seen in a row.
type patience struct {
	partial  int // questions that found some votes
	split    int // questions after which there was a reason to give votes back
	gaveBack int // how often we did, in all
}

// lateAfter is how many questions in a row, half a second or so, a waiter keeps votes that are not enough while another
// seems to have a majority.
const lateAfter = 8

// hopeless is how many, two seconds or so, even the one that has waited longest keeps votes while nobody has a
// majority. Then it goes to the end of the queues: a node that cannot tell it passes it over at each release, and all
// others give way to it on the other nodes, so that without an end to that nobody would get the lock.
const hopeless = 2 * lateAfter

// asked takes note of what a question found.
func (p *patience) asked(v *waiterVotes) {
	p.partial++
	if v.given == 0 {
		p.partial = 0
	}
}

// decide is asked once after each question.
func (p *patience) decide(v *waiterVotes, shared bool, owner string, need int) decision {
	stuck := p.partial > hopeless && v.deadlocks(need)
	strays := p.gaveBack < 3 && v.strays(shared, need) // who seems older may be gone
	if !stuck && !strays && !v.splits(shared, owner, need, p.partial > lateAfter) {
		p.split = 0
		return keepVotes
	}
	p.split++
	if p.split == 1 && (shared || v.fresh == 0 || v.place == 0) {
		// Once may be a release on its way through the nodes; but not where one of them answered that it is our turn, and
		// another one that it is not.
		return keepVotes
	}
	p.split = 0
	p.gaveBack++
	if stuck {
		return beginAnew
	}
	return giveBack
}

// pause returns when to ask again: very soon where some votes are there already,
// at the latest when the holder's key ends, and otherwise the later the more wait before us.
func (v *waiterVotes) pause(o *options, attempts, partial, need int) time.Duration {
	pause := o.backoff(attempts)
	if v.given > 0 {
		return min(pause, (2*time.Millisecond+chance.Duration(time.Millisecond))<<min(partial, 6))
	}
	if o.maxAttempts == 0 {
		pause += pause * time.Duration(min(v.place, 128)) / 4
	}
	if slices.Sort(v.remains); len(v.remains) >= need {
		pause = min(pause, v.remains[need-1]+time.Millisecond)
	}
	return min(pause, o.ttl/2) // the nodes keep our place for a TTL
}
