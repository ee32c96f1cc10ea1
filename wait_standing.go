package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Standing in the queue. The first request of a caller that will wait has the nodes that refuse it put it into their
// queues at once: so nobody who comes later is served before it, and it needs no second request to wait. It costs
// nothing while the lock is free, since the node makes the member of the queue itself, when it refuses.

// enter prepares the request r: a node that refuses it may hand over the lock a moment later.
func (h *hold) enter(r *round) {
	l := h.locker
	r.waits = true
	l.listeners.hear(l)
	l.listeners.expect(h.owner)
}

// setPlace sets the hold's place, unless that was done before: the token may have been raised since.
func (h *hold) setPlace() {
	if h.place == nowhere {
		h.place = h.queuedAs(h.opts.ttlArg)
	}
}

// entered follows the request r, which got the lock, until all nodes have answered.
func (h *hold) entered(r *round) {
	r.about, r.onDone = h, (*round).leaveQueues
}

// leaveQueues is run when all nodes have answered a request that stands, after it got the lock. If all that were asked
// granted, the hold is in no queue. Otherwise it leaves the queues at its end, as a hold does that was waited for:
// until then, a node that hands it the lock gives it one more vote. That vote must not be returned: an extension may
// have counted it.
func (r *round) leaveQueues() {
	h := r.about.(*hold)
	l := h.locker
	votes := quorum.Tally(r.votes.Load())
	queued := r.sentTo & (r.who(votes, quorum.Taken) | r.who(votes, quorum.Failed))
	if queued == 0 {
		l.listeners.forget(h.owner)
		return
	}
	place := h.queuedAs(r.args[1])
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ended := h.ended(); {
	case ended == nil || h.isKept():
		h.place = place
	case errors.Is(ended, ErrHandedOver): // grants are for the process that adopts it
		l.listeners.handOver(h.owner, h.until())
	case errors.Is(ended, ErrClosed):
	default:
		l.listeners.leave(h.owner)
		l.undoOwner(release, l.opts.prefix+h.name, h.owner, place, max(l.opts.ttl, placeLives), queued)
	}
}

// placeLives is how long the nodes keep a queue that nobody asks about, if the waiters' TTL is not longer: join.lua.
// It is more than a short TTL, so that clients that are slow for a while, because there are many of them, do not lose
// their places and ask for new ones.
const placeLives = 30 * time.Second

// returnGrant undoes a node's grant to a waiter that has given up.
func (l *Locker) returnGrant(node int, key string, owner uuid.UUID, shared bool) {
	k := release
	if shared {
		k = k.reader
	}
	l.undoOwner(k, key, owner, nowhere, max(l.opts.ttl, placeLives), quorum.Set(0).With(node))
}

// queuedAs returns the hold's member of the nodes' queues, with the TTL in ms.
func (h *hold) queuedAs(ttl any) string {
	token := fmt.Sprintf("%016d", h.token)
	if h.shared {
		token = readerToken
	}
	return fmt.Sprintf("%s %s %013d %s", h.owner, token, ttl, h.locker.listeners.channel)
}
