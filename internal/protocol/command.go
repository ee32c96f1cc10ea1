// Package protocol is what nodes are asked about locks, and what they answer: one command for each step, with the
// arguments that it takes from a request, and the reader of its reply. What a script does, and what its arguments and
// replies are, is in the head of its file in package lua; docs/protocol.md has the whole.
//
// It knows requests and answers, and no rounds: not who asks, when, or what follows.
package protocol

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// The commands. Of several requests in one call of a script, each has a row, unless the function says otherwise.
var (
	AcquirePlain = &Command{native: set, read: readSet, Reader: Read}
	Acquire      = script(Command{read: readAcquire}, columns,
		"revoked", "usual", "label", "readers", "propose", "queue", "watchers", "join", "acquire")
	// AcquireOrQueue is Acquire with a channel: a node that refuses puts the caller into its queue.
	AcquireOrQueue = &Command{Command: Acquire.Command, read: Acquire.read}
	AcquireAll     = script(Command{read: readAcquire}, rowsOfNames, "revoked", "label", "watchers", "acquire_all")
	Adopt          = script(Command{read: readAcquire}, rows((*Request).adopt), "revoked", "label", "watchers", "adopt")
	Enqueue        = script(Command{read: readAcquire, Reader: Read}, rows((*Request).enqueue), queueing("enqueue")...)
	Raise          = script(Command{read: readAcquire}, rows((*Request).propose), "propose", "watchers", "raise")
	// LastRaise goes to nodes that have told their token once. They know no larger one when asked again: while the lock is
	// ours, nobody else's is accepted. The nearest node could have each attempt raise its token without end.
	LastRaise = &Command{Command: Raise.Command, read: readLastRaise}
	Extend    = urgent(Command{read: readExtend, Trust: guard.TrustOurs, Reader: KeepReading}, rowsThenValues,
		"revoked", "watchers", "value", "extend")
	Release = undo(Command{read: readRelease, Reader: StopReading}, toRelease,
		"free", "readers", "propose", "queue", "watchers", "value", "release")
	Revert = undo(Command{}, rows((*Request).revert), "revoked", "readers", "propose", "queue", "watchers", "revert")

	Read        = script(Command{read: readShared}, rows((*Request).join), queueing("read")...)
	KeepReading = urgent(Command{read: readExtend, Trust: guard.TrustOurs}, rows((*Request).keep),
		"revoked", "readers", "keep_reading")
	StopReading = undo(Command{read: readRelease}, rows((*Request).leave),
		"readers", "propose", "queue", "watchers", "stop_reading")

	// Once writes a register. A node accepts that only while the writer's owner has the lock there, so never too late.
	Once = script(Command{read: readOnce}, rows((*Request).entry), "register", "once")
	// Deliver is Once for an entry that a majority has: a node accepts it from any client.
	Deliver = delivering(Once)

	// Revoke takes a lock from an owner. What it does is no vote on a hold, so it counts on abstaining nodes, too.
	Revoke = script(Command{read: readRevoke, Trust: guard.TrustAll}, rows((*Request).revoke),
		"revoked", "readers", "propose", "queue", "watchers", "value", "revoke")
	Inspect = script(Command{read: readInspect, tells: true}, rows((*Request).look),
		"register", "label", "value", "watchers", "inspect")
	Survey = script(Command{read: readSurvey, tells: true}, rows((*Request).survey),
		"readers", "propose", "queue", "survey")
)

// queueing returns the files of a script that may put its caller into a queue.
func queueing(name string) []string {
	return []string{"revoked", "label", "readers", "propose", "queue", "watchers", "join", name}
}

// Scripts are the scripts of all commands.
func Scripts() []*lua.Script {
	var all []*lua.Script
	for _, k := range []*Command{
		Acquire, Raise, Extend, Release, Adopt, Revert, AcquireAll, Enqueue, Read, KeepReading, StopReading,
		Inspect, Revoke, Once, Survey,
	} {
		all = append(all, k.Script)
	}
	return all
}

// encoder appends the arguments of all requests that one call of a script carries.
type encoder = func(all []*redisconn.Request, e *resp.Encoder)

// script returns the command whose script is the files, one after the other. The set of tokens is its last key.
func script(k Command, args encoder, files ...string) *Command {
	k.Script, k.Args, k.ExtraKey = lua.Load(files...), args, true
	return &k
}

// urgent returns a script that holds depend on: it goes before what others wait for.
func urgent(k Command, args encoder, files ...string) *Command {
	k.Urgent = true
	return script(k, args, files...)
}

// undo returns a script that must reach each node that may have done what it undoes. No vote is a grant, so all count.
func undo(k Command, args encoder, files ...string) *Command {
	k.Undo, k.Trust = true, guard.TrustAll
	return script(k, args, files...)
}

func delivering(once *Command) *Command {
	k := *once
	k.Undo, k.BestEffort, k.Trust = true, true, guard.TrustAll
	return &k
}

// set encodes SET key owner NX PX TTL.
func set(q *Request, b []byte) []byte {
	b = append(append(append(b, "*6\r\n$3\r\nSET\r\n"...), q.Keys...), q.ownerForm[:]...)
	var digits [20]byte
	ttl := strconv.AppendInt(digits[:0], q.TTL.Milliseconds(), 10)
	return resp.AppendBulk(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), ttl)
}

// AboutRevoking is About for what takes a lock from an owner, to whom nothing is given for so long.
func (q *Request) AboutRevoking(key, owner string, refused time.Duration) {
	q.About(Revoke, key)
	q.From, q.TTL = owner, refused
}

// Each of these appends a request's arguments, once for each of its keys.

func (q *Request) keep(e *resp.Encoder)    { q.argOwner(e); q.argTTL(e) }
func (q *Request) propose(e *resp.Encoder) { q.keep(e); q.argToken(e) }
func (q *Request) adopt(e *resp.Encoder)   { q.propose(e); e.ArgString(q.From) }
func (q *Request) enqueue(e *resp.Encoder) { q.propose(e); e.ArgString(q.Member) }
func (q *Request) join(e *resp.Encoder)    { q.keep(e); e.ArgString(q.Member) }
func (q *Request) leave(e *resp.Encoder)   { q.argOwner(e); e.ArgString(q.Member) }
func (q *Request) revert(e *resp.Encoder)  { q.argOwner(e); e.ArgString(q.From) }
func (q *Request) revoke(e *resp.Encoder)  { e.ArgString(q.From); q.argTTL(e) }
func (q *Request) look(e *resp.Encoder)    { e.ArgString(q.Channel) }
func (q *Request) survey(e *resp.Encoder)  { e.ArgInt(int64(q.Slots)) }

func (q *Request) entry(e *resp.Encoder) {
	q.argOwner(e)
	e.ArgString(q.Value)
	q.argTTL(e)
	e.ArgInt(q.End)
}

// rows encodes a row of arguments for each key.
func rows(row func(*Request, *resp.Encoder)) encoder {
	return func(all []*redisconn.Request, e *resp.Encoder) {
		for _, r := range all {
			q := of(r)
			for range q.Hashes {
				row(q, e)
			}
		}
	}
}

// rowsThenValues encodes rows, and then, if any request has one, for each key the value of its request.
func rowsThenValues(all []*redisconn.Request, e *resp.Encoder) {
	rows((*Request).propose)(all, e)
	if slices.ContainsFunc(all, func(r *redisconn.Request) bool { return of(r).Value != "" }) {
		rows(func(q *Request, e *resp.Encoder) { e.ArgString(q.Value) })(all, e)
	}
}

// rowsOfNames encodes, for each request, its owner, TTL and token, the number of its keys, the number of owners to take
// over from, and these owners. A request with a single key is the second about it: it takes over from its own owner.
func rowsOfNames(all []*redisconn.Request, e *resp.Encoder) {
	for _, r := range all {
		q := of(r)
		q.propose(e)
		if q.Names == nil {
			e.ArgInt(1)
			e.ArgInt(1)
			q.argOwner(e)
			continue
		}
		e.ArgInt(int64(len(q.Names.keys)))
		e.ArgInt(int64(len(q.Names.From)))
		for _, owner := range q.Names.From {
			e.ArgString(owner)
		}
	}
}

// columns encodes all owners, each token with its key, the TTLs, a single one if all are the same, and the channel.
func columns(all []*redisconn.Request, e *resp.Encoder) {
	for _, r := range all {
		of(r).argOwner(e)
	}
	first, same := of(all[0]), true
	for _, r := range all {
		q := of(r)
		e.ArgEncoded(q.tokenForm[:], 1)
		e.ArgEncoded(q.Keys, 1)
		same = same && q.TTL == first.TTL
	}
	for i, r := range all {
		if i == 0 || !same {
			of(r).argTTL(e)
		}
	}
	e.ArgString(first.Channel)
}

// toRelease encodes one argument with all owners; then, if any request has a member or was extended, the members of
// all; then, if any was extended, for each what keeps out an extension that arrives late.
func toRelease(all []*redisconn.Request, e *resp.Encoder) {
	keys, queued, extended := 0, false, false
	for _, r := range all {
		q := of(r)
		keys += len(q.Hashes)
		queued = queued || q.Member != ""
		extended = extended || q.Extended
	}
	e.ArgJoined(keys*(ownerLen+1)-1, func(b []byte) []byte {
		for i, r := range all {
			for k := range of(r).Hashes {
				if i+k > 0 {
					b = append(b, ' ')
				}
				b = append(b, of(r).owner()...)
			}
		}
		return b
	})
	if queued || extended {
		rows(func(q *Request, e *resp.Encoder) { e.ArgString(q.Member) })(all, e)
	}
	if extended {
		rows((*Request).argLate)(all, e)
	}
}
