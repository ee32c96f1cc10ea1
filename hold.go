package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// hold is one acquisition, from grant to release or loss. Several handles may
// share it; renewal refers to the hold and never to a handle, so that a
// forgotten handle can be noticed. Handles may outlive it: see tenure.
type hold struct {
	locker *Locker
	name   string
	names  *names // nil: one lock
	shared bool   // with other readers
	owner  uuid.UUID
	token  int64

	ending    atomic.Bool // set by finish at its beginning, for who must not wait for mu
	scheduled int32       // see sleeper.position

	mu      sync.Mutex // guards the fields below, and what is in the tenure
	*tenure            // nil: the hold was unlocked, and its tenure may be another's
	last    int64      // where there is no tenure: when the hold would have ended, in ns since 1970
}

// ended returns why the hold has ended, or nil while it may be trusted. Called with mu held.
func (h *hold) ended() error {
	if h.tenure == nil {
		return ErrUnlocked
	}
	return h.cause
}

// isOver reports whether the hold has ended, as far as that was noticed.
func (h *hold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended() != nil
}

// until returns when the hold ends unless it is extended, also after its end. Called with mu held.
func (h *hold) until() time.Time {
	if h.tenure == nil {
		return time.Unix(0, h.last)
	}
	return h.end()
}

// check ends the hold if its time is up, and returns why it has ended or nil.
func (h *hold) check() error {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	return h.ended()
}

// expireAt ends the hold if its time is up. Called with mu held.
func (h *hold) expireAt(now instant) {
	if h.ended() != nil || h.left(now) > 0 {
		return
	}
	if h.opts.maxHold > 0 && now.since(h.since) >= h.opts.maxHold {
		h.finish(ErrMaxHold, true)
	} else {
		h.detail = fmt.Sprintf(": its validity ended %s ago", -h.left(now))
		h.finish(ErrLost, true)
	}
}

// finish makes the end known, by every way at once. Whoever ends a hold other than by Unlock has the nodes let go, too:
// what they still keep is in nobody's use. But where the Locker is closed under running work, that stays protected for
// the rest of the TTL, and a hold that was handed over is kept for who adopts it. Called with mu held, once.
func (h *hold) finish(cause error, letGo bool) {
	h.ending.Store(true)
	h.cause = cause
	h.renewal.handle = nil
	if h.done != nil {
		close(h.done)
	}
	for end := range h.ends {
		(*end)(cause)
	}
	h.ends = nil
	h.locker.schedule.remove(h)
	if h.observed != nil && !errors.Is(cause, ErrUnlocked) { // what becomes of an Unlock is told when that is known
		err := cause
		if errors.Is(cause, ErrLost) {
			err = h.over("hold", cause)
		}
		h.observed.released(h.owner, h.token, h.since, err)
	}
	if h.place != nowhere {
		h.locker.listeners.forget(h.owner.String())
	}
	if letGo {
		h.locker.undo(h, h.asked)
	}
}

// discard ends a hold that nobody has a handle of, and has the nodes let go.
func (h *hold) discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended == nil {
		h.finish(errDiscarded, true)
	} else if errors.Is(ended, ErrClosed) {
		h.locker.undo(h, h.asked)
	}
}

// withdraw gives up a hold that was never handed out, and may not have been won: it leaves all queues, and gives back
// the votes that there are.
func (h *hold) withdraw() {
	h.locker.listeners.forget(h.owner.String())
	h.locker.undo(h, h.asked)
}

var errDiscarded = errors.New("discarded")

// leave gives back one handle; the last one unlocks.
func (h *hold) leave() error {
	l := h.locker
	now := l.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if ended := h.ended(); ended != nil {
		h.mu.Unlock()
		if errors.Is(ended, ErrHandedOver) {
			return nil
		}
		return h.over("unlock", ended)
	}
	if h.handles--; h.handles > 0 {
		h.mu.Unlock()
		return nil
	}
	r := l.askFor(release, h)
	t := h.take()
	h.mu.Unlock()
	err := h.release(r, t, now.local)
	t.observed.released(h.owner, h.token, t.since, err)
	t.recycle()
	return err
}

// release has the nodes let go and waits for a majority of them to say so, unless it is not to wait.
func (h *hold) release(r *round, t *tenure, now time.Time) error {
	l := h.locker
	if t.former != uuid.Nil {
		l.undoOwner(t.key, t.former, false, t.opts.ttl, t.asked)
	}
	defer r.Done()
	r.expires = now.Add(t.opts.ttl)
	r.send(l.nodes, t.asked, l.need, now)
	if t.opts.async {
		return nil
	}
	<-r.wake // within the node timeout: the nodes see to it
	votes := tally(r.votes.Load())
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		return nil
	}
	return r.failure("unlock", h.name, ErrLost, votes, nil)
}

// extension is an extension that all nodes were asked for.
type extension struct {
	hold  *hold
	round *round
	begun instant
}

// ask puts an extension to all nodes. The schedule runs then at the outcome; where it is nil, the caller waits. The nodes get it
// while mu is held and the hold has not ended, so that it can never follow the release, and bring back what that
// deleted.
func (h *hold) ask(then func(extension)) (extension, error) {
	l := h.locker
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		return extension{}, h.over("extend", ended)
	}
	r := l.askFor(extend, h)
	x := extension{h, r, l.opts.clock.now()}
	r.cancelled = &h.ending
	if then != nil {
		outcome := func() { then(x) }
		r.then = func(*round) { l.schedule.do(outcome) }
	}
	if observed := h.observed; observed.detailed() {
		r.onDone = func(*round) { observed.repaired(h.owner, h.token, x.begun, r.voted(voteAbsent)) }
	}
	h.extended = true
	h.asked |= r.send(l.nodes, l.all, l.need, x.begun.local)
	return x, nil
}

// answered draws the conclusion from an extension. ended is what ended the wait for it.
func (h *hold) answered(x extension, votes tally, ended error) error {
	l := h.locker
	now := l.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	if ended := h.ended(); ended != nil {
		return h.over("extend", ended)
	}
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		if x.begun.since(h.start) > 0 {
			h.start, h.validity = x.begun, h.opts.drift.validity(h.opts.ttl, 0)
		}
		h.observed.extended(h.owner, h.token, x.begun, h.end(), nil)
		return nil
	}
	failure := x.round.failure("extend", h.name, ErrLost, votes, ended)
	h.observed.extended(h.owner, h.token, x.begun, h.end(), failure)
	if failure.refused { // not errors.Is: ctx may have ended with another hold that was lost
		h.detail = ": a majority of the nodes had it no more"
		h.finish(ErrLost, true)
	}
	return failure
}

// over returns the error of an operation on a hold that has ended. It may be called without mu: a hold that was
// lost keeps its tenure, in which nothing changes any more.
func (h *hold) over(op string, cause error) error {
	e := failed(op, h.name, cause)
	switch {
	case errors.Is(cause, ErrLost):
		e.detail = h.detail
	case errors.Is(cause, ErrUnlocked), errors.Is(cause, ErrHandedOver):
	default:
		e.reason, e.cause = ErrLost, cause
	}
	return e
}

// tenure is the part of a hold that matters only until its end. A handle may outlive its hold for as long as
// somebody keeps it, so what its methods say then stands in the hold, which is small and never used again; and the
// rest, four fifths of it, goes from an unlocked hold to the next one.
//
// The rule of access: while a hold is being acquired, its tenure is its maker's. Once it is shared, whoever uses the
// tenure holds hold.mu and has seen, since taking it, that the hold has not ended (hold.ended) – or knows why it has: a
// tenure is taken out of its hold by the last Unlock alone. It keeps no reference that it was not told to: a call
// copies what it needs when it is filled in.
type tenure struct {
	opts *options
	acquireRequest
	since  instant // when the acquisition began
	place  any     // string: our member of the nodes' queues, or nowhere
	caller callers
	former uuid.UUID // the owner that was adopted: others that tried, too, may have set it again on some nodes

	start    instant                               // when the request that the validity rests on was begun
	validity time.Duration                         // how long after start the hold may be trusted
	asked    nodeSet                               // the nodes that may have the key
	extended bool                                  // an extension was asked for: it may come late
	handles  int                                   // Locks that have not been unlocked
	cause    error                                 // why the hold ended; nil while it may be trusted: see hold.ended
	detail   string                                // how it was lost
	done     chan struct{}                         // closed when the hold ends; made when first asked for
	ends     map[*context.CancelCauseFunc]struct{} // contexts that end with the hold
	renewal  renewal
}

// wanted is what an attempt is about.
type acquireRequest struct {
	op   string // for errors
	name string
	key  string
	from any // string: the owner to take over from; nil: the lock must be nobody's

	names    *names       // instead of key; nil: one lock
	observed *observation // nil: nobody observes, or a step on the way to another hold
	shared   bool         // with other readers: askFor chooses what is asked accordingly

	joins      bool  // the hold that the context carries
	waitsSince int64 // when the wait for it began, in µs of the nodes' time; 0: it begins now
}

// tenures are those that no hold has. All is zero in them.
var tenures = sync.Pool{New: func() any { return new(tenure) }}

// newHold begins an acquisition: it reads the clock, draws an owner and proposes a token. The owner says that the caller
// has waited since then, in µs of the nodes' time; 0: it begins now.
func (l *Locker) newHold(w acquireRequest, o *options, since int64) *hold {
	now := o.clock.begin()
	t := tenures.Get().(*tenure)
	t.opts, t.acquireRequest, t.place = o, w, nowhere
	t.since, t.start, t.validity = now, now, o.drift.validity(o.ttl, 0)
	h := &hold{locker: l, tenure: t, name: w.name, names: w.names, shared: w.shared}
	h.owner = newOwner(cmp.Or(since, l.tokens.time(now)))
	if o.fencing {
		h.token = l.tokens.propose(now)
	}
	return h
}

// take ends the hold by Unlock and takes its tenure out of it. Nobody else has it then: the schedule, the contexts and
// the listeners have been told of the end by finish, and all others come by hold.mu. Called with mu held, once, where
// the hold has not ended.
func (h *hold) take() *tenure {
	h.finish(ErrUnlocked, false)
	h.last = h.end().UnixNano()
	t := h.tenure
	h.tenure = nil
	return t
}

// recycle gives the tenure to a later hold. Called by who took it, at the end.
func (t *tenure) recycle() {
	*t = tenure{} // all of it: nothing is to be kept alive, or found by the next
	tenures.Put(t)
}

// left returns for how long the hold may still be trusted; zero or less: it is over.
func (t *tenure) left(now instant) time.Duration {
	left := t.validity - now.since(t.start)
	if t.opts.maxHold > 0 {
		left = min(left, t.opts.maxHold-now.since(t.since))
	}
	return left
}

// end returns when the hold ends unless it is extended.
func (t *tenure) end() time.Time {
	end := t.start.local.Add(t.validity)
	if t.opts.maxHold > 0 {
		if limit := t.since.local.Add(t.opts.maxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// newOwner draws an owner: a UUID of version 7 (RFC 9562), whose first 60 bits
// tell the time and whose last 62 bits are random. With the nodes' time in it
// owners stand in the order in which they began, whatever machine they are from.
func newOwner(micros int64) (id uuid.UUID) {
	_, _ = rand.Read(id[8:]) // never fails
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16|0x7<<12|uint64(micros%1000)<<12/1000)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// askFor fills in a call about a hold.
func (l *Locker) askFor(k *command, h *hold) *round {
	if h.shared {
		k = k.toRead
	}
	r := l.rounds.Get().(*round)
	if h.names != nil {
		r.setAll(k, h.names, h.owner, h.token)
	} else {
		r.set(k, h.key, h.owner, h.token)
	}
	r.args[1], r.args[3] = h.opts.ttlArg, h.from
	switch k {
	case release:
		r.args[1], r.args[2] = h.place, noToken
		if h.extended && h.token > 0 {
			// An extension that went down another connection, now broken, may land behind this. Half a step is above our
			// token and below everybody else's, so it costs nobody a second round.
			r.args[2] = strconv.FormatInt(h.token, 10) + ".5"
		}
	case stopReading:
		r.args[1] = h.place
	case read:
		r.args[2] = h.place
	case enqueue:
		r.args[3] = h.place
	case revert:
		r.args[1] = h.from
	}
	if k.form != nil {
		r.Native = k.form(&r.request, r.Native[:0])
	}
	return r
}

// askToAcquire fills in a call that acquires, with a token unless there is to be none.
func (l *Locker) askToAcquire(h *hold) *round {
	switch {
	case h.from != nil:
		return l.askFor(adopt, h)
	case h.names != nil:
		return l.askFor(acquireAll, h)
	case h.opts.fencing:
		return l.askFor(acquire, h)
	default:
		return l.askFor(acquirePlain, h)
	}
}

// undo lets go of what a hold may have on the nodes, and does not wait.
func (l *Locker) undo(h *hold, nodes nodeSet) {
	if nodes == 0 {
		return
	}
	k := release
	if h.from != nil {
		k = revert
	}
	r := l.askFor(k, h)
	now := l.opts.clock.local()
	r.expires = now.Add(h.opts.ttl)
	r.send(l.nodes, nodes, l.need, now)
	r.Done()
}

// undoOwner has nodes let go of a key under an owner that has no hold here, as far as they gave it to that one within the
// TTL. It does not wait.
func (l *Locker) undoOwner(key string, owner uuid.UUID, shared bool, ttl time.Duration, nodes nodeSet) {
	k := release
	if shared {
		k = k.toRead
	}
	r := l.rounds.Get().(*round)
	r.set(k, key, owner, 0)
	r.args[1], r.args[2] = nowhere, noToken
	now := l.opts.clock.local()
	r.expires = now.Add(ttl)
	r.send(l.nodes, nodes, l.need, now)
	r.Done()
}
