package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lock joins the hold that ctx carries, or else asks, once or until it is held.
func (l *Locker) lock(ctx context.Context, name string, wait bool, opts []Option) (*Lock, error) {
	o, err := settle(l.opts, true, opts)
	if err != nil {
		return nil, fmt.Errorf("redlock: lock %q: %w", name, unprefixed{err})
	}
	key, err := l.key(name)
	if err != nil {
		return nil, fmt.Errorf("redlock: lock: %w", unprefixed{err})
	}
	if joined, err := l.join(ctx, name); joined != nil || err != nil {
		return joined, err
	}
	w := wanted{op: "lock", name: name, key: key}
	var last error // what the last complete attempt said
	for attempts := 1; ; attempts++ {
		if err := l.ended(ctx); err != nil {
			return nil, l.waitEnded(name, last, err)
		}
		h, err := l.attempt(ctx, w, o)
		if err == nil {
			return l.hold(h), nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !wait || attempts == o.maxAttempts {
			return nil, err
		}
		if err := l.pause(ctx, o.backoff(attempts)); err != nil {
			return nil, l.waitEnded(name, last, err)
		}
	}
}

// hold hands out the first handle.
func (l *Locker) hold(h *hold) *Lock {
	k := &Lock{hold: h}
	h.watch(k)
	return k
}

// waitEnded is the error where a wait was ended: what the last attempt said and why there is no other.
func (l *Locker) waitEnded(name string, last, ended error) error {
	var q *QuorumError
	if errors.As(last, &q) {
		with := *q
		with.ctx = ended
		return &with
	}
	return fmt.Errorf("redlock: lock %q: %w", name, unprefixed{ended})
}

// ended returns why nobody waits any longer: ErrClosed, or ctx's error.
func (l *Locker) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx, ctx.Err())
}

// endOf adds the cause that ctx was cancelled with, if there is one, to its error.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// pause returns after d, or with the reason to wait no longer.
func (l *Locker) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return l.ended(ctx)
}
