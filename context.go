package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// heldKey is the key under which a context carries holds.
type heldKey struct{}

// held is a chain of the holds that a context carries, the innermost first.
type held struct {
	lock  *Lock
	outer *held
}

// heldContext is a context that ends with a hold.
type heldContext struct {
	context.Context
	hold *hold
}

func (c heldContext) Err() error {
	_ = c.hold.check()
	return c.Context.Err()
}

// Done may be called by finish, with the hold's mutex held: contexts that end take themselves off
// their parents, of which this may be one.
func (c heldContext) Done() <-chan struct{} {
	if !c.hold.ending.Load() {
		_ = c.hold.check()
	}
	return c.Context.Done()
}

// NewContext returns a context that carries the hold. Inside it, Lock, TryLock
// and Do of the same name by the same Locker join the hold: they return at once,
// without asking the nodes, and the hold ends with the last Unlock. [Locker.Do]
// gives its function such a context.
//
// The count is kept in this process, not on the nodes: counts on several
// masters diverge when one misses an increment (docs/adr/0003-reentrance.md).
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

// Context returns a context that also ends when the hold does, with the reason
// as its [context.Cause]. Its Err and Done read the clock, like [Lock.Err]: after a pause of
// the process they say so even before any timer has run. Call the CancelFunc when the work is done.
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		end(ended)
		return ctx, func() {}
	}
	held := heldContext{ctx, h}
	if h.ends == nil {
		h.ends = make(map[*context.CancelCauseFunc]struct{})
	}
	h.ends[&end] = struct{}{}
	return held, func() {
		h.mu.Lock()
		if h.ended() == nil {
			delete(h.ends, &end)
		}
		h.mu.Unlock()
		end(context.Canceled)
		runtime.KeepAlive(k) // who has yet to call this has not forgotten the Lock
	}
}

// join returns another handle on the hold of the names that a context carries, or nil
// where it carries none, or one that was unlocked. Where the hold was lost, the work around
// it is not protected any more, and to go on with a new hold would hide it. A hold of some of the
// names and not of all is an error: to wait for the others, or for these, might be to wait for oneself. And so is
// a read hold where a writer is wanted: that would wait for the reader around it.
func (l *Locker) join(at *held, w *acquireRequest) (*Lock, error) {
	for ; at != nil; at = at.outer {
		h := at.lock.hold
		if h.locker != l {
			continue
		}
		some, all := h.covers(w)
		if !some {
			continue
		}
		err := h.check()
		if why := unfit(h, w, all); err == nil && why != "" {
			return nil, failed(w.op, w.name, invalid("the context carries a %s", why))
		}
		if err == nil {
			h.mu.Lock()
			if err = h.ended(); err == nil {
				h.handles++
			}
			h.mu.Unlock()
		}
		switch {
		case err == nil:
			return &Lock{hold: h, outer: at.lock}, nil
		case errors.Is(err, ErrUnlocked):
			continue
		default:
			return nil, h.over(w.op, err)
		}
	}
	return nil, nil
}

// unfit returns which hold cannot be joined, and why; or "".
func unfit(h *hold, w *acquireRequest, all bool) string {
	switch {
	case h.shared && !w.shared:
		return fmt.Sprintf("read hold of %q, and a writer would wait for that", h.name)
	case !all:
		return fmt.Sprintf("hold of %q, and that is not all of these", h.name)
	}
	return ""
}
