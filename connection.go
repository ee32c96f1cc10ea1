package redlock

import (
	"context"
	"fmt"
	"time"
)

func (n *node) connected(l *link) {
	n.mu.Lock()
	n.link, n.down, n.suspect = l, nil, time.Time{}
	n.queue = keep(n.queue, func(r *request) bool { return !r.call.moot(n.opts.clock.local()) })
	n.mu.Unlock()
	n.wakeWriter() // for the undos
	n.report()
}

func (n *node) isConnected() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.link != nil
}

// disconnected fails everything that was asked and not answered: it may have
// been applied or not. Nothing is sent again but undos, which do no harm twice.
func (n *node) disconnected(err error) {
	n.peers.leave(n)
	var unanswered []*request
	n.mu.Lock()
	n.link, n.down, n.suspect = nil, fmt.Errorf("%w: %w", ErrNodeDown, err), time.Time{}
	undos := make([]*request, 0, len(n.queue))
	now := n.opts.clock.local()
	collect := func(r *request) {
		if !r.voted {
			r.voted = true
			r.call.holders.Add(1)
			unanswered = append(unanswered, r)
		}
		if r.call.kind.undo && !r.call.moot(now) {
			undos = append(undos, r)
			return
		}
		r.call.release()
	}
	n.eachRequest(collect)
	n.flight, n.queue = groups{}, undos
	if n.draining {
		n.checkDrained()
	}
	down := n.down
	n.mu.Unlock()
	for _, r := range unanswered {
		r.fail(down)
		r.call.release()
	}
	if n.ctx.Err() == nil {
		n.report()
	}
}

// eachRequest visits all requests that are unanswered, in order. Called with mu held.
func (n *node) eachRequest(visit func(*request)) {
	for i := range n.flight.n {
		g := n.flight.at(i)
		for _, r := range g.requests[g.read:] {
			visit(r)
		}
	}
	for _, r := range n.queue {
		visit(r)
	}
}

// checkDrained is called with mu held while draining.
func (n *node) checkDrained() {
	if (n.link == nil || len(n.queue)+n.flight.total == 0) && !isClosed(n.drained) {
		close(n.drained)
	}
}

// drain stops taking requests and returns when none is unanswered, at the latest when
// ctx is done.
func (n *node) drain(ctx context.Context) {
	n.mu.Lock()
	n.draining = true
	n.resume() // for the last time
	n.checkDrained()
	n.mu.Unlock()
	n.wakeWriter()
	select {
	case <-n.drained:
	case <-ctx.Done():
	}
}

// close ends the connection and waits for the node's goroutines.
func (n *node) close() {
	n.cancel()
	<-n.stopped
	n.watchdog.Stop()
	n.retry.Stop()
}
