package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// heldKey is the context key of the holds that a context carries.
type heldKey struct{}

// held is a list of the holds that a context carries, the innermost first.
type held struct {
	lock  *Lock
	outer *held
}

// heldContext is a context that ends with a hold. It and all contexts derived from it refer to the handle, so that the
// hold is renewed for as long as somebody has one of them: work often has its context and nothing else. One with a
// cancel function of its own counts until it is cancelled, since its parent refers to it.
type heldContext struct {
	context.Context
	lock *Lock
}

func (c heldContext) Err() error {
	_ = c.lock.hold.check()
	return c.Context.Err()
}

// Done must not lock the hold's mutex while the hold is ending: finish holds it when it cancels contexts, and a context
// that is cancelled calls Done of its parent, which may be a heldContext.
func (c heldContext) Done() <-chan struct{} {
	if h := c.lock.hold; !h.finished.Load() {
		_ = h.check()
	}
	return c.Context.Done()
}

// NewContext returns a context that carries the hold. Called with that context, Lock, TryLock and Do of the same name
// by the same Locker join the hold: they return at once, without asking the nodes, and the hold ends with the last
// Unlock. [Locker.Do] gives its function such a context.
//
// The process counts the handles, not the nodes: counts on several masters diverge when one misses an increment
// (docs/adr/0003-reentrance.md).
func NewContext(ctx context.Context, lock *Lock) context.Context {
	outer, _ := ctx.Value(heldKey{}).(*held)
	return context.WithValue(ctx, heldKey{}, &held{lock: lock, outer: outer})
}

// FromContext returns the innermost hold that the context carries, and whether it carries one.
func FromContext(ctx context.Context) (*Lock, bool) {
	if h, ok := ctx.Value(heldKey{}).(*held); ok {
		return h.lock, true
	}
	return nil, false
}

// Context returns a context that also ends when the hold does, with the reason as its [context.Cause]. Its Err and Done
// read the clock, like [Lock.Err]: after a pause of the process they report the end even before any timer has run.
// While the context, or one derived from it, is in use, the hold is renewed, as it is while the Lock is. Call the
// CancelFunc when the work is done.
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		end(ended)
		return ctx, func() {}
	}
	held := heldContext{ctx, k}
	if h.tenure.contexts == nil {
		h.tenure.contexts = make(map[*context.CancelCauseFunc]struct{})
	}
	h.tenure.contexts[&end] = struct{}{}
	return held, func() {
		h.mu.Lock()
		if h.ended() == nil {
			delete(h.tenure.contexts, &end)
		}
		h.mu.Unlock()
		end(context.Canceled)
		runtime.KeepAlive(k) // as long as the caller can call this, it has not dropped the Lock
	}
}

// join returns a new handle on the hold of the names that a context carries, or nil if it carries none or only one that
// was unlocked. If the hold was lost, join returns its error: the surrounding work is no longer protected, and a new
// hold would hide that. A hold of only some of the names is an error, because the caller might wait for itself. So is a
// read hold if a write lock is requested: it would wait for the surrounding reader.
func (l *Locker) join(at *held, want *acquisition) (*Lock, error) {
	for ; at != nil; at = at.outer {
		h := at.lock.hold
		if h.locker != l {
			continue
		}
		some, all := h.covers(want)
		if !some {
			continue
		}
		err := h.check()
		if why := cannotJoin(h, want, all); err == nil && why != "" {
			return nil, failed(want.op, want.name, invalid("the context carries a %s", why))
		}
		if err == nil {
			h.mu.Lock()
			if err = h.ended(); err == nil {
				h.tenure.handles++
			}
			h.mu.Unlock()
		}
		switch {
		case err == nil:
			return &Lock{hold: h, outer: at.lock}, nil
		case errors.Is(err, ErrUnlocked):
			continue
		default:
			return nil, h.endedError(want.op, err)
		}
	}
	return nil, nil
}

// cannotJoin returns which hold w cannot join, and why; "" if it can. all: the hold covers all names of w.
func cannotJoin(h *hold, want *acquisition, all bool) string {
	switch {
	case h.shared && !want.shared:
		return fmt.Sprintf("read hold of %q, and a writer would wait for that", h.name)
	case !all:
		return fmt.Sprintf("hold of %q, which does not cover all of these names", h.name)
	}
	return ""
}
