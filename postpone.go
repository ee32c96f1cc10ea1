package redlock

import (
	"slices"
	"time"
)

// An undo that a node refuses for the time being is asked again until what it undoes has ended by itself: else the lock
// would stay for the rest of its TTL. Its vote is cast by then, as a failure, so nobody waits for it. A release cannot come too late:
// owners are drawn anew for each hold and each place in a queue, and an undo is the last that is asked for one. A revert can:
// behind the release of the owner that it gives the lock back to, it keeps the name taken for the rest of the TTL, and no longer.
// What is delivered (see [job.deliver]) undoes nothing, and what it carries ends by itself, too: after hours at times.

const (
	undoAgainAfter = 250 * time.Millisecond
	maxPostponed   = maxQueue / 8 // undos: at load, more would keep a node busy that is anyway
)

// passes reports whether the error says that the node did nothing, for a reason that may be over soon.
func passes(err error) bool {
	return err != nil && slices.Contains([]string{"BUSY", "LOADING", "MISCONF", "NOREPLICAS", "OOM"}, codeOf(err.Error()))
}

// postpone keeps an undo that was refused, and reports whether it did: the node then holds the call as before.
func (n *node) postpone(r *request) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !r.call.kind.undo || n.draining || len(n.postponed) >= maxPostponed {
		return false
	}
	if len(n.postponed) == 0 {
		n.retry.Reset(undoAgainAfter)
	}
	n.postponed = append(n.postponed, r)
	return true
}

// askAgain queues what was postponed, as far as there is still something to undo.
func (n *node) askAgain() {
	n.mu.Lock()
	n.resume()
	n.mu.Unlock()
	n.wakeWriter()
}

// resume is called with mu held.
func (n *node) resume() {
	now := n.opts.clock.local()
	n.queue = append(n.queue, keep(n.postponed, func(r *request) bool { return !r.call.moot(now) })...)
	clear(n.postponed)
	n.postponed = n.postponed[:0]
}
