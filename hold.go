package redlock

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// hold is one acquisition, from grant to release or loss. Several handles may
// share it; renewal refers to the hold and never to a handle, so that a
// forgotten handle can be noticed. Handles may outlive it: see tenure.
type hold struct {
	locker  *Locker
	name    string
	several *several // nil: one lock
	shared  bool     // with other readers
	owner   uuid.UUID
	token   int64

	ending atomic.Bool // set by finish at its beginning, for who must not wait for mu
	lease  int32       // where the hold stands in the heap of leases, plus one; 0: not in it; guarded by leases.mu

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
	h.cause = cause
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
	switch {
	case h.place == nowhere:
	case cause == ErrHandedOver: //nolint:errorlint // our own value
		h.locker.listeners.handOver(h.owner.String(), h.end(), h.locker.opts.clock.local())
	default:
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
	if ended := h.ended(); ended == nil {
		h.finish(errDiscarded)
	} else if ended == ErrClosed { //nolint:errorlint // our own value
		h.locker.undo(h, h.asked)
	}
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
		if ended == ErrHandedOver { //nolint:errorlint // our own value
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
	l.events.released(h, t, err)
	t.recycle()
	return err
}

// release has the nodes let go and waits for a majority of them to say so, unless it is not to wait.
func (h *hold) release(r *round, t *tenure, now time.Time) error {
	l := h.locker
	if t.former != nil {
		l.undo(t.former, t.asked)
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
	return l.failure("unlock", h.name, ErrLost, r, votes, nil)
}

// extension is an extension that all nodes were asked for.
type extension struct {
	hold  *hold
	round *round
	begun instant
}

// ask puts an extension to all nodes. Its outcome goes to then, or to who waits where then is nil. The nodes get it
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
		r.then = func(*round) { then(x) }
	}
	if observed := h.observed; observed.detailed() {
		r.onDone = func(*round) { l.events.repaired(x, observed) }
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
		l.events.renewed(x, nil)
		return nil
	}
	failure := l.failure("extend", h.name, ErrLost, x.round, votes, ended)
	l.events.renewed(x, failure)
	if failure.reason == ErrLost { //nolint:errorlint // our own value; and ctx may have ended with another hold that was lost
		h.detail = ": a majority of the nodes had it no more"
		h.finish(ErrLost)
	}
	return failure
}

// over returns the error of an operation on a hold that has ended. It may be called without mu: a hold that was
// lost keeps its tenure, in which nothing changes any more.
func (h *hold) over(op string, cause error) error {
	switch {
	case errors.Is(cause, ErrLost):
		return fmt.Errorf("redlock: %s %q: %w%s", op, h.name, unprefixed{cause}, h.detail)
	case errors.Is(cause, ErrUnlocked), errors.Is(cause, ErrHandedOver):
		return fmt.Errorf("redlock: %s %q: %w", op, h.name, unprefixed{cause})
	default:
		return fmt.Errorf("redlock: %s %q: %w: %w", op, h.name, unprefixed{ErrLost}, unprefixed{cause})
	}
}
