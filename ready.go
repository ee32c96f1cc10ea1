package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/quorum"
)

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
		conflict := l.listConflict()
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

// restUntilReady returns nil when the votes of a majority count, as far as the Locker knows, or when the Locker is
// refused, which the next request tells; or else the reason why the wait has ended.
func (l *Locker) restUntilReady(ctx context.Context) error {
	for {
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now, false)
		if ended := l.ended(ctx); ended != nil || l.electorate.Suffice(seen.votes) || l.mayLock() != nil {
			return ended
		}
		l.awaitStates(ctx, changed, seen)
	}
}

// readiness is what the Locker knows of whether the nodes may vote.
type readiness struct {
	failure *QuorumError
	votes   quorum.Set // the nodes whose votes count
	refused quorum.Set // those that are refused until somebody changes something
	until   time.Time  // when the first abstention ends; zero: there is none whose end is known
}

// readiness goes by what this Locker counts, or forNew by what a client that starts now does, too.
func (l *Locker) readiness(now time.Time, forNew bool) readiness {
	seen := readiness{failure: &QuorumError{Op: "ready", reason: ErrNoQuorum}}
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeVotes}
		_, down := n.conn.State()
		a := n.guard.Abstention()
		if forNew {
			a = n.guard.Newcomer(now)
		}
		switch {
		case down != nil:
			part.Outcome, part.Err = OutcomeFailed, down
			if lasting(down, n.opts) {
				seen.refused = seen.refused.With(i)
			}
		case a != nil && !a.Over(now):
			part.Outcome, part.Err = OutcomeAbstained, abstainError(a, now)
			if !a.Until.IsZero() && (seen.until.IsZero() || a.Until.Before(seen.until)) {
				seen.until = a.Until
			}
		default:
			seen.votes = seen.votes.With(i)
		}
		seen.failure.Nodes = append(seen.failure.Nodes, part)
	}
	seen.failure.measure(l.electorate, seen.votes)
	return seen
}

// lasting reports whether a node is down for a reason that no time and no further attempt to connect removes.
func lasting(down error, o *options) bool {
	var refusal *ReplyError
	var mismatch endpoint.MismatchError
	switch {
	case errors.Is(down, ErrNodeRefused):
		return true
	case errors.As(down, &mismatch):
		return mismatch.Lasting() && !o.certifiesAnew(mismatch.Kind)
	case o.credentials != nil || !errors.As(down, &refusal):
		return false
	default:
		return refusal.refusesLogin() || refusal.Code == "NOPERM"
	}
}

// certifiesAnew reports whether a function decides about a certificate: it may say something else at the next attempt
// to connect.
func (o *options) certifiesAnew(kind endpoint.MismatchKind) bool {
	switch {
	case o.tls == nil:
		return false
	case kind == endpoint.OurCertificate:
		return o.tls.GetClientCertificate != nil
	default:
		return kind == endpoint.Certificate && (o.tls.VerifyConnection != nil || o.tls.VerifyPeerCertificate != nil)
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

// futileEvery is how often a call fails for lack of a majority that is connected, unless the node timeout is short.
const futileEvery = 250 * time.Millisecond

// awaitMajority holds a caller that tries again at once while no majority is connected, since all that it could do is
// fail: until there is a majority, or for futileEvery since the last call that found none, but for half of the node
// timeout at most. It returns at once, and nil, if there was no such call; otherwise, when the caller came.
func (l *Locker) awaitMajority(ctx context.Context) *instant {
	now := l.opts.clock.now()
	last := time.Duration(l.futile.Load())
	defer func() { l.futile.Store(int64(l.opts.clock.local().Sub(l.opened))) }()
	rest := min(l.opened.Add(last).Add(futileEvery).Sub(now.local), l.opts.nodeTimeout/2)
	if last == 0 || rest <= 0 {
		return nil
	}
	over := time.NewTimer(rest)
	defer over.Stop()
	for {
		changed := l.peers.states.next() // before the majority is looked for
		if l.peers.enough.Load() {
			return &now
		}
		select {
		case <-changed:
		case <-over.C:
			return &now
		case <-ctx.Done():
			return &now
		case <-l.ctx.Done():
			return &now
		}
	}
}
