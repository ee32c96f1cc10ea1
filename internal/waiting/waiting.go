// Package waiting decides what a waiter does next: whether its votes suffice, when it asks again or gives them back.
//
// It is pure: it knows votes for a waiter and its rivals, and not how nodes are asked or notify, or what the time is.
package waiting

import (
	"time"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/quorum"
)

// Votes are the votes for one waiter and its rivals, by the answers to the waiter's last request and by notifications.
type Votes struct {
	Given    quorum.Set // nodes that gave the waiter the lock
	Enough   bool       // they are a majority of each list
	Basis    Basis      // what such a majority rests on
	Accepted bool       // enough of the votes that it rests on accepted the waiter's token
	Highest  int64      // the highest token known to a node that gave the lock without accepting the token
	Revoked  bool       // a node gives the waiter nothing any more: what it has is not to be used

	granted quorum.Set            // of the given votes, those of nodes that accepted the token
	fresh   quorum.Set            // nodes that gave the lock in answer to the last request
	handed  quorum.Set            // nodes that gave the lock after they had refused the last request
	others  map[string]quorum.Set // votes by other owner; Marker: readers; "": an unknown owner
	ahead   int                   // the most waiters that are ahead on any node
	wanted  bool                  // an older waiter waits on a node that gave the waiter the lock
	lacking quorum.Set            // nodes that abstained or failed to answer

	// What the electorate makes of that: see sum.
	mayHold     bool          // the waiter's votes are a majority of some list
	rivalHolds  bool          // so are those of another owner
	readersHold bool          // so are those of readers
	cutOff      bool          // so many nodes are lacking that the others cannot suffice
	expires     bool          // a majority has told for how long it keeps another owner's key:
	expiry      time.Duration // for so long
}

// Basis is what a vote, or a majority of votes, rests on. It says when the TTL of these votes began.
type Basis uint8

// The bases, from the worst: votes known by notification may have expired since.
const (
	Notified   Basis = iota // some votes are known by notification alone
	HandedOver              // the nodes gave the lock in answer to the last request, or after they had refused that
	Answered                // the nodes gave the lock in answer to the last request
)

// Notifications are the nodes' notifications to one waiter, by node.
type Notifications struct {
	last     []notification
	accepted []int64 // the highest of the waiter's tokens that the node is known to have accepted
}

// notification is the last notification by a node.
type notification struct {
	quorum.Answer
	received bool
	stale    bool  // received before the last request: that request's answer takes precedence
	basis    Basis // HandedOver: the node sent it after it had refused the last request; or Notified
}

// NewNotifications returns those of a number of nodes: none so far.
func NewNotifications(nodes int) Notifications {
	return Notifications{make([]notification, nodes), make([]int64, nodes)}
}

// Receive records a notification. A grant means that the node accepted the token with which the waiter is in the queue.
func (n *Notifications) Receive(node int, a quorum.Answer, queuedToken int64, basis Basis) {
	n.last[node] = notification{Answer: a, received: true, basis: basis}
	if a.Vote == quorum.Granted {
		n.Accept(node, queuedToken)
	}
}

// Accept notes that a node has accepted one of the waiter's tokens.
func (n *Notifications) Accept(node int, token int64) {
	n.accepted[node] = max(n.accepted[node], token)
}

// Age marks all notifications as older than the request that is sent next.
func (n *Notifications) Age() {
	for i := range n.last {
		n.last[i].stale = true
	}
}

// Weigh counts the votes by answers and notifications. asked is the token in the last request, want the one needed now.
func (n *Notifications) Weigh(votes quorum.Count, asked, want int64) (v Votes) {
	e := votes.Electorate()
	v.others = make(map[string]quorum.Set)
	remaining := make([]time.Duration, e.Size)
	for i := range remaining {
		remaining[i] = quorum.NoReply
		a, basis := n.effective(i, votes)
		v.Revoked = v.Revoked || votes.Voted(i) && votes.Answer(i).Revoked // also if a notification came after it
		switch a.Vote {
		case quorum.Granted, quorum.Outbid:
			if basis == Answered && a.Vote == quorum.Granted {
				n.Accept(i, asked)
			}
			if n.accepts(i, &a, want) {
				v.granted = v.granted.With(i)
			} else {
				v.Highest = max(v.Highest, a.Token)
			}
			v.give(i, a.Ahead, basis)
		case quorum.Taken:
			if v.others[a.Owner] |= 0; !a.Uncounted { // an uncounted vote adds its owner with no vote
				v.others[a.Owner] = v.others[a.Owner].With(i)
			}
			v.ahead = max(v.ahead, a.Ahead)
			if a.Remaining > 0 {
				remaining[i] = a.Remaining
			}
		case quorum.Abstained, quorum.Failed:
			if basis == Answered {
				v.lacking = v.lacking.With(i)
			}
		case quorum.Absent, quorum.VoteKinds:
			// does not say which owner has the lock
		}
	}
	v.sum(e)
	v.expiry, v.expires = e.MajorityBy(remaining)
	return v
}

// accepts reports whether a node that gave the lock has accepted the token that the waiter needs now. A grant may be
// for a lower one, and a node that "knows" the waiter's token may have it from another client.
func (n *Notifications) accepts(node int, a *quorum.Answer, want int64) bool {
	return n.accepted[node] == want && (a.Vote == quorum.Granted || a.Token == want)
}

// effective returns what a node says at present: its answer to the last request, or a notification that goes before it.
func (n *Notifications) effective(node int, votes quorum.Count) (quorum.Answer, Basis) {
	last := &n.last[node]
	switch {
	case !votes.Voted(node) && last.received:
		return last.Answer, Notified
	case !votes.Voted(node):
		return quorum.Answer{Vote: quorum.Failed}, Notified
	}
	a := *votes.Answer(node)
	unanswered := a.Vote == quorum.Failed || a.Vote == quorum.Abstained
	switch {
	case !last.received, !unanswered && a.Vote != quorum.Taken:
	case last.stale: // the waiter has lost the vote; or the node has not confirmed it, and may have lost it since
		*last = notification{}
	case unanswered:
		return last.Answer, Notified
	default: // HandedOver: the waiter got the vote after the answer
		return last.Answer, last.basis
	}
	return a, Answered
}

// give notes that a node gave the waiter the lock, although some waiters are ahead there.
func (v *Votes) give(node, ahead int, basis Basis) {
	v.Given = v.Given.With(node)
	v.ahead, v.wanted = max(v.ahead, ahead), v.wanted || ahead > 0
	switch basis {
	case Answered:
		v.fresh = v.fresh.With(node)
	case HandedOver:
		v.handed = v.handed.With(node)
	case Notified:
	}
}

// sum notes what the electorate makes of the votes.
func (v *Votes) sum(e *quorum.Electorate) {
	v.Enough, v.mayHold, v.cutOff = e.Suffice(v.Given), e.MayHold(v.Given), e.Block(v.lacking)
	for owner, votes := range v.others {
		if owner == quorum.Marker {
			v.readersHold = e.MayHold(votes)
		} else {
			v.rivalHolds = v.rivalHolds || e.MayHold(votes)
		}
	}
	accepted := v.granted
	switch {
	case e.Suffice(v.fresh):
		v.Basis, accepted = Answered, v.granted&v.fresh
	case e.Suffice(v.fresh | v.handed):
		v.Basis, accepted = HandedOver, v.granted&(v.fresh|v.handed)
	}
	v.Accepted = e.Suffice(accepted)
}

// Claimant is for whom a waiter asks.
type Claimant struct {
	Owner  string // the smaller is the older
	Shared bool   // it is a reader
}

// yields reports whether the votes are split and the waiter should give its own back: it has some, no owner has a
// majority of any list, and an older owner has some too. The oldest keeps its votes, so one of them makes progress.
//
// A reader gives way to every writer. It does not give way to other readers, whose votes do not exclude its own; but if
// a node refuses it although readers have the lock there, a writer waits on that node. A writer never gives way to
// readers. So the oldest writer keeps its votes, and all other waiters give theirs back.
func (v *Votes) yields(of Claimant) bool {
	if v.Given == 0 || v.Enough || v.rivalHolds || v.readersHold && !of.Shared {
		return false
	}
	for other := range v.others {
		if other != "" && (of.Shared || other != quorum.Marker && other < of.Owner) {
			return true
		}
	}
	return false
}

// blocksOlder reports whether an older waiter waits on a node that gave this one the lock, while somebody seems to hold
// it: another owner, or to the others this waiter. The older waiter is next, and may lack just these votes: because the
// others are those of slow nodes, or because it is the owner that seems to hold the lock. What looks like a majority is
// less to the owner that has it if it needs one of another list as well, or if a node abstains for it.
//
// Votes that nobody older waits for are kept: behind a holder that has one list alone, the votes of the other are idle,
// and no waiter that gave them back would be rid of them.
func (v *Votes) blocksOlder() bool {
	return v.wanted && !v.Enough && (v.mayHold || v.rivalHolds || v.readersHold)
}

// deadlocked reports whether both the waiter and other owners have votes, and none has a majority.
func (v *Votes) deadlocked() bool {
	return v.Given != 0 && !v.Enough && len(v.others) > 0 && !v.rivalHolds && !v.readersHold
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

// History is what a waiter's requests have found.
type History struct {
	First bool // the last request is the waiter's first of all, and put it into the queues

	partial  int // requests in a row that found some votes
	split    int // requests in a row after which there was a reason to give votes back
	cutOff   int // requests in a row that so many nodes failed that the others cannot suffice
	gaveBack int // how often the waiter gave votes back, in all
}

// stuckAfter is how many requests in a row, about two seconds, the oldest waiter keeps its votes while no owner has a
// majority. Then it goes to the end of the queues: one node that cannot notify it, and skips it at each release, could
// block the lock for ever, while all other waiters give way to it on the other nodes.
const stuckAfter = 16

// YieldsAtOnce reports whether votes go back before the pause is over: after the first request, as a mere attempt's do.
func (h *History) YieldsAtOnce(v *Votes, of Claimant) bool { return h.First && v.yields(of) }

// Decide returns what to do next, and whether to pause before that. It is called once after each request.
func (h *History) Decide(v *Votes, of Claimant) (d Decision, pauses bool) {
	h.partial++
	if v.Given == 0 {
		h.partial = 0
	}
	d = h.decide(v, of)
	h.First = false
	if d == GiveBack || d == Requeue {
		h.gaveBack++
	}
	return d, d == Retreat || d != KeepVotes && h.gaveBack > 2
}

func (h *History) decide(v *Votes, of Claimant) Decision {
	if v.Revoked {
		return GiveBack
	}
	if h.isCutOff(v) {
		h.split, h.partial = 0, 0
		return Retreat
	}
	stuck := h.partial > stuckAfter && v.deadlocked()
	if !stuck && !v.blocksOlder() && !v.yields(of) {
		h.split = 0
		return KeepVotes
	}
	h.split++
	if h.split == 1 && !h.First && (of.Shared || v.fresh == 0 || v.ahead == 0) {
		// A single split may be a release that has not reached all nodes yet. It is not if one node answered that it is
		// the waiter's turn, and another, or the same, that a waiter is ahead of it.
		return KeepVotes
	}
	h.split = 0
	if stuck {
		return Requeue
	}
	return GiveBack
}

// isCutOff counts a request, and reports whether so many nodes fail the waiter, and not for a moment only, that it
// cannot get the lock. Other waiters may reach those nodes, or need fewer, so it must not keep them waiting: by the
// votes that it has, or by those that nodes would hand to it because it is the oldest.
func (h *History) isCutOff(v *Votes) bool {
	if h.cutOff++; !v.cutOff {
		h.cutOff = 0
	}
	return h.cutOff > 1
}

// Pause is the time between the outcome of a request and the next request. Its random parts are drawn once, and its
// length follows from the votes, which still come in. The zero Pause is none.
type Pause struct {
	backoff time.Duration
	longest time.Duration
	short   time.Duration // if the waiter has some votes

	// BehindReaders is its longest length where readers have the lock; 0: no such limit. Nodes keep new readers out for a
	// writer that waits only if they hear from it.
	BehindReaders time.Duration
}

// mostAhead is how many waiters ahead make the pause longer.
const mostAhead = 128

// Pause draws the pause after the next request: backoff where nothing else is known, and never longer than longest.
func (h *History) Pause(backoff, longest time.Duration) Pause {
	p := Pause{backoff: backoff, longest: longest}
	p.short = (2*time.Millisecond + chance.Duration(time.Millisecond)) << min(h.partial, 6)
	return p
}

// Length returns how long to wait before the next request, if the last one took so long. If the waiter has some votes:
// 2 to 3 ms, doubled for each request in a row that found some, six times at most, and as much again if the request
// took as long, but never more than the back-off. Otherwise: the back-off, longer the more waiters are ahead, and at
// least twice as long as the request took, so that clients and nodes that are overloaded get less to do. But it ends
// when the holder's keys expire: the first in the queue asks then, and the others after it, in case that it is gone.
// Nor is it longer than BehindReaders.
func (p Pause) Length(v *Votes, took time.Duration) time.Duration {
	if v.Given != 0 {
		return min(p.backoff, p.short+min(took, p.short))
	}
	long := max(p.backoff+p.backoff*time.Duration(min(v.ahead, mostAhead))/4, 2*took)
	if v.expires {
		long = min(long, v.expiry+time.Millisecond+2*time.Millisecond*time.Duration(v.ahead))
	}
	if _, read := v.others[quorum.Marker]; read && p.BehindReaders > 0 {
		long = min(long, p.BehindReaders)
	}
	return min(long, p.longest)
}
