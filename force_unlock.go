package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
)

// ForceUnlock takes the lock of the name from owner, which need not be an owner of this Locker, and hands it to the
// client that has waited longest. It is for an administrator who knows that a holder is stuck although its process
// renews the hold. A holder that has crashed needs no such help: its lock is free when its TTL is over. owner is
// [Inspection.Owner], or one of [Inspection.Readers]. If another owner has the lock by now, nothing is taken from it.
//
// The holder learns of it with its next renewal, or with its next [Lock.Extend]: at the latest when its validity ends,
// which is the TTL at most. Until then it works on, next to the new holder. A resource that checks fencing tokens
// refuses the former holder as soon as it has seen the new holder's token, which is larger. Nothing protects any other
// resource: make sure first that the holder does no harm.
//
// When ForceUnlock returns nil, a majority of the nodes does not have the lock under owner any more. Unless they lose
// their data, these nodes also give owner nothing more for a minute, or two periods of [WithRestartGuard] if that is
// longer: no extension, no place in a queue, and no grant, even to a request that was under way. There is one
// exception: a late request [WithoutFencing] may still set a key that is free, for its TTL; it is not extended. A
// caller that only waited under owner goes on waiting, under a new one. Nodes that were out of reach keep the lock for
// the rest of its TTL, or for as long as the holder extends it there; they are too few for a hold. If too few nodes
// answer, the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum]: then the lock may be taken from
// owner all the same, if it had no more nodes than it needed. An unsuitable name or owner is an [ErrInvalid].
func (l *Locker) ForceUnlock(ctx context.Context, name, owner string) error {
	key, err := l.heldKey(name)
	switch {
	case err != nil:
	case owner == "" || len(owner) > maxOwner || slices.Contains(noOwners, owner):
		err = invalid("the owner %q: want what Inspect reports as Owner, or one of Readers", owner)
	default:
		err = l.begin(ctx)
	}
	if err != nil {
		return failed("force-unlock", name, err)
	}
	defer l.calls.end()
	r := l.rounds.Get().(*round)
	r.set(revoke, key, uuid.Nil, 0)
	r.args[0], r.args[1] = owner, l.revokedFor().Milliseconds()
	r.poll.Everyone = true // the other nodes should not keep it longer than need be
	r.send(l.nodes, l.electorate.All, l.opts.clock.local())
	votes, err := r.wait(ctx)
	defer r.abandon()
	if votes.Verdict() == quorum.Won {
		return nil
	}
	if err != nil {
		err = endOf(ctx, err)
	}
	return r.failure("force-unlock", name, ErrNoQuorum, votes, err)
}

// noOwners are what nodes have in an owner's place while there are readers: see readers.lua.
var noOwners = []string{quorum.Marker, "unknown", "writer"}

// maxOwner is the longest owner, in bytes. Ours have 36; other clients of the nodes may have others.
const maxOwner = 128

// revoke takes a lock from an owner. What it does is no vote on a hold, so it counts on abstaining nodes, too.
var revoke = script(command{read: readRevoke, trust: guard.TrustAll}, rows(2), "revoked", "readers", "queue", "revoke")

// readRevoke reads the reply: either way the node does not have the lock under that owner.
func readRevoke(reply any) quorum.Answer {
	switch reply {
	case int64(1), int64(0):
		return quorum.Answer{Vote: quorum.Granted}
	}
	return badReply
}

// revokedFor returns for how long the nodes refuse an owner that was revoked: until its holder has learnt of
// that, and nothing that it has sent before can be on its way. No TTL is longer than the guard, unless that is off.
func (l *Locker) revokedFor() time.Duration {
	return max(time.Minute, 2*l.opts.guard, 2*l.opts.ttl)
}
