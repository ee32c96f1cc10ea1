package redlock

import (
	"context"

	"github.com/quorumlock/redlock/internal/quorum"
)

// raiseToken proposes a token above all that the nodes have reported, to the nodes that have given the lock or may
// still do so: the request follows the first one on the same connection. It takes over the caller's reference to r and
// returns the round to continue with. Both rounds together have one node timeout. If that is too short, the next
// attempt starts with the larger token.
func (l *Locker) raiseToken(ctx context.Context, h *hold, r *round, votes quorum.Count) (*round, quorum.Count, error) {
	highest := h.token
	for i := range r.nodes {
		if votes.Voted(i) {
			highest = max(highest, votes.Answer(i).Token)
		}
	}
	how := raise
	if r.command == raise { // on a connection that broke, a node may have been asked twice
		how = lastRaise
	}
	raised, err := l.askToRaiseBy(how, h, highest, h.tenure.asked&^r.refusers(votes))
	if err != nil {
		return r, votes, err
	}
	r.abandon()
	bounded, cancel := context.WithDeadline(ctx, h.tenure.start.local.Add(l.opts.nodeTimeout))
	defer cancel()
	votes, err = raised.wait(bounded)
	l.tokens.Observe(h.token) // nodes may know it, whatever becomes of the attempt
	if ctx.Err() == nil {
		err = nil // the wait ended at the node timeout, not at the caller's: the missing votes show that
	}
	return raised, votes, err
}

// askToRaise sends the nodes a token above highest, the highest that they know.
func (l *Locker) askToRaise(h *hold, highest int64, to quorum.Set) (*round, error) {
	return l.askToRaiseBy(lastRaise, h, highest, to)
}

func (l *Locker) askToRaiseBy(how *command, h *hold, highest int64, to quorum.Set) (*round, error) {
	now := l.opts.clock.now()
	if l.tokens.TooFarAhead(highest, l.tokens.micros(now)) { // it is our own: see judgeToken
		return nil, l.tokens.tooFarAhead("knows a token of this name", highest, now)
	}
	// Only one above: a waiter behind us has proposed the time at which it began to wait, and should not need a second
	// round as well.
	h.token = highest + 1
	if l.outdated(h.token) {
		h.token = max(h.token, l.tokens.propose(now))
	}
	l.tokens.Observe(highest)
	r := l.askFor(how, h)
	r.send(l.nodes, to, now.local)
	return r, nil
}

// outdated reports whether a token was proposed so long ago that a node may have accepted it although it once knew a
// larger one: it has forgotten that, or had no memory to note what it dropped. The limit is half of the retention or of
// the restart guard, whichever is shorter; the other half allows for clocks that disagree.
func (l *Locker) outdated(token int64) bool {
	limit := l.opts.retention / 2
	if l.opts.guard > 0 {
		limit = min(limit, l.opts.guard/2)
	}
	return token > 0 && token < l.tokens.time(l.opts.clock.now())-limit.Microseconds()
}
