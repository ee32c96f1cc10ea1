package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// maxSeveral bounds how many names LockAll takes: a script that takes them runs on the node alone.
const maxSeveral = 64

// LockAll waits until all names are held, by one hold, and returns it: a node gives all of them or
// none in one step, so it takes one round trip where all are free. Nobody need name
// them in a certain order: overlapping sets cannot wait for each other. From 1 to 64
// different names are possible.
//
// The hold has one token, larger than the token of every earlier hold of each of the names. It
// is renewed, lost and unlocked as a whole: lost where so many nodes lack one or other of the names that no
// majority has them all.
//
// A call that has to wait holds nothing at first. It then waits for the names in the order of their bytes,
// each in the queue of all who want that one, and keeps those that it has got; so
// nobody starves, and others may find names taken before LockAll returns. With WithMaxAttempts(1) it
// asks once, for all; with n > 1, n times at most for all, and as often for each.
//
// Inside a context that carries a hold of all the names by the same Locker it joins that hold. Where
// the context carries a hold of some of them only, the error satisfies errors.Is
// for [ErrInvalid]: to wait might be to wait for oneself. Other errors are as from
// [Locker.Lock]; those of nodes say which name is taken, and nothing is left on the nodes.
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...Option) (*Lock, error) {
	if len(names) == 1 {
		return l.Lock(ctx, names[0], opts...)
	}
	all, err := l.sortNames(names)
	if err != nil {
		return nil, &opError{op: "lock all", reason: err}
	}
	w := all.request(0, len(names))
	w.joins = true
	return l.call(ctx, &w, opts, func(o *options) (*hold, error) { return l.waitAll(ctx, w, o) })
}

// several settles what is to be locked.
func (l *Locker) sortNames(given []string) (*names, error) {
	switch {
	case len(given) == 0:
		return nil, invalid("no names")
	case len(given) > maxSeveral:
		return nil, invalid("%d names: at most %d", len(given), maxSeveral)
	}
	s := &names{list: slices.Clone(given), keys: make([]string, len(given)), hashes: make([]uint64, len(given))}
	slices.Sort(s.list)
	for i, name := range s.list {
		if i > 0 && name == s.list[i-1] {
			return nil, invalid("the name %q stands there twice", name)
		}
		key, err := l.key(name)
		if err != nil {
			return nil, err
		}
		s.keys[i], s.hashes[i] = key, hashOf(key)
	}
	return s, nil
}

// wanted returns what an attempt at some of the names is about.
func (s *names) request(from, to int) acquireRequest {
	if to == from+1 {
		return acquireRequest{op: "lock", name: s.list[from], key: s.keys[from]}
	}
	part := &names{list: s.list[from:to], keys: s.keys[from:to], hashes: s.hashes[from:to]}
	return acquireRequest{op: "lock", name: strings.Join(part.list, ", "), names: part}
}

// covers reports whether some of the names of a want, and whether all of them, are held.
func (h *hold) covers(w *acquireRequest) (some, all bool) {
	if w.names == nil {
		has := h.has(w.name)
		return has, has
	}
	all = true
	for _, name := range w.names.list {
		has := h.has(name)
		some, all = some || has, all && has
	}
	return some, all
}

func (h *hold) has(name string) bool {
	return h.names == nil && name == h.name || h.names != nil && slices.Contains(h.names.list, name)
}

// waitAll asks for all names at once, and where that fails waits for one after the other.
func (l *Locker) waitAll(ctx context.Context, w acquireRequest, o *options) (*hold, error) {
	var last error
	for attempts := 1; ; attempts++ {
		var h *hold
		if h, last = l.attempt(ctx, w, o); last == nil || attempts == o.maxAttempts {
			return h, last
		}
		if err := l.ended(ctx); err != nil {
			return nil, waitEnded(last, err)
		}
		if h, err := l.inOrder(ctx, w, o, last); h != nil || err != nil {
			return h, err
		}
		if err := l.rest(ctx, o.backoff(attempts)); err != nil {
			return nil, waitEnded(last, err)
		}
	}
}

// inOrder wins the names from the first to the last, and waits for each as for a single one. What it has won are
// holds like any other, which are renewed meanwhile. At the end one attempt
// takes all locks over from them, for one owner and a full TTL; only that counts. last is why the
// attempt at all has failed. It returns neither a hold nor an error where that last step was for nothing.
//
// Why nobody waits for ever: whoever waits for a name holds none behind it. So who has the last
// name of all waits for nobody, and goes; and so on, down to the first. And each queue
// is first in, first out, while mere attempts at all would find a name free but by chance.
func (l *Locker) inOrder(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	all := w.names
	var won []*hold
	defer func() {
		for _, h := range won {
			h.discard()
		}
	}()
	passing := *o
	passing.renew, passing.maxHold = true, 0
	whole := *all
	for at := 0; at < len(all.list); at = len(whole.from) {
		// What seems free needs no waiting, and is taken at once; but none behind a name that is not.
		to := all.firstTaken(at, last)
		var h *hold
		if to > at {
			if h, last = l.attempt(ctx, all.request(at, to), &passing); last != nil {
				if err := l.ended(ctx); err != nil {
					return nil, waitEnded(last, err)
				}
				continue
			}
		} else {
			to = at + 1
			one := all.request(at, to)
			var err error
			if h, err = l.wait(ctx, one, &passing, last); err != nil {
				return nil, about(err, w.name, one.name)
			}
			last = nil
		}
		h.watch(nil)
		won = append(won, h)
		for owner := any(h.owner.String()); len(whole.from) < to; {
			whole.from = append(whole.from, owner)
		}
	}
	w.names = &whole
	h, _ := l.attempt(ctx, w, o)
	return h, nil
}

// firstTaken returns the first name, from one on, that a failed attempt found taken; that one
// itself where it failed otherwise, and the number of names where it did not fail.
func (s *names) firstTaken(from int, failed error) int {
	var q *QuorumError
	if !errors.As(failed, &q) {
		return len(s.list)
	}
	first := len(s.list)
	for _, n := range q.Nodes {
		if i := slices.Index(s.list, n.Name); n.Outcome == OutcomeTaken && i >= from {
			first = min(first, i)
		}
	}
	if first == len(s.list) {
		return from
	}
	return first
}

// about makes of an error about one of several names an error about all.
func about(err error, all, one string) error {
	var q *QuorumError
	if !errors.As(err, &q) {
		return err
	}
	e := *q
	e.Name, e.Nodes = all, slices.Clone(q.Nodes)
	for i := range e.Nodes {
		if n := &e.Nodes[i]; n.Outcome == OutcomeTaken && n.Name == "" {
			n.Name = one
		}
	}
	return &e
}
