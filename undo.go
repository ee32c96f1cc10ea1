package redlock

import (
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
)

// What was asked of the nodes is taken back here: after a failed attempt, at a hold's end, and when a node gives
// something to an owner that has given up. An undo follows what it undoes on the same connection, so each node executes
// the two in this order, however late its answers are.

// undo takes back what the attempt may have on nodes: votes, places in queues, its value. What was to be adopted goes
// back to its owner. It does not wait.
func (a *attempt) undo(nodes quorum.Set) {
	a.leaveQueues()
	if a.plan.mode == adopted {
		a.sendUndo(protocol.Revert, nodes)
		if !a.extended {
			return
		}
		// its value is there still
	}
	a.sendUndo(protocol.Release, nodes)
}

// release releases what a hold has on the nodes, and does not wait.
func (a *attempt) release() {
	a.leaveQueues()
	a.sendUndo(protocol.Release, a.asked)
	a.releaseFormer()
}

// leaveQueues has grants that come from now on returned. Its places in the queues end with the release.
func (a *attempt) leaveQueues() {
	if a.member != "" {
		a.locker.listeners.leave(a.owner)
	}
}

// releaseFormer releases what the owner that was replaced by Adopt has left: its value, and keys that it got back, as a
// concurrent Adopt that failed may have restored it on some nodes.
func (a *attempt) releaseFormer() {
	if a.plan.mode == adopted {
		a.locker.undoOwner(protocol.Release, a.plan.key, a.plan.former, "", a.plan.opts.ttl, a.asked)
	}
}

func (a *attempt) sendUndo(k *protocol.Command, nodes quorum.Set) {
	if nodes == 0 {
		return
	}
	r, now := a.round(k), a.locker.opts.clock.local()
	r.Expires = now.Add(a.plan.opts.ttl)
	r.send(a.locker.nodes, nodes, now)
	r.Done()
}

// undoOwner releases, by k, a key and a member of its queue under an owner that has no hold in this process, and does
// not wait. After ttl the release is not sent any more, since the key has then expired.
func (l *Locker) undoOwner(
	k *protocol.Command, key string, owner uuid.UUID, member string, ttl time.Duration, nodes quorum.Set,
) {
	r := l.rounds.Get().(*round)
	r.About(k, key)
	r.Owner, r.Member, r.Extended = owner, member, true
	now := l.opts.clock.local()
	r.Expires = now.Add(ttl)
	r.send(l.nodes, nodes, now)
	r.Done()
}

// queueLives is how long the nodes keep a queue that nobody asks about, if the waiters' TTL is not longer: join.lua.
// It is more than a short TTL, so that clients that are slow for a while, because there are many of them, do not lose
// their places and ask for new ones.
const queueLives = 30 * time.Second

// returnGrant undoes a node's grant to a waiter that has given up.
func (l *Locker) returnGrant(node int, g protocol.Message) {
	k := protocol.Release
	if g.Shared {
		k = k.Reader
	}
	l.undoOwner(k, g.Key, g.Owner, "", max(l.opts.ttl, queueLives), quorum.Set(0).With(node))
}
