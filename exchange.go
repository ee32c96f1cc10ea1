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
	for {
		select {
		case <-n.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Let callers that are ready to run join the batch: at load this is the
		// difference between a system call for each request and one for dozens. Twice, since the
		// scheduler lets the goroutine that was woken last run next of all: of five writers
		// one sent three times as many batches as the others.
		runtime.Gosched()
		runtime.Gosched()
		out = n.takeQueue(out[:0])
		for _, g := range out {
			g.send(l.wire)
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
	var got []reply
	var done answered
	for {
		var err error
		if got, err = l.replies.take(got[:0]); err != nil {
			return err
		}
		n.mu.Lock()
		done.giveBack(&n.batch)
		silent := !n.suspect.IsZero()
		n.suspect = time.Time{}
		queued := len(n.queue)
		for _, r := range got {
			if !n.match(r, &done) {
				err = errors.New("redlock: a reply that nobody asked for")
				break
			}
		}
		again := len(n.queue) > queued
		if n.draining {
			n.checkDrained()
		}
		n.mu.Unlock()
		if silent {
			n.announce()
		}
		n.castAll(done.votes)
		if again {
			n.wakeWriter()
		}
		for _, r := range got {
			if err == nil && losesRole(r.err) {
				err = fmt.Errorf("no longer a master: %w", r.err)
			}
		}
		if err != nil {
			return err
		}
	}
}

// answered is what came of the replies that were read together.
type answered struct {
	votes  []share
	groups []*group // that have got all their replies
}

// share is a reply as far as it is about one request.
type share struct {
	group *group
	index int  // of the request, in the group
	first bool // the request has not been given up meanwhile
	reply
}

// match finds out whom a reply is for. It reports false where it is for nobody. Called with mu held.
func (n *node) match(r reply, to *answered) bool {
	g := n.flight.peek()
	if g == nil {
		return false
	}
	from, until := g.read, len(g.requests)
	if g.kind.script == nil {
		until = from + 1
	}
	g.read++
	if until == len(g.requests) {
		n.flight.pop()
		to.groups = append(to.groups, g)
	}
	again := saysNoScript(r.err)
	for i := from; i < until; i++ {
		asked := g.requests[i]
		if again && asked.again() {
			n.queue = append(n.queue, asked)
			continue
		}
		to.votes = append(to.votes, share{g, i, !asked.voted, r})
		asked.voted = true
	}
	return true
}

// castAll casts the votes, and then lets go of the calls: to find its own part of a reply, a request looks at those
// before it.
func (n *node) castAll(votes []share) {
	abstains := n.standing.abstains.Load()
	for i := range votes {
		v := &votes[i]
		if !v.first {
			continue
		}
		r := v.group.requests[v.index]
		a := v.group.answer(v.index, v.value, v.err)
		if abstains != nil {
			n.ballot(abstains, r.call, &a)
		}
		r.answer(a)
	}
	for i := range votes {
		v := &votes[i]
		if r := v.group.requests[v.index]; !passes(v.err) || !n.postpone(r) {
			r.call.release()
		}
	}
}

// giveBack clears for the next replies. Called with the node's mu held.
func (d *answered) giveBack(b *batch) {
	for _, g := range d.groups {
		b.put(g)
	}
	clear(d.votes)
	d.votes, d.groups = d.votes[:0], d.groups[:0]
}
