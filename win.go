package redlock

import "context"

// win makes a hold of a majority of votes. It returns neither a hold nor an
// error where that was for nothing.
func (w *waiter) win(ctx context.Context, v view, asked instant) (*hold, error) {
	l, h := w.locker, w.hold
	// A vote given in answer to the last question was given, or its TTL begun anew, after that was
	// asked. One that we were told of was given after we began to wait under this owner.
	start := h.since
	if v.fresh >= l.need {
		start = asked
		v.granted = v.sure // what was told may have run out since
	}
	if h.token > 0 && (v.granted < l.need || l.outdated(h.token)) {
		r, err := l.askToRaise(h, max(h.token, v.highest), l.all)
		if err != nil {
			return nil, err
		}
		votes, err := r.wait(ctx)
		w.raised(r, votes)
		r.abandon()
		if err != nil {
			return nil, l.ended(ctx)
		}
		if votes.verdict(len(l.nodes), l.need) != verdictWon {
			return nil, errAskAgain
		}
	}
	// The longest that it may be held counts from here, and not from the beginning of the wait.
	now, began := l.opts.clock.now(), h.since
	h.start, h.since = start, now
	if h.left(now) < h.opts.leastValidity() {
		h.since = began
		return nil, errAskAgain // which begins the TTL anew
	}
	l.tokens.See(h.token)
	return h, nil
}

// raised notes which nodes accepted the new token.
func (w *waiter) raised(r *round, votes tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range r.answers {
		if votes.voted(i) && r.answers[i].vote == voteGranted {
			w.accepted[i] = max(w.accepted[i], w.hold.token)
		}
	}
}
