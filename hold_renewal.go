package redlock

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// renewal is how a hold stands with its extensions. Guarded by hold.mu.
type renewal struct {
	at      time.Time // when to ask next
	asking  bool      // an extension is on its way
	stopped bool      // asks no more: off by option, or the handle was forgotten
	handle  *Lock     // keeps the handle reachable until the first renewal, which watches it
}

// renewAfter returns the pause between renewals: a third of the TTL, so that
// two may fail before the hold is in danger.
func (o *options) renewAfter() time.Duration { return o.ttl / 3 }

// retryAfter returns the pause after a failed renewal.
func (o *options) retryAfter() time.Duration { return max(o.ttl/20, time.Millisecond) }

// renewed is run when the outcome of a renewal is certain.
func (h *hold) renewed(x extension) {
	err := h.answered(x, tally(x.round.votes.Load()), nil)
	x.round.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() != nil {
		return
	}
	h.renewal.asking = false
	if now := h.opts.clock.local(); err == nil {
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
	} else {
		h.renewal.at = now.Add(h.opts.retryAfter())
	}
	h.locker.schedule.set(h, h.next(h.start.local))
}

// forgotten is run when nobody can reach the handle any more. The hold ends with its validity.
func (h *hold) forgotten() {
	h.mu.Lock()
	over := h.ended() != nil || h.renewal.stopped
	var caller callers
	if !over {
		h.renewal.stopped, caller = true, h.caller
	}
	h.mu.Unlock()
	if over {
		return
	}
	h.locker.opts.logger.Warn("lock was never unlocked and nobody can unlock it any more: it is renewed no longer",
		"name", h.name, "acquired at", caller.String())
}

// callers remembers where a hold was acquired, as cheaply as can be.
type callers [4]uintptr

func (c *callers) record() { runtime.Callers(5, c[:]) }

// String returns the first file and line outside of this package.
func (c *callers) String() string {
	frames := runtime.CallersFrames(c[:])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "github.com/quorumlock/redlock.(") || !more {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}

// abandon ends a hold that nobody will wake any more.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() == nil {
		h.finish(ErrClosed, false)
	}
}

func (h *hold) position() *int32 { return &h.scheduled }

// watch makes the schedule keep an eye on a new hold.
func (h *hold) watch(k *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles = 1
	h.renewal.stopped = !h.opts.renew
	if h.opts.renew {
		if h.opts.warns {
			h.caller.record()
		}
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
		h.renewal.handle = k
	}
	if !h.locker.schedule.set(h, h.next(h.start.local)) {
		h.finish(ErrClosed, false) // it was won while Close was under way
	}
}

// next returns when the hold must be looked at again.
func (t *tenure) next(now time.Time) time.Time {
	end := t.end()
	if !t.renewal.stopped && !t.renewal.asking && t.renewal.at.Before(end) {
		end = t.renewal.at
	}
	if end.Before(now) {
		return now
	}
	return end
}

// wake is run when the hold is due: it ends the hold or asks to extend it.
func (h *hold) wake() {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if h.ended() != nil {
		h.mu.Unlock()
		return
	}
	ask := !h.renewal.stopped && !h.renewal.asking && !now.local.Before(h.renewal.at)
	h.renewal.asking = h.renewal.asking || ask
	if k := h.renewal.handle; ask && k != nil {
		// From now on only the user keeps the handle. Watching it from the first renewal on,
		// and not from the start, spares short holds the cost.
		runtime.AddCleanup(k, (*hold).forgotten, h)
		h.renewal.handle = nil
	}
	h.locker.schedule.set(h, h.next(now.local))
	h.mu.Unlock()
	if ask {
		_, _ = h.ask(h.renewed) // an error says that the hold has ended meanwhile
	}
}
