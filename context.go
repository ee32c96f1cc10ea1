package redlock

import (
	"context"
	"errors"
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

func (c heldContext) Done() <-chan struct{} {
	_ = c.hold.check()
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

// FromContext returns the innermost hold that the context carries.
func FromContext(ctx context.Context) (*Lock, bool) {
	if h, ok := ctx.Value(heldKey{}).(*held); ok {
		return h.lock, true
	}
	return nil, false
}

// join returns another handle on the hold of the name that ctx carries, or nil
// where it carries none, or one that was unlocked. Where the hold was lost, the work around
// it is not protected any more, and to go on with a new hold would hide it.
func (l *Locker) join(ctx context.Context, name string) (*Lock, error) {
	for at, _ := ctx.Value(heldKey{}).(*held); at != nil; at = at.outer {
		h := at.lock.hold
		if h.locker != l || h.name != name {
			continue
		}
		err := h.check()
		if err == nil {
			h.mu.Lock()
			if err = h.err; err == nil {
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
			return nil, h.over("lock", err)
		}
	}
	return nil, nil
}
