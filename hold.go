package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// hold is one acquisition, from grant to release or loss. Several handles may
// share it; renewal refers to the hold and never to a handle, so that a
// forgotten handle can be noticed.
type hold struct {
	locker *Locker
	opts   *options
	wanted
	token  int64
	owner  uuid.UUID
	since  instant // when the acquisition began
	place  any     // string: our member of the nodes' queues, or nowhere
	caller callers
	former *hold // what was adopted: others that tried, too, may have set its owner again on some nodes

	ending atomic.Bool // set by finish at its beginning, for who must not wait for mu

	mu       sync.Mutex                            // guards the fields below
	start    instant                               // when the request that the validity rests on was begun
	validity time.Duration                         // how long after start the hold may be trusted
	asked    nodeSet                               // the nodes that may have the key
	handles  int                                   // Locks that have not been unlocked
	err      error                                 // why the hold ended; nil while it may be trusted
	detail   string                                // how it was lost
	done     chan struct{}                         // closed when the hold ends; made when first asked for
	ends     map[*context.CancelCauseFunc]struct{} // contexts that end with the hold
	renewal  renewal

	lease lease // guarded by leases.mu
}

// wanted is what an attempt is about.
type wanted struct {
	op   string // for errors
	name string
	key  string
	from any // string: the owner to take over from; nil: the lock must be nobody's

	several  *several     // instead of key; nil: one lock
	observed *observation // nil: nobody observes, or a step on the way to another hold
	shared   bool         // with other readers: askFor chooses what is asked accordingly

	waitsSince int64 // when the wait for it began, in µs of the nodes' time; 0: it begins now
}

// nowhere is the place of who waits in no queue.
var nowhere any = ""

// isOver reports whether the hold has ended, as far as that was noticed.
func (h *hold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil
}

// newHold begins an acquisition: it draws an owner and reads the clock.
func (l *Locker) newHold(w wanted, o *options) *hold {
	now := o.clock.now()
	return &hold{
		locker: l, opts: o, wanted: w, place: nowhere, owner: newOwner(l.fence.time(now)),
		since: now, start: now, validity: o.drift.validity(o.ttl, 0),
	}
}

// left returns for how long the hold may still be trusted; zero or less: it is over.
// Called with mu held, or before the hold is shared.
func (h *hold) left(now instant) time.Duration {
	left := h.validity - now.since(h.start)
	if h.opts.maxHold > 0 {
		left = min(left, h.opts.maxHold-now.since(h.since))
	}
	return left
}

// end returns when the hold ends unless it is extended. Called with mu held.
func (h *hold) end() time.Time {
	end := h.start.local.Add(h.validity)
	if h.opts.maxHold > 0 {
		if limit := h.since.local.Add(h.opts.maxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// check ends the hold if its time is up, and returns why it has ended or nil.
func (h *hold) check() error {
	now := h.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	return h.err
}

// expireAt ends the hold if its time is up. Called with mu held.
func (h *hold) expireAt(now instant) {
	if h.err != nil || h.left(now) > 0 {
		return
	}
	if h.opts.maxHold > 0 && now.since(h.since) >= h.opts.maxHold {
		h.finish(ErrMaxHold)
	} else {
		h.detail = fmt.Sprintf(": its validity ended %s ago", -h.left(now))
		h.finish(ErrLost)
	}
}

// finish makes the end known, by every way at once. Whoever ends a hold other than by
// Unlock has the nodes let go, too: what they still keep is in nobody's use. But where
// the Locker is closed under running work, that stays protected for the rest of
// the TTL, and a hold that was handed over is kept for who adopts it. Called with mu held, once.
func (h *hold) finish(cause error) {
	h.ending.Store(true)
	h.err = cause
	h.renewal.handle = nil
	if h.done != nil {
		close(h.done)
	}
	for end := range h.ends {
		(*end)(cause)
	}
	h.ends = nil
	h.locker.leases.remove(h)
	h.locker.events.ended(h, cause)
	if h.place != nowhere {
		h.locker.listeners.forget(h.owner.String())
	}
	if cause != ErrUnlocked && cause != ErrClosed && cause != ErrHandedOver { //nolint:errorlint // our own values
		h.locker.undo(h, h.asked)
	}
}

// discard ends a hold that nobody has a handle of, and has the nodes let go.
func (h *hold) discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.finish(errDiscarded)
	} else if h.err == ErrClosed { //nolint:errorlint // our own value
		h.locker.undo(h, h.asked)
	}
}

var errDiscarded = errors.New("discarded")

// leave gives back one handle; the last one unlocks.
func (h *hold) leave() error {
	now := h.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	h.handles--
	ended, last, asked := h.err, h.handles == 0, h.asked
	if ended == nil && last {
		h.finish(ErrUnlocked)
	}
	h.mu.Unlock()
	switch {
	case ended == ErrHandedOver: //nolint:errorlint // our own value
		return nil
	case ended != nil:
		return h.over("unlock", ended)
	case !last:
		return nil
	}
	err := h.release(asked, now.local)
	h.locker.events.released(h, err)
	return err
}

// release has the nodes let go and waits for a majority of them to say so.
func (h *hold) release(asked nodeSet, now time.Time) error {
	l := h.locker
	if h.former != nil {
		l.undo(h.former, asked)
	}
	if h.opts.async {
		l.undo(h, asked)
		return nil
	}
	c := l.askFor(release, h)
	defer c.release()
	c.expires = now.Add(h.opts.ttl)
	c.put(l.nodes, asked, l.need, now)
	<-c.wake // within the node timeout: the nodes see to it
	votes := tally(c.votes.Load())
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		return nil
	}
	failure := l.failure("unlock", h.name, c, votes, nil)
	if failure.reason == ErrTaken { //nolint:errorlint // our own value
		failure.reason = ErrLost
	}
	return failure
}

// ask puts an extension to all nodes. Its outcome goes to then, or to who waits where
// then is nil. The nodes get it while mu is held and the hold has not ended, so
// that it can never follow the release, and bring back what that deleted.
func (h *hold) ask(then func(*call)) (*call, error) {
	l := h.locker
	c := l.askFor(extend, h)
	c.then, c.hold = then, h
	c.begun = h.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		c.drop()
		return nil, h.over("extend", h.err)
	}
	h.asked |= c.put(l.nodes, allNodes(len(l.nodes)), l.need, c.begun.local)
	return c, nil
}

// answered draws the conclusion from an extension. ended is what ended the wait for it.
func (h *hold) answered(c *call, votes tally, ended error) error {
	l := h.locker
	now := h.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	if h.err != nil {
		return h.over("extend", h.err)
	}
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		if c.begun.since(h.start) > 0 {
			h.start, h.validity = c.begun, h.opts.drift.validity(h.opts.ttl, 0)
		}
		l.events.renewed(h, c, nil)
		return nil
	}
	failure := l.failure("extend", h.name, c, votes, ended)
	l.events.renewed(h, c, failure)
	if failure.reason == ErrTaken { //nolint:errorlint // our own value
		failure.reason = ErrLost
		h.detail = ": a majority of the nodes had it no more"
		h.finish(ErrLost)
	}
	return failure
}

// over returns the error of an operation on a hold that has ended.
func (h *hold) over(op string, cause error) error {
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrUnlocked) || errors.Is(cause, ErrHandedOver) {
		return fmt.Errorf("redlock: %s %q: %w%s", op, h.name, unprefixed{cause}, h.detail)
	}
	return fmt.Errorf("redlock: %s %q: %w: %w", op, h.name, unprefixed{ErrLost}, unprefixed{cause})
}
