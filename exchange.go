package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// What a node's two goroutines do while it is connected: one writes, one reads.

// write sends what is queued, a batch at a time.
func (n *node) write(ctx context.Context, l *link) error {
	var out []*group
	args := make([]any, 0, 64)
	for {
		select {
		case <-n.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Let callers that are ready to run join the batch: at load this is the
		// difference between a system call for each request and one for dozens.
		runtime.Gosched()
		out = n.takeQueue(out[:0])
		for _, g := range out {
			args = g.send(l.wire, args)
		}
		if err := l.wire.flush(); err != nil {
			return err
		}
	}
}

// takeQueue moves the queue into flight, as groups, and returns these.
func (n *node) takeQueue(out []*group) []*group {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.flight.n
	for _, r := range n.queue {
		n.batch.add(r, &n.flight)
	}
	n.batch.close(&n.flight)
	clear(n.queue)
	n.queue = n.queue[:0]
	for i := before; i < n.flight.n; i++ {
		out = append(out, n.flight.at(i))
	}
	return out
}

// read gives each reply to the oldest group that waits for one.
func (n *node) read(l *link) error {
	var due []int // the requests that the reply answers: their index in the group
	for {
		reply, err := l.receive()
		if err != nil && !isServerError(err) {
			return err
		}
		n.mu.Lock()
		g := n.flight.peek()
		if g == nil {
			n.mu.Unlock()
			return errors.New("redlock: a reply that nobody asked for")
		}
		silent := !n.suspect.IsZero()
		n.suspect = time.Time{}
		from, to := g.read, len(g.requests)
		if g.kind.script == nil {
			to = from + 1
		}
		g.read++
		last := to == len(g.requests)
		if last {
			n.flight.pop()
		}
		again := saysNoScript(err)
		due = due[:0]
		for i := from; i < to; i++ {
			r := g.requests[i]
			if again && r.again() {
				n.queue = append(n.queue, r)
				g.requests[i] = nil
			} else if !r.voted {
				r.voted = true
				due = append(due, i)
			}
		}
		if n.draining {
			n.checkDrained()
		}
		n.mu.Unlock()
		if silent {
			n.announce()
		}

		abstains := n.standing.abstains.Load()
		for _, i := range due {
			a := g.answer(i, reply, err)
			if abstains != nil {
				n.ballot(abstains, g.requests[i].call, &a)
			}
			g.requests[i].answer(a)
		}
		for _, r := range g.requests[from:to] {
			if r != nil {
				r.call.release()
			}
		}
		if again {
			n.wakeWriter()
		}
		if last {
			n.mu.Lock()
			n.batch.put(g)
			n.mu.Unlock()
		}
		if losesRole(err) {
			return fmt.Errorf("no longer a master: %w", err)
		}
	}
}
