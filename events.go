package redlock

import (
	"context"
	"errors"
	"time"
)

// observation is what the events of a lock have in common with the call that wanted it.
type observation struct {
	ctx    context.Context
	begun  instant
	detail bool // somebody wants to hear of what goes well
}

// failuresOnly is the observation for a log that takes no more.
var failuresOnly = &observation{ctx: context.Background()}

// observe begins an observation, if anybody observes.
func (e *events) observe(ctx context.Context) *observation {
	switch {
	case e == nil:
		return nil
	case !e.detail:
		return failuresOnly
	default:
		return &observation{ctx, e.clock.now(), true}
	}
}

// detailed reports whether to tell of what goes well.
func (o *observation) detailed() bool { return o != nil && o.detail }

// event begins an event of a lock.
func (w *wanted) event(kind EventKind, took time.Duration, err error) Event {
	ev := Event{Kind: kind, Context: w.observed.ctx, Op: w.op, Name: w.name, Duration: took, Err: err}
	var q *QuorumError
	if errors.As(err, &q) {
		ev.Op, ev.Nodes = q.Op, q.Nodes
	}
	return ev
}

// event begins an event of a hold. w is what was wanted: the tenure that has it may be gone.
func (h *hold) event(w *wanted, kind EventKind, took time.Duration, err error) Event {
	ev := w.event(kind, took, err)
	ev.Owner, ev.Token = h.owner.String(), h.token
	return ev
}

// attempt is told when the nodes have said whether they give the lock.
func (e *events) attempt(w wanted, asked instant, given bool, failure error) {
	if !w.observed.detailed() {
		return
	}
	if given {
		failure = nil
	}
	e.tell(w.event(EventAttempt, e.clock.now().since(asked), failure))
}

// acquired is told before the hold is shared.
func (e *events) acquired(h *hold) {
	if !h.observed.detailed() {
		return
	}
	ev := h.event(&h.wanted, EventAcquired, e.clock.now().since(h.observed.begun), nil)
	ev.Until = h.end()
	e.tell(ev)
}

func (e *events) notAcquired(w wanted, err error) {
	if w.observed.detailed() {
		e.tell(w.event(EventNotAcquired, e.clock.now().since(w.observed.begun), err))
	}
}

// renewed is told with h.mu held; failure is nil where a majority has extended.
func (e *events) renewed(x extension, failure error) {
	h := x.hold
	if h.observed == nil || failure == nil && !h.observed.detail {
		return
	}
	ev := h.event(&h.wanted, EventRenewed, e.clock.now().since(x.begun), failure)
	if failure != nil {
		ev.Kind = EventNotRenewed
	}
	ev.Op, ev.Until = "extend", h.end()
	e.tell(ev)
}

// repaired is told when all nodes have answered an extension, or cannot. The hold may have ended meanwhile.
func (e *events) repaired(x extension, observed *observation) {
	w := wanted{op: "extend", name: x.hold.name, observed: observed}
	ev := x.hold.event(&w, EventRepaired, e.clock.now().since(x.begun), nil)
	for i, n := range x.round.nodes {
		if x.round.answers[i].vote == voteAbsent {
			ev.Nodes = append(ev.Nodes, NodeError{Addr: n.addr(), Outcome: OutcomeAbsent})
		}
	}
	if len(ev.Nodes) > 0 {
		e.tell(ev)
	}
}

// ended is told with h.mu held. What becomes of an Unlock is told when that is known.
func (e *events) ended(h *hold, cause error) {
	switch {
	case errors.Is(cause, ErrUnlocked):
	case errors.Is(cause, ErrLost):
		e.released(h, h.tenure, h.over("hold", cause))
	default:
		e.released(h, h.tenure, cause)
	}
}

// released is told with the outcome of an Unlock, or with what else has ended the hold, whose tenure it was.
func (e *events) released(h *hold, t *tenure, err error) {
	if t.observed == nil || err == nil && !t.observed.detail {
		return
	}
	kind := EventReleased
	if errors.Is(err, ErrLost) {
		kind = EventLost
	}
	e.tell(h.event(&t.wanted, kind, e.clock.now().since(t.since), err))
}

// announce tells of the node where its state has changed. Called without its mutexes.
func (n *node) announce() {
	if n.events == nil || !n.met.Load() { // the very first attempt
		return
	}
	n.announcing.Lock() // over the reading of the state, so that the last word is the latest
	defer n.announcing.Unlock()
	state, err := EventNodeUp, error(nil)
	if _, down := n.conn.State(); down != nil {
		state, err = EventNodeDown, down
	} else if why := n.abstaining(n.opts.clock.local()); why != nil {
		state, err = EventNodeAbstaining, why
	}
	if state != n.announced {
		n.announced = state
		n.events.tell(Event{Kind: state, Node: n.addr(), Err: err})
	}
}

// measured is told when a node's clock has been read.
func (e *events) measured(n *node, trip, offset time.Duration) {
	if e != nil && e.detail {
		e.tell(Event{Kind: EventNodeMeasured, Node: n.addr(), Duration: trip, Offset: offset})
	}
}

func isQuorumError(err error) bool {
	var q *QuorumError
	return errors.As(err, &q)
}
