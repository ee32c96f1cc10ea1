package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Mutex returns the lock of the given name as a [sync.Locker], for code that takes one. Prefer [Locker.Do] or
// [Locker.Lock]: a sync.Locker cannot return an error, so it panics, with an error that can be tested with errors.Is.
//
//   - Lock waits until the lock is held. It panics if [Locker.Lock] returns an error: ctx is done, the Locker is closed
//     ([ErrClosed]), name or opts are not acceptable ([ErrInvalid]), the attempts of [WithMaxAttempts] are used up, the
//     time of [WithMaxWait] is over, or ctx carries a hold of the name that was lost. It waits for nodes that are out
//     of reach.
//   - Unlock panics with [ErrLost] if the hold had ended before, since the work may have run unprotected: a sync.Locker
//     cannot say so earlier. Stop using what it protects before you recover. It also panics if the Mutex is not locked
//     ([ErrInvalid]). It does not panic if nodes do not answer: they release the lock at the end of the TTL.
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
	turn   chan struct{} // full while a goroutine holds the lock through this mutex, or waits for it on the nodes

	mu   sync.Mutex
	held *Lock // guarded by mu
}

func (m *mutex) Lock() {
	o, err := applyOptions(m.locker.opts, true, m.opts)
	if err != nil {
		panic(failed("lock", m.name, err))
	}
	opts := m.opts
	if o.maxWait > 0 { // for the turn and the lock together
		begun := o.clock.now()
		over := time.NewTimer(o.maxWait)
		defer over.Stop()
		m.takeTurn(over.C)
		opts = append(slices.Clip(opts), WithMaxWait(max(1, o.maxWait-o.clock.now().since(begun))))
	} else {
		m.takeTurn(nil)
	}
	k, err := m.locker.Lock(m.ctx, m.name, opts...)
	if err != nil {
		<-m.turn
		panic(err)
	}
	m.mu.Lock()
	m.held = k
	m.mu.Unlock()
}

// takeTurn waits until no other goroutine uses the mutex, or panics if the wait ends first. over: the longest wait
// allowed is over.
func (m *mutex) takeTurn(over <-chan time.Time) {
	select {
	case m.turn <- struct{}{}:
	case <-m.ctx.Done():
		panic(failed("lock", m.name, m.locker.ended(m.ctx)))
	case <-m.locker.ctx.Done():
		panic(failed("lock", m.name, ErrClosed))
	case <-over:
		panic(waitEnded(m.locker.notFirst("lock", m.name, m.locker.local.Note(m.locker.opts.prefix+m.name)), ErrMaxWait))
	}
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
