package redlock

import (
	"context"
	"errors"
	"sync"
)

// Mutex returns the lock of the given name as a [sync.Locker], for code that takes one. Prefer
// [Locker.Do] or [Locker.Lock]: a sync.Locker can report no error, so it panics, with an error for errors.Is.
//
//   - Lock waits until the lock is held. It panics where [Locker.Lock] returns an error: ctx is done, the Locker is
//     closed ([ErrClosed]), name or opts are not acceptable ([ErrInvalid]), the attempts of [WithMaxAttempts] are used
//     up, or ctx carries a hold of the name that was lost. Nodes that are out of reach are waited for.
//   - Unlock panics with [ErrLost] where the hold had ended before, since the work may have run unprotected: a
//     sync.Locker cannot say so earlier. Stop using what it protects before you recover. It also panics where the Mutex
//     is not locked. Nodes that do not answer are no reason: they let go at the end of the TTL.
//
// Goroutines that share one Mutex exclude each other even after the hold is lost.
func (l *Locker) Mutex(ctx context.Context, name string, opts ...Option) sync.Locker {
	return &mutex{locker: l, ctx: ctx, name: name, opts: opts, turn: make(chan struct{}, 1)}
}

type mutex struct {
	locker *Locker
	ctx    context.Context // bounds each wait
	name   string
	opts   []Option
	turn   chan struct{} // full while somebody of ours holds the lock, or waits for it on the nodes

	mu   sync.Mutex
	held *Lock // guarded by mu
}

func (m *mutex) Lock() {
	select {
	case m.turn <- struct{}{}:
	case <-m.ctx.Done():
		panic(failed("lock", m.name, m.locker.ended(m.ctx)))
	case <-m.locker.ctx.Done():
		panic(failed("lock", m.name, ErrClosed))
	}
	k, err := m.locker.Lock(m.ctx, m.name, m.opts...)
	if err != nil {
		<-m.turn
		panic(err)
	}
	m.mu.Lock()
	m.held = k
	m.mu.Unlock()
}

func (m *mutex) Unlock() {
	m.mu.Lock()
	k := m.held
	m.held = nil
	m.mu.Unlock()
	if k == nil {
		panic(failed("unlock", m.name, invalid("it is not locked")))
	}
	err := k.Unlock(m.ctx)
	<-m.turn
	if errors.Is(err, ErrLost) {
		panic(err)
	}
}
