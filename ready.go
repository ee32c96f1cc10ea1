package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/redisconn"
)

// Ready returns nil as soon as the votes of a majority of the nodes count, so that a free lock can be acquired: at
// once, or when enough nodes are connected and no longer abstain. It sends nothing: it goes by what the Locker knows of
// the nodes, which it notices with each request, and by itself every 5 to 15 s. If ctx is done already, Ready answers
// by the present state.
//
// Otherwise the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum] and says for each node whether its
// vote counts, and if not, why: [OutcomeVotes], [OutcomeAbstained] with an [*AbstainError] that says until when, or
// [OutcomeFailed]. Ready returns it when ctx is done; then it satisfies errors.Is for ctx.Err() as well. Ready does not
// wait for ctx if there can be no majority before somebody changes something: if too many nodes refuse the password or
// the user (NOAUTH, WRONGPASS, NOPERM; not with [WithCredentials], which is asked anew), are refused themselves
// ([ErrNodeRefused]), have a certificate that is not accepted, or are no Redis servers. While this Locker is refused
// because of other clients' lists of nodes, Ready waits, too, and its error is a [*ListConflictError]. The error
// satisfies errors.Is for [ErrClosed] after [Locker.Close].
func (l *Locker) Ready(ctx context.Context) error {
	for {
		if l.calls.refused() {
			return &opError{op: "ready", reason: ErrClosed}
		}
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now)
		conflict := l.peers.registry.refusal.Load()
		switch {
		case conflict != nil && ctx.Err() != nil:
			return &opError{op: "ready", reason: conflict, cause: endOf(ctx, ctx.Err())}
		case conflict != nil: // it ends when the other clients have ended
		case l.electorate.suffice(seen.votes):
			return nil
		case l.electorate.block(seen.refused):
			seen.failure.detail = "no majority is possible until somebody changes that"
			return seen.failure
		case ctx.Err() != nil:
			seen.failure.ctx = endOf(ctx, ctx.Err())
			return seen.failure
		}
		l.awaitStates(ctx, changed, seen)
	}
}

// readiness is what Ready has seen of the nodes.
type readiness struct {
	failure *QuorumError
	votes   nodeSet   // the nodes whose votes count
	refused nodeSet   // those that are refused until somebody changes something
	until   time.Time // when the first abstention ends; zero: there is none whose end is known
}

func (l *Locker) readiness(now time.Time) readiness {
	seen := readiness{failure: &QuorumError{Op: "ready", reason: ErrNoQuorum}}
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: l.electorate.membership(i), Outcome: OutcomeVotes}
		_, down := n.conn.State()
		a := n.guard.Abstention()
		switch {
		case down != nil:
			part.Outcome, part.Err = OutcomeFailed, down
			if lasting(down, n.opts) {
				seen.refused = seen.refused.with(i)
			}
		case a != nil && !a.Over(now):
			part.Outcome, part.Err = OutcomeAbstained, abstainError(a, now)
			if !a.Until.IsZero() && (seen.until.IsZero() || a.Until.Before(seen.until)) {
				seen.until = a.Until
			}
		default:
			seen.votes = seen.votes.with(i)
		}
		seen.failure.Nodes = append(seen.failure.Nodes, part)
	}
	seen.failure.measure(l.electorate, seen.votes)
	return seen
}

// lasting reports whether a node is down for a reason that no time and no further attempt to connect removes.
func lasting(down error, o *options) bool {
	var refusal *ReplyError
	var mismatch redisconn.MismatchError
	switch {
	case errors.Is(down, ErrNodeRefused):
		return true
	case errors.As(down, &mismatch):
		return mismatch.Lasting()
	case o.credentials != nil || !errors.As(down, &refusal):
		return false
	default:
		return slices.Contains([]string{"NOAUTH", "WRONGPASS", "NOPERM"}, refusal.Code)
	}
}

// awaitStates returns when the state of a node has changed, when the first abstention ends, or when the wait is over.
func (l *Locker) awaitStates(ctx context.Context, changed <-chan struct{}, seen readiness) {
	for _, n := range l.nodes {
		n.conn.Wanted()
	}
	var end <-chan time.Time
	if !seen.until.IsZero() {
		timer := time.NewTimer(max(time.Millisecond, seen.until.Sub(l.opts.clock.local())))
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-changed:
	case <-end:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}
