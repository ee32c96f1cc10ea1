package redlock

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
type tieRole uint8

// The roles.
const (
	beaten  tieRole = iota // undo: somebody else has the lock, or asks again, or no majority can be reached
	oldest                 // nobody older is known to have votes: pause, then ask again
	unknown                // a node has refused without telling for whom, as SET NX does: ask again soon to learn that
)

// winsTie returns a caller's role by the answers to its last request.
//
// It need not know of everybody. If two take themselves for the oldest, one of them at most gets a majority: nodes give
// what is free or the caller's own, and nothing that another has.
func winsTie(votes tally, answers []answer, owner string, e *electorate) tieRole {
	pending := e.all &^ votes.voters()
	var given, taken nodeSet
	unnamed := false
	for i := range answers {
		if pending.has(i) {
			continue
		}
		switch a := &answers[i]; a.vote {
		case voteGranted, voteOutbid:
			given = given.with(i)
		case voteTaken:
			taken = taken.with(i)
			switch {
			case a.err != nil, a.owner == marker: // no lock of ours, or readers: they stay
				return beaten
			case a.owner == "":
				unnamed = true
			case a.owner < owner, e.suffice(votesFor(a.owner, votes, answers)):
				return beaten
			}
		case voteAbsent, voteAbstained, voteFailed, voteKinds:
		}
	}
	switch {
	case taken == 0, !e.suffice(given | taken | pending): // nothing that another's undo could add
		return beaten
	case unnamed && given != 0:
		return unknown
	case unnamed, given|pending == 0:
		// Whoever has no vote leaves it to those who have some. A vote that may be on its way counts as one: the others see
		// it, and give way to it.
		return beaten
	}
	return oldest
}

// votesFor returns the nodes that have answered that the lock is another owner's.
func votesFor(owner string, votes tally, answers []answer) (nodes nodeSet) {
	for i := range answers {
		if a := &answers[i]; votes.voted(i) && a.vote == voteTaken && !a.uncounted && a.owner == owner {
			nodes = nodes.with(i)
		}
	}
	return nodes
}

// tiePauses is how often a caller pauses and asks again at most: a second time if the undos took longer than the pause.
const tiePauses = 2

// tiePause returns how long to wait before asking again, if there is time for that. round is how long the last round
// took, spent the time since the first one began, and limit the node timeout, within which the call has to return.
//
// The oldest waits for the others' undos. The others know that they have lost after a round of theirs, and their undos
// travel for half of one. Whoever must learn the names first waits only for those who have no vote that they know of:
// they undo at once, and may be taken for rivals.
func tiePause(s tieRole, round, spent, limit time.Duration) (pause time.Duration, ok bool) {
	if s == unknown {
		pause = round / 2
	} else {
		pause = max(round, time.Millisecond) // with less, other work on a processor counts for more than the network
		pause += chance.Duration(pause)
	}
	// A slow round says that nodes are in trouble, and not that callers race.
	return pause, round <= limit/4 && spent+pause+round <= limit
}
