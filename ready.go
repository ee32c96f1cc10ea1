package redlock

import "context"

// Ready returns nil as soon as the votes of a majority of the nodes count, so that a free lock can be acquired: at
// once, or when enough nodes are connected and no longer abstain. They then count for a client that starts now as well,
// which is up to a second later than for a Locker that has seen the nodes start; but Ready answers for this Locker
// alone where nodes refuse INFO, or have kept their data through a restart ([WithDurableNodes]). It sends nothing: it
// goes by what the Locker knows of the nodes, which it notices with each request, and by itself every 5 to 15 s. If ctx
// is done already, Ready answers by the present state.
//
// Otherwise the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum] and says for each node whether its
// vote counts, and if not, why: [OutcomeVotes], [OutcomeAbstained] with an [*AbstainError] that says until when, or
// [OutcomeFailed]. Ready returns it when ctx is done; then it satisfies errors.Is for ctx.Err() as well. Ready does not
// wait for ctx if there can be no majority before somebody changes something: if too many nodes refuse the password or
// the user (NOAUTH, WRONGPASS, NOPERM; not with [WithCredentials], which is asked anew), are refused themselves
// ([ErrNodeRefused]), have a certificate that is not accepted or do not accept this client's (not where a function of
// [WithTLSConfig] decides, which is asked anew), or are no Redis servers. While this Locker is refused because of other
// clients' lists of nodes, Ready waits, too, and its error is a [*ListConflictError]. The error satisfies errors.Is for
// [ErrClosed] after [Locker.Close].
func (l *Locker) Ready(ctx context.Context) error {
	for {
		if l.calls.refused() {
			return &opError{op: "ready", reason: ErrClosed}
		}
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now, true)
		conflict := l.peers.registry.refusal.Load()
		switch {
		case conflict != nil && ctx.Err() != nil:
			return &opError{op: "ready", reason: conflict, cause: endOf(ctx, ctx.Err())}
		case conflict != nil: // it ends when the other clients have ended
		case l.electorate.Suffice(seen.votes):
			return nil
		case l.electorate.Block(seen.refused):
			seen.failure.detail = "no majority is possible until somebody changes that"
			return seen.failure
		case ctx.Err() != nil:
			seen.failure.ctx = endOf(ctx, ctx.Err())
			return seen.failure
		}
		l.awaitStates(ctx, changed, seen)
	}
}
