package redlock

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/quorum"
)

// What was asked of the nodes is taken back here: after a failed attempt, at a hold's end, and when a node gives
// something to an owner that has given up. An undo follows what it undoes on the same connection, so each node executes
// the two in this order, however late its answers are.

// undo releases what a hold may have on the nodes, or gives it back to the owner from which it was to be adopted. It
// does not wait.
func (l *Locker) undo(h *hold, nodes quorum.Set) {
	if nodes == 0 {
		return
	}
	k := release
	if h.tenure.want.from != nil {
		k = revert
	}
	r := l.askFor(k, h)
	now := l.opts.clock.local()
	r.expires = now.Add(h.tenure.want.opts.ttl)
	r.send(l.nodes, nodes, now)
	r.Done()
	if k == revert && h.tenure.extended { // its value is there still
		h.tenure.want.from = nil
		l.undo(h, nodes)
	}
	h.tenure.undoFormer(l)
}

// undoFormer releases what the owner that was replaced by Adopt has left: its value, and keys that it got back.
func (t *tenure) undoFormer(l *Locker) {
	if t.former != uuid.Nil {
		l.undoOwner(release, t.want.key, t.former, noMember, t.want.opts.ttl, t.asked)
	}
}

// undoOwner releases, by k, a key and a member of its queue under an owner that has no hold in this process, and does
// not wait. After ttl the release is not sent any more, since the key has then expired.
func (l *Locker) undoOwner(k *command, key string, owner uuid.UUID, member any, ttl time.Duration, nodes quorum.Set) {
	r := l.rounds.Get().(*round)
	r.set(k, key, owner, 0)
	r.args[1], r.args[2] = member, untold
	now := l.opts.clock.local()
	r.expires = now.Add(ttl)
	r.send(l.nodes, nodes, now)
	r.Done()
}

// release sends the round r, which releases the lock, and waits for a majority to confirm it.
func (h *hold) release(r *round, t *tenure, now time.Time) error {
	l := h.locker
	t.undoFormer(l)
	defer r.Done()
	r.expires = now.Add(t.want.opts.ttl)
	r.send(l.nodes, t.asked, now)
	<-r.wake // after the node timeout at the latest: see round.wait
	votes := r.poll.SoFar()
	if votes.Verdict() == quorum.Won {
		return nil
	}
	return r.failure("unlock", h.name, ErrLost, votes, nil)
}

var errDiscarded = errors.New("discarded")

// discard ends a hold that has no handle, and releases it on the nodes even if Close has ended it before. A hold that
// was adopted from an owner goes back to it; nil: it was not.
func (h *hold) discard(from any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenure.want.from, h.tenure.former = from, uuid.Nil
	if ended := h.ended(); ended == nil {
		h.finish(errDiscarded, true)
	} else if errors.Is(ended, ErrClosed) {
		h.locker.undo(h, h.tenure.asked)
	}
}

// withdraw gives up a hold that was not handed out, whether or not it has a majority: it leaves the queues on the nodes
// and gives back the votes that it has.
func (h *hold) withdraw() {
	h.locker.listeners.leave(h.owner)
	h.locker.undo(h, h.tenure.asked)
}

// letGo releases a hold that the nodes keep beyond its end, and does not wait. The caller holds mu.
func (h *hold) letGo() {
	if h.unkeep() {
		h.locker.undo(h, h.tenure.asked)
	}
}

// queueLives is how long the nodes keep a queue that nobody asks about, if the waiters' TTL is not longer: join.lua.
// It is more than a short TTL, so that clients that are slow for a while, because there are many of them, do not lose
// their places and ask for new ones.
const queueLives = 30 * time.Second

// returnGrant undoes a node's grant to a waiter that has given up.
func (l *Locker) returnGrant(node int, key string, owner uuid.UUID, shared bool) {
	k := release
	if shared {
		k = k.reader
	}
	l.undoOwner(k, key, owner, noMember, max(l.opts.ttl, queueLives), quorum.Set(0).With(node))
}
