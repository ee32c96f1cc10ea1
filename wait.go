package redlock

import (
	"context"
	"errors"
	"fmt"
)

// wait stands in line: with others of this process first, and with other processes when it is the turn. Readers get
// their turns together, so each stands in the nodes' queues itself. last is why an attempt has failed, if there was
// one. Another attempt would be of no use: after a split vote everyone gives way to the oldest, while in a queue each
// waits its turn.
func (l *Locker) wait(ctx context.Context, w wanted, o *options, last error) (*hold, error) {
	if l.ended(ctx) != nil {
		return nil, l.endedInLine(ctx, w, last)
	}
	if w.shared {
		return l.queue(ctx, w, o, last)
	}
	return l.stand(ctx, w, o, last)
}

// stand waits in line, and at its head in the nodes' queues. last is why an attempt has failed, if there was one.
func (l *Locker) stand(ctx context.Context, w wanted, o *options, last error) (*hold, error) {
	if !l.lines.enter(ctx, l.ctx.Done(), w.key) {
		return nil, l.endedInLine(ctx, w, last)
	}
	defer l.lines.leave(w.key)
	if l.ended(ctx) != nil { // as it did for who was before us, and made room
		return nil, l.endedInLine(ctx, w, last)
	}
	return l.queue(ctx, w, o, last)
}

// endedInLine is the error of who stood in line to the end.
func (l *Locker) endedInLine(ctx context.Context, w wanted, last error) error {
	if last == nil {
		last = l.inLine(w)
	}
	return l.waitEnded(w, last, l.ended(ctx))
}

// inLine is the reason for who never got to ask the nodes: others of this process did, and wait.
func (l *Locker) inLine(w wanted) *QuorumError {
	e := &QuorumError{Op: w.op, Name: w.name, Need: l.need, reason: ErrTaken, detail: "others in this process were first"}
	for _, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), Outcome: OutcomeLate})
	}
	return e
}

// waitEnded is the error where a wait was ended: what the last attempt said and why there is no other.
func (l *Locker) waitEnded(w wanted, last, ended error) error {
	var q *QuorumError
	if errors.As(last, &q) {
		with := *q
		with.ctx = ended
		return &with
	}
	return failed(w.op, w.name, ended)
}

// ended returns why nobody waits any longer: ErrClosed, or ctx's error.
func (l *Locker) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx, ctx.Err())
}

// endOf adds the cause that ctx was cancelled with, if there is one, to its error.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
