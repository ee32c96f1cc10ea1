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

// Readers and writers. A writer's lock is the ordinary lock. While a node has readers, the lock's key on that node
// holds the marker, which cannot be an owner, and a set holds each reader with the end of its lease.
//
// Why a reader and a writer exclude each other: a vote for a reader means that the key on that node is the marker at
// least until the end of the reader's lease; a vote for a writer means that the key is the writer's owner. The
// majorities of the two share a node, and there the key is one or the other: so the two never have a majority at the
// same time. Readers' votes agree on the marker, so any number of readers can have a majority each. Readers need not be
// counted across nodes: each node keeps the marker until the last lease of its own readers ends.
//
// Why neither readers nor writers starve: they wait in one queue. While a writer waits on a node, that node admits no
// reader that came later, and the writer's turn comes with the end of the last reader ahead of it. A release admits all
// readers up to the next writer, and these are ahead of any writer that came later.

// RWMutex is a lock that any number of readers or a single writer may hold at a time. It has no state of its own: it
// may be created for each use, copied, and used by any number of goroutines at once.
type RWMutex struct {
	locker *Locker
	name   string
}

// RWMutex returns the readers' and writers' lock of the name. A writer holds the ordinary lock of the same name, so
// readers exclude [Locker.Lock] and clients of other libraries, and are excluded by them.
func (l *Locker) RWMutex(name string) *RWMutex { return &RWMutex{locker: l, name: name} }

// Lock waits until there is neither a reader nor another writer, and returns the hold. It is [Locker.Lock]. Inside a
// context that carries a read hold of the name, it returns an error that satisfies errors.Is for [ErrInvalid], since it
// would wait for that hold.
func (m *RWMutex) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.locker.Lock(ctx, m.name, opts...)
}

// TryLock makes one attempt, as [Locker.TryLock] does.
func (m *RWMutex) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.locker.TryLock(ctx, m.name, opts...)
}

// RLock waits until no writer holds the lock and none has waited longer, and returns the hold. ctx bounds only the
// wait. Options, errors, renewal, validity and loss are those of [Locker.Lock]: each reader has a lease of its own. A
// read hold has no token and no ticket. Inside a context that carries a hold of the name by the same Locker, a reader's
// or the writer's, RLock joins that hold.
func (m *RWMutex) RLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.read(ctx, true, opts)
}

// TryRLock makes one attempt and returns, within the node timeout, the hold or an error as from [RWMutex.RLock]. The
// error satisfies errors.Is for [ErrTaken] also if a writer waits. TryRLock does not join the queue, so a caller that
// only tries may never get the lock.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.read(ctx, false, opts)
}

func (m *RWMutex) read(ctx context.Context, wait bool, opts []Option) (*Lock, error) {
	opts = append(slices.Clip(opts), WithoutFencing())
	return m.locker.lock(ctx, acquisition{op: "read-lock", name: m.name, shared: true, waits: wait, joins: true}, opts)
}
