package quorum

import (
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// waiterVotes counts the votes for one waiter and for its rivals: by the answers to the waiter's last request, and by
// notifications.
type Votes struct {
	Given        Set             // nodes that gave the waiter the lock
	Granted      Set             // of these, nodes that accepted its token
	Fresh        Set             // nodes that gave the lock in answer to the last request
	FreshGranted Set             // of these, nodes that accepted the token
	Handed       Set             // nodes that gave the lock after they had refused the last request
	Highest      int64           // the highest token known to a node that gave the lock without accepting the token
	others       map[string]Set  // votes by other owner; marker: readers; "": an unknown owner
	remaining    []time.Duration // by node: the remaining TTL of another owner's key, or noReply
	ahead        int             // the most waiters that are ahead on any node
	Revoked      bool            // a node gives the waiter nothing any more: what it has is not to be used
	wanted       bool            // an older waiter waits on a node that gave the waiter the lock
	lacking      Set             // nodes that abstained or failed to answer
}

// Notifications are the nodes' notifications to one waiter, by node.
type Notifications struct {
	Last     []Notification
	accepted []int64 // the highest of the waiter's tokens that the node is known to have accepted
}

// Notification is the last notification by a node.
type Notification struct {
	Answer
	Received bool
	stale    bool // received before the last request: that request's answer takes precedence
	Behind   bool // the node sent it after it had refused the last request
}

func NewNotifications(nodes int) Notifications {
	return Notifications{make([]Notification, nodes), make([]int64, nodes)}
}

// Receive records a notification. A grant means that the node accepted the token in the waiter's place in the queue.
func (n *Notifications) Receive(node int, a Answer, queuedToken int64, behind bool) {
	n.Last[node] = Notification{Answer: a, Received: true, Behind: behind}
	if a.Vote == Granted {
		n.Accept(node, queuedToken)
	}
}

func (n *Notifications) Accept(node int, token int64) {
	n.accepted[node] = max(n.accepted[node], token)
}

// Age marks all notifications as stale, before a new request.
func (n *Notifications) Age() {
	for i := range n.Last {
		n.Last[i].stale = true
	}
}

// Count counts the votes by the answers to the last request and by the notifications. askedToken is the token in that
// request, and want the token that the waiter needs now.
func (n *Notifications) Count(votes Tally, answers []Answer, askedToken, want int64) (v Votes) {
	v.others, v.remaining = make(map[string]Set), make([]time.Duration, len(answers))
	for i := range answers {
		v.remaining[i] = NoReply
		a, fresh := Answer{Vote: Failed}, votes.Voted(i)
		if fresh {
			a = answers[i]
			v.Revoked = v.Revoked || a.Revoked // also if a notification from before it comes after it
		}
		last := &n.Last[i]
		switch {
		case !last.Received:
		case fresh && last.stale && (a.Vote == Failed || a.Vote == Abstained):
			*last = Notification{} // the node has not confirmed the vote, and may have lost it since
		case !fresh || a.Vote == Failed || a.Vote == Abstained:
			a, fresh = last.Answer, false
		case a.Vote == Taken && last.stale:
			*last = Notification{} // the waiter had the vote and has lost it
		case a.Vote == Taken:
			a, fresh = last.Answer, false // the waiter got the vote after the answer
			if last.Behind {
				v.Handed = v.Handed.With(i)
			}
		}
		switch a.Vote {
		case Granted, Outbid:
			v.Given = v.Given.With(i)
			v.ahead, v.wanted = max(v.ahead, a.Place), v.wanted || a.Place > 0
			if fresh {
				v.Fresh = v.Fresh.With(i)
				if a.Vote == Granted {
					n.Accept(i, askedToken)
				}
			}
			// A grant counts for one token only: it may be for a lower token than the waiter has now, and a node that
			// "knows" the waiter's token may have it from another client.
			if n.accepted[i] == want && (a.Vote == Granted || a.Token == want) {
				v.Granted = v.Granted.With(i)
				if fresh {
					v.FreshGranted = v.FreshGranted.With(i)
				}
			} else {
				v.Highest = max(v.Highest, a.Token)
			}
		case Taken:
			if v.others[a.Owner] |= 0; !a.Uncounted { // an uncounted vote adds its owner with no vote
				v.others[a.Owner] = v.others[a.Owner].With(i)
			}
			v.ahead = max(v.ahead, a.Place)
			if a.Remaining > 0 {
				v.remaining[i] = a.Remaining
			}
		case Abstained, Failed:
			if fresh {
				v.lacking = v.lacking.With(i)
			}
		case Absent, VoteKinds:
			// does not say which owner has the lock
		}
	}
	v.Handed &= v.Given // not those that abstain since
	return v
}

// ShouldYield reports whether the votes are split and the waiter should give its own back: it has some, no owner has a
// Majority of any list, and an older owner has some too. The oldest keeps its votes, so one of them makes progress.
//
// A reader gives way to every writer. It does not give way to other readers, whose votes do not exclude its own; but if
// a node refuses it although readers have the lock there, a writer waits on that node. A writer never gives way to
// readers. So the oldest writer keeps its votes, and all other waiters give theirs back.
func (v *Votes) ShouldYield(shared bool, owner string, e *Electorate) bool {
	if v.Given == 0 || e.Suffice(v.Given) {
		return false
	}
	yields := false
	for other, votes := range v.others {
		readers := other == Marker
		if e.MayHold(votes) && !(shared && readers) {
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
func (v *Votes) blocksOlder(e *Electorate) bool {
	if !v.wanted || e.Suffice(v.Given) {
		return false
	}
	holds := e.MayHold(v.Given)
	for _, votes := range v.others {
		holds = holds || e.MayHold(votes)
	}
	return holds
}

// deadlocked reports whether both the waiter and other owners have votes, and none has a majority.
func (v *Votes) deadlocked(e *Electorate) bool {
	if v.Given == 0 || e.Suffice(v.Given) || len(v.others) == 0 {
		return false
	}
	for _, votes := range v.others {
		if e.MayHold(votes) {
			return false
		}
	}
	return true
}

// Decision is what a waiter does after a request that did not get the lock.
type Decision uint8

// The decisions.
const (
	KeepVotes Decision = iota // and ask again
	GiveBack                  // give the votes back, and go on under a new owner that keeps the place in the queues
	Requeue                   // give the votes back, and go to the end of the queues: no waiter makes progress
	Retreat                   // give votes and places back, and go on when a majority may vote
)

// patience counts what a waiter's requests found.
type History struct {
	Partial  int  // requests in a row that found some votes
	split    int  // requests in a row after which there was a reason to give votes back
	cutOff   int  // requests in a row that so many nodes failed that the others cannot suffice
	GaveBack int  // how often the waiter gave votes back, in all
	Stands   bool // the last request was the first of all, by which the waiter stands
}

// stuckAfter is how many requests in a row, about two seconds, the oldest waiter keeps its votes while no owner has a
// majority. Then it goes to the end of the queues. Without this limit one node that cannot notify the oldest waiter
// could block the lock for ever: that node skips the waiter at each release, while all other waiters give way to it on
// the other nodes.
const stuckAfter = 16

// Record counts what a request found.
func (p *History) Record(v *Votes) {
	p.Partial++
	if v.Given == 0 {
		p.Partial = 0
	}
}

// isCutOff counts a request, and reports whether so many nodes fail the waiter, and not for a moment only, that it
// cannot get the lock. Other waiters may reach those nodes, or need fewer, so it must not keep them waiting: by the
// Votes that it has, or by those that nodes would hand to it because it is the oldest.
func (p *History) isCutOff(v *Votes, e *Electorate) bool {
	if p.cutOff++; !e.Block(v.lacking) {
		p.cutOff = 0
	}
	return p.cutOff > 1
}

// Decide returns what to do next. It must be called once after each request.
func (p *History) Decide(v *Votes, shared bool, owner string, e *Electorate) Decision {
	if v.Revoked {
		p.GaveBack++
		return GiveBack
	}
	if p.isCutOff(v, e) {
		p.split, p.Partial = 0, 0
		return Retreat
	}
	stuck := p.Partial > stuckAfter && v.deadlocked(e)
	if !stuck && !v.blocksOlder(e) && !v.ShouldYield(shared, owner, e) {
		p.split = 0
		return KeepVotes
	}
	p.split++
	if p.split == 1 && !p.Stands && (shared || v.Fresh == 0 || v.ahead == 0) {
		// A single split may be a release that has not reached all nodes yet. It is not if one node answered that it is
		// the waiter's turn, and another, or the same, that a waiter is ahead of it.
		return KeepVotes
	}
	p.split = 0
	p.GaveBack++
	if stuck {
		return Requeue
	}
	return GiveBack
}

// Pause is the time between the outcome of a request and the next request. Its random parts are drawn once, and its
// Length follows from the votes, which still come in.
type Pause struct {
	Backoff time.Duration // 0: no pause
	short   time.Duration // if the waiter has some votes
	Took    time.Duration // how long the request took
	place   int           // waiters ahead beyond this number do not make the pause longer
	longest time.Duration
}

// NoPause follows the last request.
var NoPause Pause

// NewPause draws the pause after a number of requests, of which the last ones in a row, partial, found some votes. It is
// never longer than longest, and the longer the more waiters are ahead, as far as place counts them.
func NewPause(backoff, longest time.Duration, place, partial int) Pause {
	short := (2*time.Millisecond + chance.Duration(time.Millisecond)) << min(partial, 6)
	return Pause{Backoff: backoff, short: short, place: place, longest: longest}
}

// Length returns how long to wait before the next request. If the waiter has some votes: 2 to 3 ms, doubled for each
// request in a row that found some, six times at most, and as much again if the request took as long, but never more
// than the back-off. Otherwise: the back-off, longer the more waiters are ahead, and at least twice as long as the
// request took, so that clients and nodes that are overloaded get less to do. But it ends when the holder's keys
// expire: the first in the queue asks then, and the others after it, in case that it is gone.
func (p Pause) Length(v *Votes, e *Electorate) time.Duration {
	if v.Given != 0 {
		return min(p.Backoff, p.short+min(p.Took, p.short))
	}
	long := max(p.Backoff+p.Backoff*time.Duration(min(v.ahead, p.place))/4, 2*p.Took)
	if expiry, known := e.MajorityBy(v.remaining); known {
		long = min(long, expiry+time.Millisecond+2*time.Millisecond*time.Duration(v.ahead))
	}
	return min(long, p.longest)
}
