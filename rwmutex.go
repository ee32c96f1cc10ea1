package redlock

import (
	"context"
	"slices"
)

// Readers and writers. A writer's lock is the ordinary lock, with all that belongs to it. While a node counts readers,
// the lock's key there is the marker, which no owner can be, and a set holds each reader with the end of its own lease.
//
// Why a reader and a writer exclude each other: a vote for a reader says that the key on that node is the marker until
// the end of the reader's lease at least, and a vote for a writer that it is the writer's owner. The majorities of the
// two share a node, and there the key is one or the other: so at no time do both have a majority. Two readers' votes
// agree on the marker, so any number of readers have a majority each. That needs nobody to count the readers of all
// nodes together: each node keeps the marker for its own readers, until the last of their leases.
//
// Why nobody starves: readers and writers stand in one queue. While a writer waits on a node, no
// reader gets in there that came later, and the writer's turn comes with the end of the last reader before it. A
// release lets in all readers up to the next writer, and those are before any writer that came later.
const (
	// marker sorts behind all owners, which begin with a hexadecimal digit.
	marker = "readers"
	// readsMark stands in the place of a token where a reader waits.
	readsMark = "reading---------"
)

// RWMutex is a lock that any number of readers may hold at the same time, or a single writer. It has no state of its
// own, so it may be made anew for each use, copied, and used by any number of goroutines at once.
type RWMutex struct {
	locker *Locker
	name   string
}

// RWMutex returns the readers' and writers' lock of the name. A writer has the ordinary lock of the same name, so
// [Locker.Lock] and clients of other libraries keep readers out, and are kept out by them.
func (l *Locker) RWMutex(name string) *RWMutex { return &RWMutex{locker: l, name: name} }

// Lock waits until there is neither a reader nor another writer and returns the hold. It is [Locker.Lock]. Inside a
// context that carries a read hold of the name its error satisfies errors.Is for [ErrInvalid]: it would wait for that
// hold.
func (m *RWMutex) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.locker.Lock(ctx, m.name, opts...)
}

// TryLock asks once, as [Locker.TryLock] does.
func (m *RWMutex) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.locker.TryLock(ctx, m.name, opts...)
}

// RLock waits until there is no writer, nor one that has waited for longer, and returns the hold. ctx bounds only the
// wait. Options and errors are those of [Locker.Lock], and so are renewal, validity and loss: each reader has a lease
// of its own. A read hold has no token, and no ticket. Inside a context that carries a hold of the name by the same
// Locker, a reader's or the writer's, it joins that hold.
func (m *RWMutex) RLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.read(ctx, true, opts)
}

// TryRLock asks once, and returns within the node timeout: the hold, or an error as from [RWMutex.RLock], which is
// [ErrTaken] also where a writer waits. It has no place in the queue, so a caller that only ever tries may never get
// in.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.read(ctx, false, opts)
}

func (m *RWMutex) read(ctx context.Context, wait bool, opts []Option) (*Lock, error) {
	opts = append(slices.Clip(opts), WithoutFencing())
	return m.locker.lock(ctx, acquireRequest{op: "read-lock", name: m.name, shared: true, joins: true}, wait, opts)
}
