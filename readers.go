package redlock

import (
	"context"
	"slices"
)

// Readers and writers. A writer's lock is the ordinary lock. While a node has readers, the lock's key on that node
// holds the marker, which cannot be an owner, and a set holds each reader with the end of its lease.
//
// Why a reader and a writer exclude each other: a vote for a reader means that the key on that node is the marker at
// least until the end of the reader's lease; a vote for a writer means that the key is the writer's owner. The
// majorities of the two share a node, and there the key is one or the other: so the two never have a majority at the
// same time. Readers' votes agree on the marker, so any number of readers can have a majority each. Readers need not be
// counted across nodes: each node keeps the marker until the last lease of its own readers ends.
//
// Why neither readers nor writers starve is in docs/adr/0010-readers-and-writers.md: they wait in one queue.

// RLock waits until no writer holds the lock of the name and none has waited longer, and returns the hold of a reader.
// Any number of readers may hold a name at a time. A writer holds the ordinary lock ([Locker.Lock]), so readers exclude
// also clients of other libraries, and are excluded by them.
//
// Options, errors, renewal, validity and loss are those of Lock: each reader has a lease of its own. A read hold has no
// token and no ticket. Inside a context that carries a hold of the name by the same Locker, a reader's or the writer's,
// RLock joins that hold. Inside one that carries a read hold, Lock returns [ErrInvalid]: it would wait for that hold.
func (l *Locker) RLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.read(ctx, plan{name: name, waits: true}, opts)
}

// TryRLock makes one attempt and returns, within the node timeout, the hold or an error as from [Locker.RLock]:
// [ErrTaken] also if a writer waits. It joins no queue, so a caller that only tries may never get the lock.
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.read(ctx, plan{name: name}, opts)
}

// RDo does for a reader what [Locker.Do] does for a writer.
func (l *Locker) RDo(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	l.work.begin()
	defer l.work.end()
	lock, err := l.RLock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lock.do(ctx, fn)
}

func (l *Locker) read(ctx context.Context, p plan, opts []LockOption) (*Lock, error) {
	p.op, p.mode, p.joins = "read-lock", reader, true
	return l.lock(ctx, p, append(slices.Clip(opts), WithoutFencing()))
}
