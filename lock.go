package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Lock is one handle on a hold. Any number of goroutines may use it at once.
type Lock struct {
	hold  *hold
	outer *Lock // the handle that this one joined: the hold is renewed as long as either lives

	mu      sync.Mutex // held by Unlock to its end; guards the field below
	outcome *outcome   // of Unlock; nil: it was not called
}

// outcome is what became of an Unlock. A pointer to it is smaller than an error, and costs no allocation where all went
// well.
type outcome struct{ err error }

var wentWell outcome

// Name returns the name that was locked, without the prefix. After [Locker.LockAll] it is all
// names, sorted, with a comma and a blank between them: see [Lock.Names].
func (k *Lock) Name() string { return k.hold.name }

// Names returns the names that were locked, sorted: one, or those of [Locker.LockAll].
func (k *Lock) Names() []string {
	if s := k.hold.names; s != nil {
		return slices.Clone(s.list)
	}
	return []string{k.hold.name}
}

// Owner returns the value that marks this hold on the nodes: a UUID of version
// 7, the nodes' time followed by 62 random bits.
func (k *Lock) Owner() string { return k.hold.owner.String() }

// Token returns the fencing token: a number larger than the token of every earlier hold of the name, or of each of the
// names. Send it along with each change of what the lock protects, and let that refuse a token smaller than the largest
// it has seen: so a holder that was paused past the end of its hold can do no harm (docs/fencing.md). Tokens are
// positive and below 2^53; they are no counters. It is 0 with WithoutFencing, and for readers.
func (k *Lock) Token() int64 { return k.hold.token }

// Until returns when the hold ends if it is not extended: the end of the TTL,
// with the time that acquiring took and the drift allowance taken off. It is for
// people; a program selects on Done.
func (k *Lock) Until() time.Time {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until()
}

// Done returns a channel that is closed when the hold ends: by Unlock, Ticket or
// Close, at Until or the limit of [WithMaxHold], or when a majority of the nodes no longer
// has it. Err says which.
func (k *Lock) Done() <-chan struct{} {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() != nil {
		return hasEnded
	}
	if h.done == nil {
		h.done = make(chan struct{})
	}
	return h.done
}

// hasEnded is closed: the Done of all holds that have ended.
var hasEnded = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns nil while the hold may be trusted, then why it ended: [ErrLost],
// [ErrMaxHold], [ErrUnlocked], [ErrHandedOver] or [ErrClosed]. It reads the clock itself, so it is never late, even
// right after the process was paused.
func (k *Lock) Err() error { return k.hold.check() }

// Extend asks the nodes to keep the lock for another full TTL from now on, and
// returns within the node timeout. Its error satisfies errors.Is for [ErrLost] where
// the hold has ended or a majority no longer has it, and for [ErrNoQuorum] where too
// few nodes answered: the hold is then valid until Until, as before. A hold that
// has ended never comes back.
func (k *Lock) Extend(ctx context.Context) error {
	h := k.hold
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: extend %q: %w", h.name, err)
	}
	if err := h.check(); err != nil {
		return h.over("extend", err)
	}
	x, err := h.ask(nil)
	if err != nil {
		return err
	}
	votes, err := x.round.wait(ctx)
	err = h.answered(x, votes, err)
	x.round.abandon()
	return err
}

// Unlock ends the hold and makes the nodes let go. It returns within the node
// timeout, whether or not its context is done: nil where a majority of the nodes
// confirmed; an error that satisfies errors.Is for [ErrLost] where the hold had
// ended before, so that its work may have run unprotected; and a [*QuorumError]
// with [ErrNoQuorum] where too few nodes answered: the others let go when they can be
// reached again, or at the end of the TTL. Calling it again returns the same. With [WithAsyncUnlock] it
// waits for no node, and tells of none.
//
// On a handle that joined a hold, Unlock gives back the handle; the last one ends the hold.
func (k *Lock) Unlock(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.outcome == nil {
		k.outcome = &wentWell
		if err := k.hold.leave(); err != nil {
			k.outcome = &outcome{err}
		}
	}
	return k.outcome.err
}
