package redlock

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
	"weak"
)

// renewal is the state of a hold's renewal. Guarded by hold.mu.
type renewal struct {
	at      time.Time // when the next extension is due
	pending bool      // an extension is in flight
	stopped bool      // no more extensions: switched off by option, or the handle was garbage collected
	handle  *Lock     // keeps the handle reachable until the first renewal, which adds the cleanup
	asker   weak.Pointer[asker]
}

// asker is a first handle with a function to ask. The handle refers to the function, and the hold to neither of them:
// the function often refers to the work, and that to the handle, which would never be garbage collected. So the options
// of the hold do not have it either.
type asker struct {
	Lock
	ctx context.Context // that of the call, without its end
	ask asks
}

// firstHandle returns the first handle of a hold that a call with that ctx has acquired. ask is nil if nobody is asked.
func (h *hold) firstHandle(ctx context.Context, ask *asks) *Lock {
	if ask == nil {
		return &Lock{hold: h}
	}
	a := &asker{Lock{hold: h}, context.WithoutCancel(ctx), *ask}
	h.tenure.renewal.asker = weak.Make(a)
	return &a.Lock
}

// asks reports whether the next renewal depends on a function. The extension of a lease does not: it completes the
// acquisition, and a lease may be too short for an answer.
func (t *tenure) asks() bool {
	return t.renewal.asker != weak.Pointer[asker]{} && !t.grant.leased()
}

// ask asks whether to renew the hold, and does what the answer says. Nobody waits for it: the function may hang.
func (h *hold) ask(ctx context.Context, ask asks) {
	l := h.locker
	begun := l.opts.clock.now()
	ctx, end := h.context(ctx)
	err := ask(ctx)
	end()
	now := l.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	over := h.state != held || h.tenure.renewal.stopped
	switch {
	case over:
	case err == nil:
		h.tenure.detail = ""
	default:
		failure := failed("extend", h.name, err)
		h.tenure.detail = ": not renewed: " + inner(err)
		h.tenure.observed().extended(h.owner, h.token, begun, h.tenure.grant.deadline(), failure)
		h.renewAt(now.local.Add(retryAfter(h.tenure.grant.term)))
	}
	h.mu.Unlock()
	if !over && err == nil {
		_, _ = h.sendExtension("extend", h.renewed) // an error says that the hold has ended meanwhile
	}
}

// firstRenewal returns when a hold that was just acquired is to be extended. A lease has little to spare, so that is
// soon; but most holds of a lock that many want are shorter, and need no extension.
func (t *tenure) firstRenewal() time.Time {
	if t.grant.leased() {
		return t.opts().clock.local().Add(t.grant.term / 10)
	}
	return t.grant.start.local.Add(t.opts().renewAfter())
}

// retryAfter returns the pause after a failed renewal.
func retryAfter(ttl time.Duration) time.Duration { return max(ttl/20, time.Millisecond) }

// renewed is run when the outcome of a renewal is certain.
func (h *hold) renewed(x extension) {
	err := h.concludeExtension(x, x.round.poll.SoFar(), nil)
	x.round.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return
	}
	if err == nil {
		h.renewAt(h.tenure.grant.start.local.Add(h.tenure.opts().renewAfter()))
	} else {
		h.renewAt(h.tenure.opts().clock.local().Add(retryAfter(h.tenure.grant.term)))
	}
}

// renewAt schedules the next renewal. The caller holds mu.
func (h *hold) renewAt(at time.Time) {
	h.tenure.renewal.pending, h.tenure.renewal.at = false, at
	h.locker.schedule.Set(h, h.tenure.next(h.tenure.grant.start.local))
}

// forgotten is run when the handle was garbage collected, and with it all contexts that end with the hold, so that
// nothing can unlock it. Renewal stops, and the hold ends with its validity.
func (h *hold) forgotten() {
	h.mu.Lock()
	over := h.state != held || h.tenure.renewal.stopped
	var caller callers
	if !over {
		h.tenure.renewal.stopped, caller = true, h.tenure.caller
		h.tenure.detail = ": its handle was garbage collected without Unlock"
	}
	h.mu.Unlock()
	if over {
		return
	}
	h.locker.opts.logger.Warn("lock was never unlocked and its handle was garbage collected: it is no longer renewed",
		"name", h.name, "acquired at", caller.String())
}

// callers records where a hold was acquired. Program counters are cheap; only String resolves them.
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

// Abandon ends a hold that the schedule no longer wakes, since the Locker is closed.
func (h *hold) Abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == held || h.state == kept {
		h.becomeClosed()
	}
}

func (h *hold) Position() *int32 { return &h.scheduled }

// begin enters a new hold in the schedule. k is its first handle, or nil.
func (h *hold) begin(k *Lock) {
	h.mu.Lock()
	h.tenure.handles = 1
	h.tenure.renewal.stopped = !h.tenure.opts().renew
	if h.tenure.opts().renew {
		if h.tenure.opts().warns {
			h.tenure.caller.record()
		}
		h.tenure.renewal.at = h.tenure.firstRenewal()
		h.tenure.renewal.handle = k
	}
	if !h.locker.schedule.Set(h, h.tenure.next(h.tenure.grant.start.local)) {
		h.becomeClosed() // it was acquired during Close
	}
	h.mu.Unlock()
	told := h.locker.listeners.revokers(h.owner) // what they tell from now on finds the hold
	for node := range h.locker.nodes {
		if told.Has(node) {
			h.askRevoked(node)
		}
	}
}

// next returns when the schedule must wake the hold: at its end, or before that to renew it or to warn of the end; not
// before now.
func (t *tenure) next(now time.Time) time.Time {
	end := t.grant.deadline()
	for e, deadline := t.endings, end; e != nil; e = e.next {
		if at := deadline.Add(-t.ahead(e)); !e.closed && at.Before(end) {
			end = at
		}
	}
	if !t.renewal.stopped && !t.renewal.pending && t.renewal.at.Before(end) {
		end = t.renewal.at
	}
	if end.Before(now) {
		return now
	}
	return end
}

// Wake is run when the hold is due: it ends the hold if its time is up, and else warns of its end, or extends it, if
// that is due.
func (h *hold) Wake() {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if h.state == kept && h.tenure.grant.valid(now) <= 0 { // else it was kept after it was due: it is scheduled
		h.becomeLost(ErrMaxHold)
	}
	if h.state != held {
		h.mu.Unlock()
		return
	}
	h.tenure.warn(h.tenure.grant.left(now))
	extend := !h.tenure.renewal.stopped && !h.tenure.renewal.pending && !now.local.Before(h.tenure.renewal.at)
	h.tenure.renewal.pending = h.tenure.renewal.pending || extend
	asks, a := extend && h.tenure.asks(), (*asker)(nil)
	if asks {
		a = h.tenure.renewal.asker.Value()
		h.tenure.detail = cmp.Or(h.tenure.detail, ": not renewed: the function of WithRenewWhile did not return")
	}
	if k := h.tenure.renewal.handle; extend && k != nil {
		// From now on only the program keeps the handle reachable. The cleanup is added at the first renewal, and not at the
		// start, to spare short holds its cost.
		runtime.AddCleanup(k, (*hold).forgotten, h)
		h.tenure.renewal.handle = nil
	}
	h.locker.schedule.Set(h, h.tenure.next(now.local))
	h.mu.Unlock()
	if extend {
		h.locker.listeners.hear() // ForceUnlock tells those that listen
	}
	switch {
	case a != nil:
		go h.ask(a.ctx, a.ask)
	case asks: // nobody: the handle was garbage collected, and forgotten is about to run
	case extend:
		_, _ = h.sendExtension("extend", h.renewed) // an error says that the hold has ended meanwhile
	}
}
