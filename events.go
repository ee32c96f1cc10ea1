package redlock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
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
func startEvents(observer func(Event), logger *slog.Logger, c clock) *events {
	if observer == nil && !logger.Enabled(context.Background(), slog.LevelError) {
		return nil
	}
	e := &events{
		observer: observer, logger: logger, clock: c,
		detail: observer != nil || logger.Enabled(context.Background(), slog.LevelDebug),
		queue:  make(chan Event, maxEvents), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go e.run() // until e.close
	return e
}

func (e *events) emit(ev Event) {
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

// observe begins to observe a call, if anybody wants to hear of it. A nil *events is nobody's.
func (e *events) observe(ctx context.Context, op, name string) *observation {
	if e == nil {
		return nil
	}
	o := &observation{events: e, ctx: ctx, op: op, name: name}
	if e.detail {
		o.begun = e.clock.now()
	}
	return o
}

// observation tells what becomes of a call, and of the hold that it gets. A nil *observation tells nothing: nobody
// observes, or it is a step on the way to another hold.
type observation struct {
	events   *events
	ctx      context.Context
	op, name string
	begun    instant
}

// under returns the observation of the same call under another name.
func (o *observation) under(name string) *observation {
	if o == nil {
		return nil
	}
	other := *o
	other.name = name
	return &other
}

// detailed reports whether anybody wants to hear of what goes well.
func (o *observation) detailed() bool { return o != nil && o.events.detail }

// tell completes an event and tells it. since is when what it tells of began.
func (o *observation) emit(ev Event, since instant) {
	ev.Context, ev.Name, ev.Duration = o.ctx, o.name, o.events.clock.now().since(since)
	ev.Op = cmp.Or(ev.Op, o.op)
	var q *QuorumError
	if errors.As(ev.Err, &q) {
		ev.Op, ev.Nodes = q.Op, q.Nodes
	}
	o.events.emit(ev)
}

// attempt is told when the nodes have said whether they give the lock; failure is nil where they do.
func (o *observation) attempt(asked instant, failure error) {
	if o.detailed() {
		o.emit(Event{Kind: EventAttempt, Err: failure}, asked)
	}
}

func (o *observation) acquired(owner uuid.UUID, token int64, until time.Time) {
	if o.detailed() {
		o.emit(Event{Kind: EventAcquired, Owner: owner.String(), Token: token, Until: until}, o.begun)
	}
}

func (o *observation) notAcquired(err error) {
	if o.detailed() {
		o.emit(Event{Kind: EventNotAcquired, Err: err}, o.begun)
	}
}

// extended is told when an extension that was asked for at that time has an outcome; failure is nil where a majority
// has extended.
func (o *observation) extended(owner uuid.UUID, token int64, asked instant, until time.Time, failure error) {
	if o == nil || failure == nil && !o.events.detail {
		return
	}
	ev := Event{Kind: EventRenewed, Op: "extend", Owner: owner.String(), Token: token, Until: until, Err: failure}
	if failure != nil {
		ev.Kind = EventNotRenewed
	}
	o.emit(ev, asked)
}

// repaired is told when all nodes have answered an extension, or cannot. The hold may have ended meanwhile.
func (o *observation) repaired(owner uuid.UUID, token int64, asked instant, nodes []NodeError) {
	if len(nodes) > 0 {
		o.emit(Event{Kind: EventRepaired, Op: "extend", Owner: owner.String(), Token: token, Nodes: nodes}, asked)
	}
}

// released is told with the outcome of an Unlock, or with what else has ended a hold.
func (o *observation) released(owner uuid.UUID, token int64, held instant, err error) {
	switch {
	case o == nil:
	case errors.Is(err, ErrLost):
		o.emit(Event{Kind: EventLost, Owner: owner.String(), Token: token, Err: err}, held)
	case err != nil || o.events.detail:
		o.emit(Event{Kind: EventReleased, Owner: owner.String(), Token: token, Err: err}, held)
	}
}

// measured is told when a node's clock has been read.
func (e *events) measured(addr string, trip, offset time.Duration) {
	if e != nil && e.detail {
		e.emit(Event{Kind: EventNodeMeasured, Node: addr, Duration: trip, Offset: offset})
	}
}

func isQuorumError(err error) bool {
	var q *QuorumError
	return errors.As(err, &q)
}
