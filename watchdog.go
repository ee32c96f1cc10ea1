package redlock

import "time"

// oversleptAt reports whether the watchdog fires so late that this process was probably
// not let run. Answers may then wait to be read, so the reader gets a moment first.
func (n *node) oversleptAt(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guarded.IsZero() || now.Sub(n.guarded) < n.opts.nodeTimeout/8 || n.lenient {
		n.lenient = false
		return false
	}
	n.lenient = true
	n.watchdog.Reset(n.opts.nodeTimeout / 16)
	return true
}

// expire fails the requests older than the node timeout. If there are any the
// node is suspect until it answers, and if it stays silent for long it gets a
// new connection: what was lost on the way would otherwise be sent again by
// TCP at ever longer intervals.
func (n *node) expire() {
	now := n.opts.clock.local()
	if n.oversleptAt(now) {
		return
	}
	var late []*request
	var next time.Time // when the watchdog is needed again
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	n.mu.Lock()
	check := func(r *request) {
		deadline := r.call.asked.Add(n.opts.nodeTimeout)
		switch {
		case r.voted:
		case now.Before(deadline):
			sooner(deadline)
		default:
			r.voted = true
			r.call.holders.Add(1) // until its failure is cast, below
			late = append(late, r)
		}
	}
	n.eachRequest(check)
	var dead *link
	silent := len(late) > 0 && n.suspect.IsZero()
	if silent {
		n.suspect = now
	}
	if !n.suspect.IsZero() && n.link != nil {
		if giveUp := n.suspect.Add(n.opts.connectTimeout()); now.Before(giveUp) {
			sooner(giveUp)
		} else {
			dead = n.link
		}
	}
	if n.guarded = next; !next.IsZero() {
		n.watchdog.Reset(next.Sub(now))
	}
	n.mu.Unlock()
	if silent {
		n.announce()
	}
	if dead != nil {
		dead.drop()
	}
	for _, r := range late {
		r.fail(ErrNodeTimeout)
		r.call.release()
	}
}
