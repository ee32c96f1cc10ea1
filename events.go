package redlock

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// Event is something that has happened to a lock or to a node: see [WithObserver]. Which
// fields are set stands with the kinds; Kind and Time always are.
type Event struct {
	Kind    EventKind
	Time    time.Time // when it happened, by this process's clock
	Dropped int       // how many events before this one were lost, because the observer was slow

	// Of a lock.
	Context context.Context // what Lock, TryLock or Adopt was called with, for the values in it; it may be done
	Op      string          // what was asked of the nodes, as in QuorumError
	Name    string
	Owner   string
	Token   int64
	Until   time.Time   // when the hold ends unless it is extended
	Nodes   []NodeError // what each node said, where Err is a QuorumError; EventRepaired: the nodes that were repaired

	// Of a node.
	Node   string        // its address, without user and password
	Offset time.Duration // by how much its clock is ahead of the median of the nodes

	Duration time.Duration // how long it took
	Err      error         // why not
}

// EventKind says what has happened.
type EventKind string

// What happens to a lock. Context, Op and Name are set; Owner and Token from EventAcquired on.
const (
	// EventAttempt: the nodes were asked for the lock. Duration is the time until the outcome was
	// certain. Err and Nodes say why it was not granted. A wait makes many attempts.
	EventAttempt EventKind = "attempt"
	// EventAcquired: the lock is held. Duration is the time since it was wanted. Until is set.
	EventAcquired EventKind = "acquired"
	// EventNotAcquired: the call returns without the lock. Duration is as above; Err and Nodes say why.
	EventNotAcquired EventKind = "not acquired"
	// EventRenewed: a majority has extended the hold, by itself or by [Lock.Extend]. Duration is the time
	// that this took. Until is set.
	EventRenewed EventKind = "renewed"
	// EventNotRenewed: too few nodes have. The hold goes on until Until; Err and Nodes say why.
	EventNotRenewed EventKind = "not renewed"
	// EventRepaired: nodes that had forgotten the hold, or never had it, were told it again: those in
	// Nodes. It may come late, even after the end of the hold.
	EventRepaired EventKind = "repaired"
	// EventLost: the hold has ended before it was unlocked. Err says how, and Duration how long
	// it was held.
	EventLost EventKind = "lost"
	// EventReleased: the hold has ended as intended, after Duration. Err is nil after an Unlock that a
	// majority confirmed, else a *QuorumError, ErrHandedOver, ErrMaxHold or ErrClosed.
	EventReleased EventKind = "released"
)

// What happens to a node. Node is set.
const (
	// EventNodeUp: the node's votes count, for the first time or again.
	EventNodeUp EventKind = "node up"
	// EventNodeDown: the node is not connected, or does not answer. Err says why.
	EventNodeDown EventKind = "node down"
	// EventNodeAbstaining: the node answers and its votes do not count. Err is an *AbstainError.
	EventNodeAbstaining EventKind = "node abstaining"
	// EventNodeMeasured: the node's clock was read, as it is every ten seconds or so. Duration is the
	// round trip; Offset is set.
	EventNodeMeasured EventKind = "node measured"
)

// WithObserver has f told what happens: for metrics, traces and tests. f is called for one event
// after the other, in the order in which they happened, by a goroutine that does nothing else,
// so it may take its time and may use the Locker. Where it falls behind, 1024 events are kept and further ones
// dropped; the next that gets through says in Dropped how many. [Locker.Close]
// lets f see what is left, for the node timeout at most. A panic of f is not
// recovered. The default is nobody; it costs nothing. Only for New.
func WithObserver(f func(Event)) Option {
	return Option{name: "WithObserver", newOnly: true, apply: func(o *options) { o.observer = f }}
}

// maxEvents is how many events may wait for the observer.
const maxEvents = 1024

// events takes what has happened to the observer and to the log. It never blocks who tells: not
// a node's reader, and not who holds a mutex. A nil *events is nobody's.
type events struct {
	observer func(Event) // may be nil
	logger   *slog.Logger
	detail   bool // somebody wants to hear of what goes well
	clock    clock
	queue    chan Event
	dropped  atomic.Int64  // since the last one that got into the queue
	stop     chan struct{} // closed to end run
	stopped  chan struct{} // closed by run
}

// startEvents returns nil where nobody wants to hear anything.
func startEvents(o *options) *events {
	if o.observer == nil && !o.logger.Enabled(context.Background(), slog.LevelError) {
		return nil
	}
	e := &events{
		observer: o.observer, logger: o.logger, clock: o.clock,
		detail: o.observer != nil || o.logger.Enabled(context.Background(), slog.LevelDebug),
		queue:  make(chan Event, maxEvents), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go e.run() // until e.close
	return e
}

func (e *events) tell(ev Event) {
	ev.Time = e.clock.local()
	ev.Dropped = int(e.dropped.Swap(0))
	select {
	case e.queue <- ev:
	default:
		e.dropped.Add(int64(ev.Dropped) + 1)
	}
}

func (e *events) run() {
	defer close(e.stopped)
	for {
		select {
		case ev := <-e.queue:
			e.deliver(ev)
			continue
		case <-e.stop:
		}
		for {
			select {
			case ev := <-e.queue:
				e.deliver(ev)
			default:
				return
			}
		}
	}
}

func (e *events) deliver(ev Event) {
	e.log(&ev)
	if e.observer != nil {
		e.observer(ev)
	}
}

// close delivers what is left, until ctx is done.
func (e *events) close(ctx context.Context) {
	if e == nil {
		return
	}
	close(e.stop)
	select {
	case <-e.stopped:
	case <-ctx.Done():
	}
}

// log writes an event down. What is wrong with a node is logged with its findings.
func (e *events) log(ev *Event) {
	level := slog.LevelDebug
	switch ev.Kind {
	case EventNodeMeasured:
		return
	case EventLost:
		level = slog.LevelError
	case EventNotRenewed:
		level = slog.LevelWarn
	case EventReleased:
		if isQuorumError(ev.Err) {
			level = slog.LevelWarn
		}
	case EventNodeUp:
		level = slog.LevelInfo
	default:
	}
	ctx := ev.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if !e.logger.Enabled(ctx, level) {
		return
	}
	var attrs []slog.Attr
	if ev.Node != "" {
		attrs = append(attrs, slog.String("node", ev.Node))
	} else {
		attrs = append(attrs, slog.String("name", ev.Name))
	}
	if ev.Token != 0 {
		attrs = append(attrs, slog.Int64("token", ev.Token))
	}
	if ev.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", ev.Duration))
	}
	if ev.Err != nil {
		attrs = append(attrs, slog.Any("error", ev.Err))
	}
	e.logger.LogAttrs(ctx, level, string(ev.Kind), attrs...)
}

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

func (e *events) notAcquired(w *wanted, err error) {
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
