package redlock

import (
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// waiterVotes counts the votes for one waiter and for its rivals: by the answers to the waiter's last request, and by
// notifications.
type waiterVotes struct {
	given        nodeSet            // nodes that gave the waiter the lock
	granted      nodeSet            // of these, nodes that accepted its token
	fresh        nodeSet            // nodes that gave the lock in answer to the last request
	freshGranted nodeSet            // of these, nodes that accepted the token
	handed       nodeSet            // nodes that gave the lock after they had refused the last request
	highest      int64              // the highest token known to a node that gave the lock without accepting the token
	others       map[string]nodeSet // votes by other owner; marker: readers; "": an unknown owner
	remaining    []time.Duration    // by node: the remaining TTL of another owner's key, or noReply
	ahead        int                // the most waiters that are ahead on any node
	revoked      bool               // a node gives the waiter nothing any more: what it has is not to be used
	wanted       bool               // an older waiter waits on a node that gave the waiter the lock
	lacking      nodeSet            // nodes that abstained or failed to answer
}

// notifications are the nodes' notifications to one waiter, by node.
type notifications struct {
	last     []notification
	accepted []int64 // the highest of the waiter's tokens that the node is known to have accepted
}

// notification is the last notification by a node.
type notification struct {
	answer
	received bool
	stale    bool // received before the last request: that request's answer takes precedence
	behind   bool // the node sent it after it had refused the last request
}

func newNotifications(nodes int) notifications {
	return notifications{make([]notification, nodes), make([]int64, nodes)}
}

// receive records a notification. A grant means that the node accepted the token in the waiter's place in the queue.
func (n *notifications) receive(node int, a answer, queuedToken int64, behind bool) {
	n.last[node] = notification{answer: a, received: true, behind: behind}
	if a.vote == voteGranted {
		n.accept(node, queuedToken)
	}
}

func (n *notifications) accept(node int, token int64) {
	n.accepted[node] = max(n.accepted[node], token)
}

// age marks all notifications as stale, before a new request.
func (n *notifications) age() {
	for i := range n.last {
		n.last[i].stale = true
	}
}

// count counts the votes by the answers to the last request and by the notifications. askedToken is the token in that
// request, and want the token that the waiter needs now.
func (n *notifications) count(votes tally, answers []answer, askedToken, want int64) (v waiterVotes) {
	v.others, v.remaining = make(map[string]nodeSet), make([]time.Duration, len(answers))
	for i := range answers {
		v.remaining[i] = noReply
		a, fresh := answer{vote: voteFailed}, votes.voted(i)
		if fresh {
			a = answers[i]
			v.revoked = v.revoked || a.revoked // also if a notification from before it comes after it
		}
		last := &n.last[i]
		switch {
		case !last.received:
		case fresh && last.stale && (a.vote == voteFailed || a.vote == voteAbstained):
			*last = notification{} // the node has not confirmed the vote, and may have lost it since
		case !fresh || a.vote == voteFailed || a.vote == voteAbstained:
			a, fresh = last.answer, false
		case a.vote == voteTaken && last.stale:
			*last = notification{} // the waiter had the vote and has lost it
		case a.vote == voteTaken:
			a, fresh = last.answer, false // the waiter got the vote after the answer
			if last.behind {
				v.handed = v.handed.with(i)
			}
		}
		switch a.vote {
		case voteGranted, voteOutbid:
			v.given = v.given.with(i)
			v.ahead, v.wanted = max(v.ahead, a.place), v.wanted || a.place > 0
			if fresh {
				v.fresh = v.fresh.with(i)
				if a.vote == voteGranted {
					n.accept(i, askedToken)
				}
			}
			// A grant counts for one token only: it may be for a lower token than the waiter has now, and a node that
			// "knows" the waiter's token may have it from another client.
			if n.accepted[i] == want && (a.vote == voteGranted || a.token == want) {
				v.granted = v.granted.with(i)
				if fresh {
					v.freshGranted = v.freshGranted.with(i)
				}
			} else {
				v.highest = max(v.highest, a.token)
			}
		case voteTaken:
			if v.others[a.owner] |= 0; !a.uncounted { // an uncounted vote adds its owner with no vote
				v.others[a.owner] = v.others[a.owner].with(i)
			}
			v.ahead = max(v.ahead, a.place)
			if a.remaining > 0 {
				v.remaining[i] = a.remaining
			}
		case voteAbstained, voteFailed:
			if fresh {
				v.lacking = v.lacking.with(i)
			}
		case voteAbsent, voteKinds:
			// does not say which owner has the lock
		}
	}
	v.handed &= v.given // not those that abstain since
	return v
}

// shouldYield reports whether the votes are split and the waiter should give its own back: it has some, no owner has a
// majority of any list, and an older owner has some too. The oldest keeps its votes, so one of them makes progress.
//
// A reader gives way to every writer. It does not give way to other readers, whose votes do not exclude its own; but if
// a node refuses it although readers have the lock there, a writer waits on that node. A writer never gives way to
// readers. So the oldest writer keeps its votes, and all other waiters give theirs back.
func (v *waiterVotes) shouldYield(shared bool, owner string, e *electorate) bool {
	if v.given == 0 || e.suffice(v.given) {
		return false
	}
	yields := false
	for other, votes := range v.others {
		readers := other == marker
		if e.mayHold(votes) && !(shared && readers) {
			return false
		}
		yields = yields || other != "" && (shared || !readers && other < owner)
	}
	return yields
}

// blocksOlder reports whether an older waiter waits on a node that gave this one the lock, while somebody seems to hold
// it: another owner, or to the others this waiter. The older waiter is next, and may lack just these votes: because the
// others are those of slow nodes, or because it is the owner that seems to hold the lock. What looks like a majority is
// less to the owner that has it if it needs one of another list as well, or if a node abstains for it.
//
// Votes that nobody older waits for are kept: behind a holder that has one list alone, the votes of the other are idle,
// and no waiter that gave them back would be rid of them.
func (v *waiterVotes) blocksOlder(e *electorate) bool {
	if !v.wanted || e.suffice(v.given) {
		return false
	}
	holds := e.mayHold(v.given)
	for _, votes := range v.others {
		holds = holds || e.mayHold(votes)
	}
	return holds
}

// deadlocked reports whether both the waiter and other owners have votes, and none has a majority.
func (v *waiterVotes) deadlocked(e *electorate) bool {
	if v.given == 0 || e.suffice(v.given) || len(v.others) == 0 {
		return false
	}
	for _, votes := range v.others {
		if e.mayHold(votes) {
			return false
		}
	}
	return true
}

// decision is what a waiter does after a request that did not get the lock.
type decision uint8

// The decisions.
const (
	keepVotes decision = iota // and ask again
	giveBack                  // give the votes back, and go on under a new owner that keeps the place in the queues
	requeue                   // give the votes back, and go to the end of the queues: no waiter makes progress
	retreat                   // give votes and places back, and go on when a majority may vote
)

// patience counts what a waiter's requests found.
type patience struct {
	partial  int  // requests in a row that found some votes
	split    int  // requests in a row after which there was a reason to give votes back
	cutOff   int  // requests in a row that so many nodes failed that the others cannot suffice
	gaveBack int  // how often the waiter gave votes back, in all
	stands   bool // the last request was the first of all, by which the waiter stands
}

// stuckAfter is how many requests in a row, about two seconds, the oldest waiter keeps its votes while no owner has a
// majority. Then it goes to the end of the queues. Without this limit one node that cannot notify the oldest waiter
// could block the lock for ever: that node skips the waiter at each release, while all other waiters give way to it on
// the other nodes.
const stuckAfter = 16

// record counts what a request found.
func (p *patience) record(v *waiterVotes) {
	p.partial++
	if v.given == 0 {
		p.partial = 0
	}
}

// isCutOff counts a request, and reports whether so many nodes fail the waiter, and not for a moment only, that it
// cannot get the lock. Other waiters may reach those nodes, or need fewer, so it must not keep them waiting: by the
// votes that it has, or by those that nodes would hand to it because it is the oldest.
func (p *patience) isCutOff(v *waiterVotes, e *electorate) bool {
	if p.cutOff++; !e.block(v.lacking) {
		p.cutOff = 0
	}
	return p.cutOff > 1
}

// decide returns what to do next. It must be called once after each request.
func (p *patience) decide(v *waiterVotes, shared bool, owner string, e *electorate) decision {
	if v.revoked {
		p.gaveBack++
		return giveBack
	}
	if p.isCutOff(v, e) {
		p.split, p.partial = 0, 0
		return retreat
	}
	stuck := p.partial > stuckAfter && v.deadlocked(e)
	if !stuck && !v.blocksOlder(e) && !v.shouldYield(shared, owner, e) {
		p.split = 0
		return keepVotes
	}
	p.split++
	if p.split == 1 && !p.stands && (shared || v.fresh == 0 || v.ahead == 0) {
		// A single split may be a release that has not reached all nodes yet. It is not if one node answered that it is
		// the waiter's turn, and another, or the same, that a waiter is ahead of it.
		return keepVotes
	}
	p.split = 0
	p.gaveBack++
	if stuck {
		return requeue
	}
	return giveBack
}

// pause is the time between the outcome of a request and the next request. Its random parts are drawn once, and its
// length follows from the votes, which still come in.
type pause struct {
	backoff time.Duration // 0: no pause
	short   time.Duration // if the waiter has some votes
	took    time.Duration // how long the request took
	place   int           // waiters ahead beyond this number do not make the pause longer
	longest time.Duration
}

// noPause follows the last request.
var noPause pause

// newPause draws the pause after a number of requests, of which the last ones in a row, partial, found some votes. It is
// never longer than longest, and the longer the more waiters are ahead, as far as place counts them.
func newPause(backoff, longest time.Duration, place, partial int) pause {
	short := (2*time.Millisecond + chance.Duration(time.Millisecond)) << min(partial, 6)
	return pause{backoff: backoff, short: short, place: place, longest: longest}
}

// length returns how long to wait before the next request. If the waiter has some votes: 2 to 3 ms, doubled for each
// request in a row that found some, six times at most, and as much again if the request took as long, but never more
// than the back-off. Otherwise: the back-off, longer the more waiters are ahead, and at least twice as long as the
// request took, so that clients and nodes that are overloaded get less to do. But it ends when the holder's keys
// expire: the first in the queue asks then, and the others after it, in case that it is gone.
func (p pause) length(v *waiterVotes, e *electorate) time.Duration {
	if v.given != 0 {
		return min(p.backoff, p.short+min(p.took, p.short))
	}
	long := max(p.backoff+p.backoff*time.Duration(min(v.ahead, p.place))/4, 2*p.took)
	if expiry, known := e.majorityBy(v.remaining); known {
		long = min(long, expiry+time.Millisecond+2*time.Millisecond*time.Duration(v.ahead))
	}
	return min(long, p.longest)
}
