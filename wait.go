package redlock

import (
	"context"
	"strings"
)

// wait waits until the lock is held: first in this process's local queue, then, at the head of that, in the nodes'
// queues. last is the error of the attempt that failed before, or nil, and first the waiter that the nodes have put into
// their queues by it, or nil. More attempts would not help: after a split vote every client gives way to the oldest,
// while in a queue each waits its turn.
func (l *Locker) wait(ctx context.Context, want acquisition, last error, first *waiter) (*hold, error) {
	ended := l.ended(ctx)
	if !want.shared && ended == nil { // readers get the lock together, so each reader joins the nodes' queues itself
		line := l.local.Join(want.key)
		defer l.local.Leave(want.key)
		before := line.Note.Load()
		if !line.Turn.TryAcquire(1) {
			first.withdraw() // while it waited here, it could not use votes that the nodes hand it
			first, ended = nil, l.takeTurn(ctx, line.Turn)
			if found := line.Note.Load(); ended != nil && found != nil && found != before {
				last = nil // since the caller's own attempt
			}
		}
		if ended == nil {
			defer line.Turn.Release(1)
			want.head = &line.Note
			if last != nil {
				want.found(last)
			}
		}
	}
	if ended != nil {
		first.withdraw()
		if last == nil {
			last = l.notFirst(want.op, want.name, l.local.Note(want.key))
		}
		return nil, waitEnded(last, ended)
	}
	h, err := l.queue(ctx, want, last, first)
	if err == nil {
		want.found(nil)
	}
	return h, err
}

// notFirst returns the error of a caller that never sent a request, because other callers in this process were ahead.
// It is what the one at the head was told last, head. If that is nil, then because one of them just got the lock.
func (l *Locker) notFirst(op, name string, head *QuorumError) *QuorumError {
	const behind = "behind other callers in this process"
	if head != nil {
		e := *head
		e.Op, e.Name, e.ctx, e.detail = op, name, nil, strings.TrimPrefix(e.detail+"; "+behind, "; ")
		return &e
	}
	e := &QuorumError{Op: op, Name: name, reason: ErrTaken, detail: behind}
	e.measure(l.electorate, 0)
	for i, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeUnasked})
	}
	return e
}
