package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/quorumlock/redlock/internal/protocol"
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
	return l.lockAll(ctx, names, plan{waits: true, joins: true}, opts)
}

// TryLockAll makes one attempt at all names, within the node timeout: see [Locker.TryLock].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	return l.lockAll(ctx, names, plan{joins: true}, opts)
}

func (l *Locker) lockAll(ctx context.Context, names []string, p plan, opts []LockOption) (*Lock, error) {
	if p.op = "lock"; len(names) == 1 {
		p.name = names[0]
		return l.lock(ctx, p, opts)
	}
	all, err := l.sortNames(names)
	if err != nil {
		return nil, notAcquiredError{&opError{op: "lock all", reason: err}}
	}
	p = p.of(all, 0, len(names))
	if !p.waits {
		return l.call(ctx, p, opts, (*Locker).try)
	}
	return l.call(ctx, p, opts, (*Locker).waitAll)
}

// sortNames checks the names, and returns them sorted, with their keys.
func (l *Locker) sortNames(given []string) (*protocol.Names, error) {
	switch {
	case len(given) == 0:
		return nil, invalid("no names")
	case len(given) > maxNames:
		return nil, invalid("%d names: at most %d", len(given), maxNames)
	}
	list, keys := slices.Sorted(slices.Values(given)), make([]string, len(given))
	for i, name := range list {
		if i > 0 && name == list[i-1] {
			return nil, invalid("the name %q is given twice", name)
		}
		key, err := l.key(name)
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	return protocol.NewNames(list, keys), nil
}

// of returns the plan for the names list[from:to].
func (p plan) of(s *protocol.Names, from, to int) plan {
	p.op = "lock"
	if to == from+1 {
		p.name, p.key, p.names, p.mode = s.List[from], s.Key(from), nil, exclusive
		return p
	}
	p.names, p.mode = s.Part(from, to), several
	p.name = strings.Join(p.names.List, ", ")
	return p
}

// waitAll makes an attempt at all names, and if that fails waits for one name after the other.
func (l *Locker) waitAll(ctx context.Context, p plan) (*hold, error) {
	var last error
	since := l.tokens.time(l.opts.clock.now())
	for attempts := 1; ; attempts++ {
		got := l.attempt(ctx, p, giveUp)
		if got.hold != nil {
			return got.hold, nil
		}
		last = lastFound(last, got.err)
		if err := l.over(ctx); err != nil {
			return nil, waitEnded(last, err)
		}
		p.observed.waiting(last)
		if h, err := l.acquireInOrder(ctx, p, last); h != nil || err != nil {
			return h, err
		}
		p.since = since
		if err := l.rest(ctx, p.opts.backoff(attempts)); err != nil {
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
func (l *Locker) acquireInOrder(ctx context.Context, p plan, last error) (*hold, error) {
	all := p.names
	var steps []*hold
	defer func() {
		for _, h := range steps {
			h.discard()
		}
	}()
	opts := *p.opts
	opts.renew, opts.maxHold, opts.value = true, 0, ""
	// A call that is stopped while it waits costs the others no more than any waiter: its names are leased, like a lock
	// that is handed over. Where the drift leaves too little of a lease, they have the TTL.
	leased := opts
	if leased.ttl = min(opts.ttl, l.opts.lease()); leased.check() == nil {
		opts = leased
	}
	step := plan{opts: &opts, waits: true, since: p.since}
	takeover := *all
	for next := 0; next < len(all.List); next = len(takeover.From) {
		// Names that seem to be free are taken at once, without waiting; but no name behind one that is taken.
		to := firstTaken(all.List, next, last)
		var h *hold
		if to > next {
			got := l.attempt(ctx, step.of(all, next, to), giveUp)
			if got.err != nil {
				if err := l.over(ctx); err != nil {
					return nil, waitEnded(lastFound(last, got.err), err)
				}
				last = got.err
				continue
			}
			h, last = got.hold, nil
		} else {
			to = next + 1
			one := step.of(all, next, to)
			var err error
			if h, err = l.wait(ctx, one, nil, nil); err != nil { // what was found may be about the other names
				return nil, lastFound(last, aboutAll(err, p.name, one.name))
			}
			last = nil
		}
		h.begin(nil)
		steps = append(steps, h)
		for owner := h.owner.String(); len(takeover.From) < to; {
			takeover.From = append(takeover.From, owner)
		}
	}
	p.names = &takeover
	return l.attempt(ctx, p, giveUp).hold, nil
}

// firstTaken returns the index of the first name, not before the index from, that a failed attempt found taken. It
// returns from if the attempt failed for another reason, and the number of names if it did not fail.
func firstTaken(names []string, from int, failed error) int {
	var q *QuorumError
	if !errors.As(failed, &q) {
		return len(names)
	}
	first := len(names)
	for _, n := range q.Nodes {
		if i := slices.Index(names, n.Name); n.Outcome == outcomeTaken && i >= from {
			first = min(first, i)
		}
	}
	if first == len(names) {
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
