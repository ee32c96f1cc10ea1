package quorum

import (
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// A tie: callers that do not wait ask for a free lock at one moment, each gets it from some of the nodes, and none from
// a majority. If all of them gave up, nobody would have the lock although nobody held it. So all but one undo what they
// got, as after any failed attempt, and that one asks once more when the others' undos have arrived. It is the oldest
// of them: owners begin with the time, and a node that refuses tells whose the lock is.
//
// This file decides; redlock.go asks.

// Tie is one caller's part in a tie.
type Tie struct {
	Owner string        // the caller's
	Limit time.Duration // the node timeout, within which the call has to return

	named  bool // it has asked again, so it has been told who the others are
	pauses int  // how often it was the oldest
}

// tiePauses is how often the oldest pauses and asks again at most: twice if the undos took longer than the pause.
const tiePauses = 2

// Beaten reports whether the caller has lost the tie by these votes, so that it must undo what it got.
func (t *Tie) Beaten(votes Count) bool { return votes.role(t.Owner) == beaten }

// Pause returns how long to wait before asking again, if at all. The last round took round; the first began spent ago.
//
// The oldest waits for the others' undos: they know that they have lost after a round, and undos travel for half of
// one. Whoever must learn the names first waits only for those without a vote, which undo at once and may seem rivals.
func (t *Tie) Pause(votes Count, round, spent time.Duration) (pause time.Duration, again bool) {
	switch role := votes.role(t.Owner); {
	case role == beaten, role == unknown && t.named, t.pauses == tiePauses:
		return 0, false
	case role == unknown:
		pause = round / 2
	default:
		t.pauses++
		pause = max(round, time.Millisecond) // with less, other work on a processor counts for more than the network
		pause += chance.Duration(pause)
	}
	t.named = true // whoever asks again is told the owners: acquire_all
	// A slow round says that nodes are in trouble, and not that callers race.
	return pause, round <= t.Limit/4 && spent+pause+round <= t.Limit
}

// role is what a caller that lost a round is in the tie.
type role uint8

const (
	beaten  role = iota // undo: somebody else has the lock, or asks again, or no majority can be reached
	oldest              // nobody older is known to have votes: pause, then ask again
	unknown             // a node has refused without telling for whom, as SET NX does: ask again soon to learn that
)

// role returns an owner's role by the answers to its last request.
//
// It need not know of everybody. If two take themselves for the oldest, one of them at most gets a majority: nodes give
// what is free or the caller's own, and nothing that another has.
func (c Count) role(owner string) role {
	e := c.poll.electorate
	pending := e.All &^ c.Voters()
	var given, taken Set
	unnamed := false
	for i := range e.Size {
		if pending.Has(i) {
			continue
		}
		switch a := c.Answer(i); a.Vote {
		case Granted, Outbid:
			given = given.With(i)
		case Taken:
			taken = taken.With(i)
			switch {
			case a.Err != nil, a.Owner == Marker: // no lock of ours, or readers: they stay
				return beaten
			case a.Owner == "":
				unnamed = true
			case a.Owner < owner, e.Suffice(c.owners(a.Owner)):
				return beaten
			}
		case Absent, Abstained, Failed, VoteKinds:
		}
	}
	switch {
	case taken == 0, !e.Suffice(given | taken | pending): // nothing that another's undo could add
		return beaten
	case unnamed && given != 0:
		return unknown
	case unnamed, given|pending == 0:
		// Whoever has no vote leaves it to those who have some. A vote on its way counts as one: the others give way to it.
		return beaten
	}
	return oldest
}

// owners returns the nodes that have answered that the lock is another owner's.
func (c Count) owners(owner string) Set {
	return c.where(func(a *Answer) bool { return a.Vote == Taken && !a.Uncounted && a.Owner == owner })
}
