package redlock

import (
	"context"
)

// wait stands in line: with others of this process first, and with other processes when it is the turn. Readers get
// their turns together, so each stands in the nodes' queues itself. last is why an attempt has failed, if there was
// one. Another attempt would be of no use: after a split vote everyone gives way to the oldest, while in a queue each
// waits its turn.
func (l *Locker) wait(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	if l.ended(ctx) != nil {
		return nil, l.endedInLine(ctx, w.op, w.name, last)
	}
	if w.shared {
		return l.queue(ctx, w, o, last)
	}
	return l.stand(ctx, w, o, last)
}

// stand waits in line, and at its head in the nodes' queues. last is why an attempt has failed, if there was one.
func (l *Locker) stand(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	if !l.lines.enter(ctx, l.ctx.Done(), w.key) {
		return nil, l.endedInLine(ctx, w.op, w.name, last)
	}
	defer l.lines.leave(w.key)
	if l.ended(ctx) != nil { // as it did for who was before us, and made room
		return nil, l.endedInLine(ctx, w.op, w.name, last)
	}
	return l.queue(ctx, w, o, last)
}

// endedInLine is the error of who stood in line to the end.
func (l *Locker) endedInLine(ctx context.Context, op, name string, last error) error {
	if last == nil {
		last = l.inLine(op, name)
	}
	return waitEnded(op, name, last, l.ended(ctx))
}

// inLine is the reason for who never got to ask the nodes: others of this process did, and wait.
func (l *Locker) inLine(op, name string) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: l.need, reason: ErrTaken, detail: "others in this process were first"}
	for _, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), Outcome: OutcomeLate})
	}
	return e
}
