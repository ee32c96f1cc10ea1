package redlock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Event is what has happened to a lock or a node: see [WithObserver]. Kind, Time and what the kind says are set.
type Event struct {
	Kind    string    // one of the constants below
	Time    time.Time // when it happened, by this process's clock
	Dropped int       // how many events just before this one were dropped because the observer was slow

	// Of a lock.
	Context context.Context // the context given to the call that acquires, for its values; it may be done
	Op      string          // the operation, as in QuorumError
	Name    string
	Owner   string
	Token   int64
	Until   time.Time   // when the hold ends unless it is extended
	Nodes   []NodeError // what each node said, if Err is a QuorumError; EventRepair: the nodes that were repaired

	// Of a node.
	Node   string        // its address, without user and password
	Offset time.Duration // how far its clock is ahead of the median of the nodes

	Duration time.Duration // how long it took
	Err      error         // why it failed or ended
}

// What happens to a lock. Context, Op and Name (of a permit: the semaphore's) are set; Owner and Token once it is held.
const (
	// EventAttempt: the nodes were asked for the lock. Duration is the time until the outcome was certain. Err and Nodes
	// say why it was not granted. A wait makes many attempts.
	EventAttempt = "attempt"
	// EventWait: a call begins to wait for a lock that it did not get at once, behind others of this process or on the
	// nodes. Duration is 0; Err and Nodes are those of the attempt that failed, if there was one. And once more: the call
	// has waited for Duration, 1 ns at least. Err is nil if it has the lock, else what ended the wait. A call waits once,
	// for all its names or slots. If the observer is slow, it gets both events or neither.
	EventWait = "wait"
	// EventAcquire: a call returns, Duration after it began: with the lock, until Until; or without, as Err and Nodes say.
	EventAcquire = "acquire"
	// EventRenew: a majority has extended the hold until Until, by a renewal or by [Lock.Extend]; or it has not, and Err
	// and Nodes say why: then the hold continues until Until, as before. Duration is the time that this took.
	EventRenew = "renew"
	// EventRepair: an extension has set the key again on Nodes, which lacked it. It may come late, even after the hold.
	EventRepair = "repair"
	// EventEnd: the hold has ended, after Duration. Err is nil after an Unlock that a majority confirmed; an [ErrLost] if
	// the hold ended before; else a *QuorumError, an ErrUnlocked after Ticket, ErrClosed or, at the limit and not when
	// Unlock then releases it, ErrMaxHold.
	EventEnd = "end"
	// EventRun: a call of Once returns, after Duration. Err is what it returns; Token is set if there was a run.
	EventRun = "run"
)

// What happens to a node. Node is set.
const (
	// EventNode: the node's votes count, for the first time or again; or they do not, and Err says why: an
	// [ErrNodeAbstains] if it answers. That a server closes an idle connection and takes a new one is no event.
	EventNode = "node"
	// EventClock: the node's clock was read, about every ten seconds. Duration is the round trip; Offset is set.
	EventClock = "clock"
)

// maxEvents is how many events may be queued for the observer. Thousands of holds can fail in one moment, with two
// events each. Losses, and events of nodes, have room of their own behind these, so that the log does not miss them.
const (
	maxEvents  = 16384
	lossEvents = 16384
	nodeEvents = 1024
	keepQueue  = 256 // how many places the memory of an empty queue may have
)

// events passes events to the observer and to the log. It never blocks the caller, which may be a node's reader or hold
// a mutex. A nil *events emits nothing; measured, watch, settled, ending, logs and close accept it.
type events struct {
	observer func(Event) // may be nil
	log      *eventLog   // nil: nothing is logged. Only run uses it, except for watch and ending
	detail   bool        // emit also what succeeds, not only failures
	clock    clock
	wake     chan struct{} // gets a value when the queue is no longer empty
	stop     chan struct{} // closed to end run
	stopped  chan struct{} // closed by run

	mu      sync.Mutex // guards the fields below; no other mutex is taken while it is held
	queue   []Event    // those from head on are queued. It grows when it is needed: most Lockers have few events at a time
	head    int
	limit   int     // maxEvents
	dropped int     // events dropped since the last one that was queued
	waited  int     // ends of waits among those that are queued. For these there is always room
	looks   []voter // see look
}

// startEvents returns nil if there is no observer and the logger logs nothing.
func startEvents(observer func(Event), logger *slog.Logger, c clock) *events {
	e := &events{
		observer: observer, clock: c, limit: maxEvents,
		detail: observer != nil || logger.Enabled(context.Background(), slog.LevelDebug),
		wake:   make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if logger.Enabled(context.Background(), slog.LevelError) {
		e.log = newEventLog(logger, c)
	}
	if e.observer == nil && e.log == nil {
		return nil
	}
	go e.run() // until e.close
	return e
}

// emit reports whether the event was queued, and not dropped.
func (e *events) emit(ev Event) bool {
	ev.Time = e.clock.local()
	e.mu.Lock()
	queued, limit := len(e.queue)-e.head, e.limit
	switch {
	case ev.Kind == EventEnd && errors.Is(ev.Err, ErrLost):
		limit += lossEvents
	case ev.Kind == EventNode || ev.Kind == eventSettled:
		limit += lossEvents + nodeEvents
	case ev.endsWait(): // there are no more of them than calls that wait
		limit = math.MaxInt
		e.waited++
	}
	if queued-e.waited >= limit {
		e.dropped++
		e.mu.Unlock()
		return false
	}
	if len(e.queue) == cap(e.queue) && e.head > queued {
		e.queue = append(e.queue[:0], e.queue[e.head:]...)
		clear(e.queue[queued : queued+e.head])
		e.head = 0
	}
	ev.Dropped, e.dropped = e.dropped, 0
	e.queue = append(e.queue, ev)
	e.mu.Unlock()
	if queued == 0 {
		signal(e.wake)
	}
	return true
}

// endsWait reports whether it is the second event of a wait.
func (ev *Event) endsWait() bool { return ev.Kind == EventWait && ev.Duration > 0 }

// logs reports whether there is a log.
func (e *events) logs() bool { return e != nil && e.log != nil }

// look has the log look at the findings about a node, after the events that are queued.
func (e *events) look(at voter) {
	e.mu.Lock()
	e.looks = append(e.looks, at)
	e.mu.Unlock()
	signal(e.wake)
}

// next takes the oldest event from the queue.
func (e *events) next() (ev Event, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.head == len(e.queue) {
		e.queue, e.head = e.queue[:0], 0
		if cap(e.queue) > keepQueue {
			e.queue = nil
		}
		return Event{}, false
	}
	ev, e.queue[e.head] = e.queue[e.head], Event{}
	e.head++
	if ev.endsWait() {
		e.waited--
	}
	return ev, true
}

func (e *events) run() {
	defer close(e.stopped)
	timer := time.NewTimer(time.Hour) // of the log
	defer timer.Stop()
	for {
		e.deliver()
		var due <-chan time.Time
		if in, pending := e.log.next(); pending {
			timer.Reset(in)
			due = timer.C
		}
		select {
		case <-e.wake:
		case <-due:
			e.log.flush(e.clock.local())
		case <-e.stop:
			e.deliver()
			if e.log != nil {
				e.mu.Lock()
				dropped := e.dropped
				e.mu.Unlock()
				e.log.noteDropped(dropped)
				e.log.flushAll(e.clock.local())
			}
			return
		}
	}
}

// deliver passes on what is queued.
func (e *events) deliver() {
	for ev, ok := e.next(); ok; ev, ok = e.next() {
		e.log.see(&ev)
		if e.observer != nil && ev.Kind != eventSettled {
			e.observer(ev)
		}
	}
	e.mu.Lock()
	looks := e.looks
	e.looks = nil
	e.mu.Unlock()
	for _, n := range looks {
		e.log.look(n)
	}
}

// watch tells the log the nodes. It is called before the first of them is connected.
func (e *events) watch(nodes []voter, by *quorum.Electorate) {
	if e.logs() {
		e.log.nodes, e.log.electorate = nodes, by
	}
}

// eventSettled says to the log, and to nobody else, that the first attempts to connect have ended.
const eventSettled = "settled"

func (e *events) settled() {
	if e.logs() {
		e.emit(Event{Kind: eventSettled})
	}
}

// ending says that the nodes are about to be disconnected, which is no loss of a majority.
func (e *events) ending() {
	if e.logs() {
		e.log.ending.Store(true)
	}
}

// close delivers the queued events, until ctx is done.
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

// observe begins to observe a call.
func (e *events) observe(ctx context.Context, op, name string) *observation {
	o := &observation{events: e, ctx: ctx, op: op, name: name}
	if e.detail {
		o.begun = e.clock.now()
	}
	return o
}

// observation emits the events of a call and its hold. A nil one emits nothing: no observer, or a step to another hold.
type observation struct {
	events   *events
	ctx      context.Context
	op, name string
	begun    instant
	waits    instant // when the call's wait began; owned by the call, as the field below
	told     bool    // that it waits
	failing  bool    // the hold's last extension failed; guarded by hold.mu
}

// detailed reports whether to emit also what succeeds.
func (o *observation) detailed() bool { return o != nil && o.events.detail }

// emit completes and emits an event. Its Duration begins at since, if that is set. It reports whether it was queued.
func (o *observation) emit(ev Event, since instant) bool {
	ev.Context, ev.Name = o.ctx, o.name
	if since != (instant{}) {
		ev.Duration = max(o.events.clock.now().since(since), 1)
	}
	ev.Op = cmp.Or(ev.Op, o.op)
	var q *QuorumError
	if ev.Kind != EventRun && errors.As(ev.Err, &q) { // which may be of a call inside the run
		ev.Op, ev.Nodes = q.Op, q.Nodes
	}
	return o.events.emit(ev)
}

// waiting emits that the call waits, unless that was told before. last is the error of the attempt that failed, or nil.
func (o *observation) waiting(last error) {
	if !o.detailed() || o.told {
		return
	}
	if o.waits == (instant{}) {
		o.waits = o.events.clock.now()
	}
	o.told = o.emit(Event{Kind: EventWait, Err: last}, instant{})
}

// waited emits the end of the wait, if there was one.
func (o *observation) waited(err error) {
	if o != nil && o.told {
		o.emit(Event{Kind: EventWait, Err: err}, o.waits)
	}
}

// attempt emits the outcome of an attempt; failure is nil if it acquired the lock.
func (o *observation) attempt(asked instant, failure error) {
	if o.detailed() {
		o.emit(Event{Kind: EventAttempt, Err: failure}, asked)
	}
}

func (o *observation) acquired(owner uuid.UUID, token int64, until time.Time) {
	if o.detailed() {
		o.emit(Event{Kind: EventAcquire, Owner: owner.String(), Token: token, Until: until}, o.begun)
	}
}

func (o *observation) notAcquired(err error) {
	if o.detailed() {
		o.emit(Event{Kind: EventAcquire, Err: err}, o.begun)
	}
}

// extended emits the outcome of an extension that was sent at asked; failure is nil if a majority has extended.
func (o *observation) extended(owner uuid.UUID, token int64, asked instant, until time.Time, failure error) {
	if o == nil || failure == nil && !o.events.detail && !o.failing {
		return
	}
	o.failing = failure != nil // what went wrong is not to be counted for longer than it lasts
	o.emit(Event{Kind: EventRenew, Op: "extend", Owner: owner.String(), Token: token, Until: until, Err: failure}, asked)
}

// repaired emits the nodes that an extension has repaired, when all have answered, maybe after the end of the hold.
func (o *observation) repaired(owner uuid.UUID, token int64, asked instant, nodes []NodeError) {
	if len(nodes) > 0 {
		o.emit(Event{Kind: EventRepair, Op: "extend", Owner: owner.String(), Token: token, Nodes: nodes}, asked)
	}
}

// ran emits the outcome of a call of Once that began at the given instant.
func (e *events) ran(ctx context.Context, name string, token int64, begun instant, err error) {
	if e != nil && e.detail {
		(&observation{events: e, ctx: ctx, op: "once", name: name}).emit(Event{Kind: EventRun, Token: token, Err: err}, begun)
	}
}

// released emits the end of a hold: the outcome of its Unlock, or what else has ended it.
func (o *observation) released(owner uuid.UUID, token int64, held instant, err error) {
	if o != nil && (err != nil || o.events.detail || o.failing) {
		o.emit(Event{Kind: EventEnd, Owner: owner.String(), Token: token, Err: err}, held)
	}
}

// measured emits a reading of a node's clock.
func (e *events) measured(addr string, trip, offset time.Duration) {
	if e != nil && e.detail {
		e.emit(Event{Kind: EventClock, Node: addr, Duration: trip, Offset: offset})
	}
}
