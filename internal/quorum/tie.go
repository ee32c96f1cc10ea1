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
// This file decides; breakTie in redlock.go asks.

// tieRole is what a caller that lost a round is in the tie.
type Role uint8

// The roles.
const (
	Beaten  Role = iota // undo: somebody else has the lock, or asks again, or no majority can be reached
	Oldest              // nobody older is known to have votes: pause, then ask again
	unknown             // a node has refused without telling for whom, as SET NX does: ask again soon to learn that
)

// WinsTie returns a caller's role by the answers to its last request.
//
// It need not know of everybody. If two take themselves for the oldest, one of them at most gets a majority: nodes give
// what is free or the caller's own, and nothing that another has.
func WinsTie(votes Tally, answers []Answer, owner string, e *Electorate) Role {
	pending := e.All &^ votes.Voters()
	var given, taken Set
	unnamed := false
	for i := range answers {
		if pending.Has(i) {
			continue
		}
		switch a := &answers[i]; a.Vote {
		case Granted, Outbid:
			given = given.With(i)
		case Taken:
			taken = taken.With(i)
			switch {
			case a.Err != nil, a.Owner == Marker: // no lock of ours, or readers: they stay
				return Beaten
			case a.Owner == "":
				unnamed = true
			case a.Owner < owner, e.Suffice(votesFor(a.Owner, votes, answers)):
				return Beaten
			}
		case Absent, Abstained, Failed, VoteKinds:
		}
	}
	switch {
	case taken == 0, !e.Suffice(given | taken | pending): // nothing that another's undo could add
		return Beaten
	case unnamed && given != 0:
		return unknown
	case unnamed, given|pending == 0:
		// Whoever has no vote leaves it to those who have some. A vote that may be on its way counts as one: the others see
		// it, and give way to it.
		return Beaten
	}
	return Oldest
}

// votesFor returns the nodes that have answered that the lock is another owner's.
func votesFor(owner string, votes Tally, answers []Answer) (nodes Set) {
	for i := range answers {
		if a := &answers[i]; votes.Voted(i) && a.Vote == Taken && !a.Uncounted && a.Owner == owner {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// TiePauses is how often a caller pauses and asks again at most: a second time if the undos took longer than the pause.
const TiePauses = 2

// TiePause returns how long to wait before asking again, if there is time for that. round is how long the last round
// took, spent the time since the first one began, and limit the node timeout, within which the call has to return.
//
// The oldest waits for the others' undos. The others know that they have lost after a round of theirs, and their undos
// travel for half of one. Whoever must learn the names first waits only for those who have no vote that they know of:
// they undo at once, and may be taken for rivals.
func TiePause(s Role, round, spent, limit time.Duration) (pause time.Duration, ok bool) {
	if s == unknown {
		pause = round / 2
	} else {
		pause = max(round, time.Millisecond) // with less, other work on a processor counts for more than the network
		pause += chance.Duration(pause)
	}
	// A slow round says that nodes are in trouble, and not that callers race.
	return pause, round <= limit/4 && spent+pause+round <= limit
}
