package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Lock is one handle on a hold. Any number of goroutines may use it at once.
type Lock struct {
	hold  *hold
	outer *Lock // the handle that this one joined, kept reachable: renewal stops when that one is garbage collected

	mu     sync.Mutex    // held by Unlock until it returns; guards the field below
	result *unlockResult // nil: Unlock was not called
}

// unlockResult is what Unlock returns. A pointer to it is smaller than an error, and success costs no allocation.
type unlockResult struct{ err error }

var unlockOK unlockResult

// Name returns the name that was locked, without the prefix. After [Locker.LockAll] it is all names, sorted, with a
// comma and a blank between them. That of a permit is its slot's: see [Locker.Semaphore].
func (k *Lock) Name() string { return k.hold.name }

// Owner returns the value that marks this hold on the nodes: a UUID of version 7, the nodes' time, 30 bits that all
// owners of the Locker share, and 32 random bits.
func (k *Lock) Owner() string { return k.hold.owner.String() }

// Token returns the fencing token: a number larger than the token of every earlier hold of the name, or of each of the
// names. Send it with every change to the resource that the lock protects, and let the resource reject a token smaller
// than the largest it has seen: then a holder that was paused beyond the end of its hold can do no harm
// ([how]). Tokens are positive and below 2^53; they are not consecutive. The token is 0 with
// [WithoutFencing], and for readers.
//
// [how]: https://github.com/quorumlock/redlock/blob/main/docs/fencing.md
func (k *Lock) Token() int64 { return k.hold.token }

// String says what is held and for how long: "stock:4711, token 1766617310017481, until 15:04:05.250". It does not
// contain the owner, with which any client could release the lock.
func (k *Lock) String() string {
	text := shown(k.Name())
	if token := k.Token(); token > 0 {
		text += fmt.Sprintf(", token %d", token)
	}
	if err := k.Err(); err != nil {
		return text + ", " + inner(err)
	}
	return text + ", until " + k.Deadline().Format("15:04:05.000")
}

// LogValue implements slog.LogValuer: name, token, and until when the hold lasts, or how it ended.
func (k *Lock) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("name", logged(k.Name()))}
	if token := k.Token(); token > 0 {
		attrs = append(attrs, slog.Int64("token", token))
	}
	if err := k.Err(); err != nil {
		return slog.GroupValue(append(attrs, slog.String("ended", inner(err)))...)
	}
	return slog.GroupValue(append(attrs, slog.Time("until", k.Deadline()))...)
}

// Deadline returns when the hold ends if it is not extended: the end of the TTL, less the time that acquiring took and
// the drift allowance, or the limit of [WithMaxHold] if that comes first. After a hand-over from holder to waiter it is
// one second away at first, and a whole TTL from the first renewal on. It is for people; a program selects on Done.
func (k *Lock) Deadline() time.Time {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until()
}

// Done returns a channel that is closed when the hold ends: by Unlock, Ticket or Close, at its Deadline or the limit of
// [WithMaxHold], or when a majority of the nodes no longer has it. Err returns the reason.
func (k *Lock) Done() <-chan struct{} {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return closedDone
	}
	if h.tenure.done == nil {
		h.tenure.done = make(chan struct{})
	}
	return h.tenure.done
}

// Ending returns a channel that is closed when less than notice is left until the Deadline, so that work can stop in
// good order while it still has the lock. With 0 or less it is closed with Done.
//
// While renewals succeed they move the Deadline, and the channel stays open, if notice is less than two thirds of the
// TTL (a little less: [WithDrift], and a round trip). The limit of [WithMaxHold] does not move. In the second after a
// hand-over (see Deadline) the channel is closed in the last quarter of that, whatever the notice.
//
// Once closed, it stays closed, even if the hold is extended after all. Calls with the same notice share a channel.
// Like Done, it does not keep a hold renewed whose handle is dropped.
func (k *Lock) Ending(notice time.Duration) <-chan struct{} {
	h := k.hold
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	if h.state != held {
		return closedDone
	}
	e := h.tenure.endingOf(notice)
	h.tenure.warn(h.tenure.grant.left(now))
	h.locker.schedule.Set(h, h.tenure.next(now.local)) // if the Locker is being closed, Abandon comes
	return e.near
}

// closedDone is what Done, Ending and Wanted return for every hold that has ended.
var closedDone = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns nil while the hold may be trusted, then the reason why it ended: [ErrLost], [ErrMaxHold], [ErrUnlocked]
// or [ErrClosed]. It reads the clock itself, so it is never late, even right after the process was paused.
func (k *Lock) Err() error { return k.hold.check() }

// Extend asks the nodes to keep the lock for another full TTL from now on, and returns within the node timeout. Its
// error satisfies errors.Is for [ErrLost] if the hold has ended or a majority no longer has it (after Unlock and Ticket
// for [ErrUnlocked] instead), for [ErrNoQuorum] if too few nodes answered, and for ctx.Err() if ctx
// is done. After ErrNoQuorum the hold is valid until its Deadline, as before. A hold that has ended cannot be extended.
func (k *Lock) Extend(ctx context.Context) error {
	return k.hold.extend(ctx, "extend")
}

// SetValue changes the value of the hold (see [WithValue]), and extends the hold as [Lock.Extend] does. It returns nil
// when a majority of the nodes has the value, and errors as Extend does. After an error some nodes may have it, and the
// next renewal brings it to all. A value is never shown for another hold, however late it arrives.
func (k *Lock) SetValue(ctx context.Context, value string) error {
	err := checkValue(value)
	if k.hold.shared {
		err = errReaderValue
	}
	if err != nil {
		return failed("set value", k.hold.name, err)
	}
	return k.hold.setValue(ctx, value)
}

// Unlock ends the hold and releases the lock on the nodes. It returns within the node timeout. The error is nil if a
// majority of the nodes confirmed. It satisfies errors.Is for [ErrLost] if the hold had ended before, so that its work
// may have run unprotected. It is a [*QuorumError] with [ErrNoQuorum] if too few nodes answered: the other nodes
// release the lock when they can be reached again, or at the end of the TTL. A hold that ended at the limit of
// [WithMaxHold] is released now. Calling Unlock again returns the same. Whoever does not want to wait for the
// nodes calls it in a goroutine.
//
// On a handle that joined a hold, Unlock gives back the handle; giving back the last one ends the hold.
func (k *Lock) Unlock() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.result == nil {
		k.result = &unlockOK
		if err := k.hold.giveBack(); err != nil {
			k.result = &unlockResult{err}
		}
	}
	return k.result.err
}

// heldKey is the context key of the holds that a context carries.
type heldKey struct{}

// carried is a hold that a context carries, and those around it, the innermost first.
type carried struct {
	lock  *Lock
	outer *carried
}

// carriedBy returns the holds that the context carries, or nil.
func carriedBy(ctx context.Context) *carried {
	at, _ := ctx.Value(heldKey{}).(*carried)
	return at
}

// heldContext is a context that ends with a hold. It and all contexts derived from it refer to the handle, so that the
// hold is renewed for as long as somebody has one of them: work often has its context and nothing else. One with a
// cancel function of its own counts until it is cancelled, since its parent refers to it.
type heldContext struct {
	context.Context
	carried
	scope scope
}

// Value returns what the context carries.
func (c *heldContext) Value(key any) any {
	switch key.(type) {
	case heldKey:
		return &c.carried
	case scopeKey:
		return &c.scope
	}
	return c.Context.Value(key)
}

func (c *heldContext) Err() error {
	_ = c.lock.hold.check()
	return c.Context.Err()
}

// Done must not lock the hold's mutex while the hold is ending: tellWork holds it when it cancels contexts, and a
// context that is cancelled calls Done of its parent, which may be a heldContext.
func (c *heldContext) Done() <-chan struct{} {
	if h := c.lock.hold; !h.finished.Load() {
		_ = h.check()
	}
	return c.Context.Done()
}

// FromContext returns the innermost hold that the context carries, and whether it carries one.
func FromContext(ctx context.Context) (*Lock, bool) {
	if at := carriedBy(ctx); at != nil {
		return at.lock, true
	}
	return nil, false
}

// Context returns a context that also ends when the hold does, with the reason as its [context.Cause]. Its Err and Done
// read the clock, like [Lock.Err]: after a pause of the process they report the end even before any timer has run.
// While the context, or one derived from it, is in use, the hold is renewed, as it is while the Lock is. Call the
// CancelFunc when the work is done.
//
// The context carries the hold: see [FromContext]. Called with it, Lock, TryLock and Do of the same name by the same
// Locker join the hold: they return at once, without asking the nodes, and the hold ends with the last Unlock. The
// process counts the handles, not the nodes: counts on several masters diverge when one misses an increment
// ([more]).
//
// [more]: https://github.com/quorumlock/redlock/blob/main/docs/adr/0003-reentrance.md
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := k.hold.context(parent)
	around, _ := parent.Value(scopeKey{}).(*scope)
	in := scope{core: k.hold.locker.core, ended: &k.hold.finished, outer: around}
	return &heldContext{ctx, carried{lock: k, outer: carriedBy(parent)}, in}, func() {
		end()
		runtime.KeepAlive(k) // as long as the caller can call this, it has not dropped the Lock
	}
}

// context returns a context that ends with the hold, and a function that ends it before. The hold refers to both, so
// they must not refer to the handle.
func (h *hold) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		end(ended)
		return ctx, func() {}
	}
	if h.tenure.contexts == nil {
		h.tenure.contexts = make(map[*context.CancelCauseFunc]struct{})
	}
	h.tenure.contexts[&end] = struct{}{}
	return ctx, func() {
		h.mu.Lock()
		if h.state == held {
			delete(h.tenure.contexts, &end)
		}
		h.mu.Unlock()
		end(context.Canceled)
	}
}

// join returns a new handle on the hold of the names that a context carries, or nil if it carries none or only one that
// was unlocked. If the hold was lost, join returns its error: the surrounding work is no longer protected, and a new
// hold would hide that. A hold of only some of the names is an error, because the caller might wait for itself. So is a
// read hold if a write lock is requested: it would wait for the surrounding reader.
func (l *Locker) join(at *carried, p *plan) (*Lock, error) {
	for ; at != nil; at = at.outer {
		h := at.lock.hold
		if h.locker != l {
			continue
		}
		some, all := p.covered(h.has)
		if !some {
			continue
		}
		err := h.check()
		switch {
		case err != nil:
		case h.shared && !p.reads():
			const why = "the context carries a read hold of %q, and a writer would wait for that"
			return nil, failed(p.op, p.name, invalid(why, h.name))
		case !all:
			const why = "the context carries a hold of %q, which does not cover all of these names"
			return nil, failed(p.op, p.name, invalid(why, h.name))
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
		case errors.Is(err, ErrUnlocked) && !errors.Is(err, errHandedOver):
			continue
		default:
			return nil, h.endedError(p.op, err)
		}
	}
	return nil, nil
}
