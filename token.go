package redlock

import (
	"context"
)

// raiseToken proposes a token above all that the nodes have told of, to the nodes that have
// given the lock or may yet do so: the request follows the first on the same connection.
// It takes over the caller's part in r, and returns the call to go on with. Both rounds have
// one node timeout together; an attempt that comes too late for it leaves the next one wiser.
func (l *Locker) raiseToken(ctx context.Context, h *hold, r *round, votes tally) (*round, tally, error) {
	highest := h.token
	for i := range r.answers {
		if votes.voted(i) {
			highest = max(highest, r.answers[i].token)
		}
	}
	raised, err := l.askToRaise(h, highest, h.asked&^r.refusers(votes))
	if err != nil {
		return r, votes, err
	}
	r.abandon()
	bounded, cancel := context.WithDeadline(ctx, h.start.local.Add(l.opts.nodeTimeout))
	defer cancel()
	votes, err = raised.wait(bounded)
	l.tokens.See(h.token) // nodes may know it, whatever becomes of the attempt
	if ctx.Err() == nil {
		err = nil // the caller's wait has not been ended: the votes that are missing say all
	}
	return raised, votes, err
}

// askToRaise puts a token above the highest known to the nodes.
func (l *Locker) askToRaise(h *hold, highest int64, to nodeSet) (*round, error) {
	now := l.opts.clock.now()
	if l.tokens.TooFarAhead(highest+1, l.tokens.micros(now)) {
		for _, n := range l.nodes {
			n.probeSoon() // our own idea of the time may be the wrong one
		}
		return nil, errTokenAhead
	}
	// No more than one above: whoever waits behind us has proposed the time at which
	// it began to wait, and should not need a second round, too.
	h.token = highest + 1
	if l.outdated(h.token) {
		h.token = max(h.token, l.tokens.propose(now))
	}
	l.tokens.See(highest)
	r := l.askFor(raise, h)
	r.send(l.nodes, to, l.need, now.local)
	return r, nil
}

// outdated reports whether a token was proposed so long ago that a node which has dropped larger ones, after the
// retention or by forgetting, may have accepted it. The limit leaves as much again for what clocks disagree by.
func (l *Locker) outdated(token int64) bool {
	limit := l.opts.retention / 2
	if l.opts.guard > 0 {
		limit = min(limit, l.opts.guard/2)
	}
	return token > 0 && (token <= l.tokens.Floor() || token < l.tokens.time(l.opts.clock.now())-limit.Microseconds())
}
