package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxNames limits the names of one LockAll: a node runs nothing else while its script takes them.
const maxNames = 64

// LockAll waits until one hold has all the names, and returns it. A node grants all names or none in one step, so
// LockAll takes one round trip if all are free. Callers need not agree on an order of the names: calls with overlapping
// sets cannot deadlock. From 1 to 64 different names are possible.
//
// The hold has one token, larger than the token of every earlier hold of each of the names. It is renewed, lost and
// unlocked as a whole: it is lost if so many nodes lack one or other of the names that no majority has them all.
//
// A call that has to wait holds nothing at first. It then waits for the names in byte order, each in the queue of all
// waiters for that name, and keeps the names that it has acquired. So no caller starves, and other callers may find
// names taken before LockAll returns.
//
// Inside a context that carries a hold of all the names by the same Locker, LockAll joins that hold. If the context
// carries a hold of only some of them, the error satisfies errors.Is for [ErrInvalid], since LockAll might wait for
// that hold, which is the caller's own. Other errors are as from [Locker.Lock]; the errors of nodes say which name is
// taken, and nothing is left on the nodes.
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	return l.lockAll(ctx, names, true, opts)
}

// TryLockAll makes one attempt at all names, within the node timeout: see [Locker.TryLock].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	return l.lockAll(ctx, names, false, opts)
}

func (l *Locker) lockAll(ctx context.Context, names []string, wait bool, opts []LockOption) (*Lock, error) {
	if len(names) == 1 {
		return l.lock(ctx, acquisition{op: "lock", name: names[0], waits: wait, joins: true}, opts)
	}
	all, err := l.sortNames(names)
	if err != nil {
		return nil, notAcquiredError{&opError{op: "lock all", reason: err}}
	}
	want := acquisition{waits: wait, joins: true}.of(all, 0, len(names))
	if !wait {
		return l.call(ctx, want, opts, (*Locker).try)
	}
	return l.call(ctx, want, opts, (*Locker).waitAll)
}

// sortNames checks the names, and returns them sorted, with their keys.
func (l *Locker) sortNames(given []string) (*names, error) {
	switch {
	case len(given) == 0:
		return nil, invalid("no names")
	case len(given) > maxNames:
		return nil, invalid("%d names: at most %d", len(given), maxNames)
	}
	s := &names{list: slices.Clone(given), keys: make([]string, len(given)), hashes: make([]uint64, len(given))}
	slices.Sort(s.list)
	for i, name := range s.list {
		if i > 0 && name == s.list[i-1] {
			return nil, invalid("the name %q is given twice", name)
		}
		key, err := l.key(name)
		if err != nil {
			return nil, err
		}
		s.keys[i], s.hashes[i] = key, hashOf(key)
	}
	return s, nil
}

// of returns the acquisition of the names list[from:to].
func (want acquisition) of(s *names, from, to int) acquisition {
	want.op = "lock"
	if to == from+1 {
		want.name, want.key, want.names = s.list[from], s.keys[from], nil
		return want
	}
	part := &names{list: s.list[from:to], keys: s.keys[from:to], hashes: s.hashes[from:to]}
	want.name, want.names = strings.Join(part.list, ", "), part
	return want
}

// waitAll makes an attempt at all names, and if that fails waits for one name after the other.
func (l *Locker) waitAll(ctx context.Context, want acquisition) (*hold, error) {
	var last error
	since := l.tokens.time(l.opts.clock.now())
	for attempts := 1; ; attempts++ {
		var h *hold
		before := last
		if h, _, last = l.attempt(ctx, want); last == nil {
			return h, nil
		}
		last = lastFound(before, last)
		if err := l.over(ctx); err != nil {
			return nil, waitEnded(last, err)
		}
		want.observed.waiting(last)
		if h, err := l.acquireInOrder(ctx, want, last); h != nil || err != nil {
			return h, err
		}
		want.waitsSince = since
		if err := l.rest(ctx, want.opts.backoff(attempts)); err != nil {
			return nil, waitEnded(last, err)
		}
	}
}

// acquireInOrder acquires the names from the first to the last, and waits for each as for a single one. The results are
// holds like any other, which are renewed meanwhile. At the end one attempt takes over the locks of all of them, for
// one owner and a full TTL; only this hold is returned. last is why the attempt at all names has failed. If the attempt
// at the end fails, acquireInOrder returns neither a hold nor an error.
//
// Why no call waits for ever: a call that waits for a name holds no later name. So a call that holds the last name of
// all waits for nothing, and releases it; then the same is true of the name before it, and so on, down to the first.
// And each queue is first in, first out, while mere attempts at all names would find all of them free only by chance.
func (l *Locker) acquireInOrder(ctx context.Context, want acquisition, last error) (*hold, error) {
	all := want.names
	var steps []*hold
	defer func() {
		for _, h := range steps {
			h.discard(nil)
		}
	}()
	opts := *want.opts
	opts.renew, opts.maxHold, opts.value = true, 0, ""
	// A call that is stopped while it waits costs the others no more than any waiter: its names are leased, like a lock
	// that is handed over. Where the drift leaves too little of a lease, they have the TTL.
	leased := opts
	if leased.ttl = min(opts.ttl, l.opts.lease()); leased.check() == nil {
		opts = leased
	}
	step := acquisition{opts: &opts, waits: true, waitsSince: want.waitsSince}
	takeover := *all
	for next := 0; next < len(all.list); next = len(takeover.from) {
		// Names that seem to be free are taken at once, without waiting; but no name behind one that is taken.
		to := all.firstTaken(next, last)
		var h *hold
		if to > next {
			before := last
			if h, _, last = l.attempt(ctx, step.of(all, next, to)); last != nil {
				if err := l.over(ctx); err != nil {
					return nil, waitEnded(lastFound(before, last), err)
				}
				continue
			}
		} else {
			to = next + 1
			one := step.of(all, next, to)
			var err error
			if h, err = l.wait(ctx, one, nil, nil); err != nil { // what was found may be about the other names
				return nil, lastFound(last, aboutAll(err, want.name, one.name))
			}
			last = nil
		}
		h.watch(nil)
		steps = append(steps, h)
		for owner := any(h.owner.String()); len(takeover.from) < to; {
			takeover.from = append(takeover.from, owner)
		}
	}
	want.names = &takeover
	h, _, _ := l.attempt(ctx, want)
	return h, nil
}

// firstTaken returns the index of the first name, not before the index from, that a failed attempt found taken. It
// returns from if the attempt failed for another reason, and the number of names if it did not fail.
func (s *names) firstTaken(from int, failed error) int {
	var q *QuorumError
	if !errors.As(failed, &q) {
		return len(s.list)
	}
	first := len(s.list)
	for _, n := range q.Nodes {
		if i := slices.Index(s.list, n.Name); n.Outcome == outcomeTaken && i >= from {
			first = min(first, i)
		}
	}
	if first == len(s.list) {
		return from
	}
	return first
}

// aboutAll turns an error about one of the names into an error about all.
func aboutAll(err error, all, one string) error {
	var q *QuorumError
	if !errors.As(err, &q) {
		return err
	}
	e := *q
	e.Name, e.Nodes = all, ofName(q.Nodes, one)
	return &e
}
