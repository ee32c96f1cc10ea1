package redlock

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// command is one of the things that all nodes can be asked: how it is encoded, and how its reply reads. What a script
// does, and what its arguments and replies are, stands in its head, in internal/lua.
type command struct {
	redisconn.Command
	form   func(q *request, b []byte) []byte // native: appends the whole command, encoded
	read   func(reply any) answer            // what is said of one key; nil: a script that has nothing to tell
	trust  guard.Trust                       // which nodes' grants count
	toRead *command                          // what is asked in place of it for a hold that readers share
}

// The commands of a lock. What else uses nodes has its own beside it: see inspect.go, semaphore_slots.go, once_run.go.
var (
	acquirePlain = &command{form: setForm, read: readSet, toRead: read}
	acquire      = script(command{read: readAcquire}, columns, "acquire")
	raise        = script(command{read: readAcquire}, rows(3), "raise")
	extend       = script(command{read: readExtend, trust: guard.TrustOurs, toRead: keepReading}, rows(3), "extend")
	release      = undo(command{read: readRelease, toRead: stopReading}, toRelease, "free", "readers", "queue", "release")
	adopt        = script(command{read: readAcquire}, rows(4), "adopt")
	revert       = undo(command{}, rows(2), "revert")
	acquireAll   = script(command{read: readAcquire}, rowForAll(3), "acquire_all")
	enqueue      = script(command{read: readAcquire, toRead: read}, rows(4), "readers", "queue", "stand", "enqueue")

	read        = script(command{read: readAcquire}, rows(3), "readers", "queue", "stand", "read")
	keepReading = script(command{read: readExtend, trust: guard.TrustOurs}, rows(2), "readers", "keep_reading")
	stopReading = undo(command{read: readRelease}, rows(2), "readers", "queue", "stop_reading")
)

// scripts are those of all commands: loaded whenever a node is connected.
var scripts []*lua.Script

// script returns the command that is the script in the files, one after the other. The set of tokens is its last key.
func script(k command, args func([]*redisconn.Request, *redisconn.Encoder), files ...string) *command {
	k.Script, k.Args, k.ExtraKey = lua.Load(files...), args, true
	scripts = append(scripts, k.Script)
	return &k
}

// undo is script for what must reach every node that may have done what it undoes. Nothing rests on its votes.
func undo(k command, args func([]*redisconn.Request, *redisconn.Encoder), files ...string) *command {
	k.Undo, k.trust = true, guard.TrustAll
	return script(k, args, files...)
}

// question is what is asked of every node. What every lock needs is encoded once, when the question is filled in. The
// other arguments are boxed then, or when an option is settled, so that sending allocates nothing.
type request struct {
	redisconn.Message
	command   *command
	args      [4]any       // owner, TTL, token, former owner: as many of them as the command has
	names     *names       // what LockAll is asked about; nil: one key
	waits     bool         // is asked by a waiter: see round.unasked
	cancelled *atomic.Bool // nil, or set when the question is not to be sent again
	expires   time.Time    // undo: when what is to be undone ends by itself

	// What every node is sent, encoded. The memory stays with the round.
	hash      [1]uint64
	ownerForm [len("$36\r\n") + ownerLen + len("\r\n")]byte
	tokenForm [len("$16\r\n") + tokenLen + len("\r\n")]byte
	ownerArg  any // []byte: the text in ownerForm
	tokenArg  any // []byte: the text in tokenForm
}

// nowhere is the place of who waits in no queue; noToken is the token where none is needed.
var nowhere, noToken any = "", ""

// names are what LockAll locks: more than one. They are never changed.
type names struct {
	list   []string // sorted, all different
	keys   []string // in the order of the list, as all below
	hashes []uint64 // of the keys
	from   []any    // string: owners that the locks may be taken over from; nil: they must be nobody's
}

const (
	ownerLen = 36 // a UUID as text
	tokenLen = 16 // microseconds since 1970 have 16 digits from 2001 to 2286
)

func (q *request) init() {
	copy(q.ownerForm[:], "$36\r\n")
	copy(q.tokenForm[:], "$16\r\n")
	copy(q.ownerForm[len(q.ownerForm)-2:], "\r\n")
	copy(q.tokenForm[len(q.tokenForm)-2:], "\r\n")
	q.ownerArg, q.tokenArg = q.owner(), q.tokenText()
}

func (q *request) owner() []byte     { return q.ownerForm[5 : 5+ownerLen] }
func (q *request) tokenText() []byte { return q.tokenForm[5 : 5+tokenLen] }

// set chooses what is asked, about which key, with which owner and token; 0: with none.
func (q *request) set(k *command, key string, owner uuid.UUID, token int64) {
	q.ask(k, owner, token)
	q.hash[0] = hashOf(key)
	q.Hashes, q.Keys = q.hash[:], redisconn.AppendBulk(q.Keys[:0], key)
}

// setAll is set for several keys.
func (q *request) setAll(k *command, s *names, owner uuid.UUID, token int64) {
	q.ask(k, owner, token)
	q.names, q.Hashes, q.Keys = s, s.hashes, q.Keys[:0]
	for _, key := range s.keys {
		q.Keys = redisconn.AppendBulk(q.Keys, key)
	}
}

func (q *request) ask(k *command, owner uuid.UUID, token int64) {
	q.command, q.Command = k, &k.Command
	q.setOwner(owner)
	q.args[0], q.args[2] = q.ownerArg, ""
	if token > 0 {
		q.setToken(token)
	}
}

var hashSeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

// setOwner writes the UUID's text form, without the allocation of String.
func (q *request) setOwner(id uuid.UUID) {
	text := q.owner()
	hex.Encode(text, id[:4])
	for i, at := 4, 8; i < 10; i, at = i+2, at+5 {
		text[at] = '-'
		hex.Encode(text[at+1:], id[i:i+2])
	}
	text[23] = '-'
	hex.Encode(text[24:], id[10:])
}

// setToken writes the token.
func (q *request) setToken(token int64) {
	text := q.tokenText()
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + token%10)
		token /= 10
	}
	q.args[2] = q.tokenArg
}

// clear drops what the question refers to.
func (q *request) clear() {
	q.command, q.Command, q.names, q.args = nil, nil, nil, [4]any{}
	q.waits, q.cancelled, q.expires = false, nil, time.Time{}
}

// setForm is SET key owner NX PX TTL.
func setForm(q *request, b []byte) []byte {
	b = append(append(append(b, "*6\r\n$3\r\nSET\r\n"...), q.Keys...), q.ownerForm[:]...)
	var digits [20]byte
	ttl := strconv.AppendInt(digits[:0], q.args[1].(int64), 10)
	return redisconn.AppendBulk(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), ttl)
}

// The arguments of a script for all requests that are sent together.

// of returns what is asked in a request.
func of(r *redisconn.Request) *request { return &r.Round.(*round).request }

// rows is n arguments for each key, those of one key together.
func rows(n int) func([]*redisconn.Request, *redisconn.Encoder) {
	return func(all []*redisconn.Request, e *redisconn.Encoder) {
		for _, r := range all {
			q := of(r)
			for range q.Hashes {
				for _, arg := range q.args[:n] {
					e.Add(arg)
				}
			}
		}
	}
}

// rowForAll is n arguments for all keys of a request together, how many keys, and who has them now.
func rowForAll(n int) func([]*redisconn.Request, *redisconn.Encoder) {
	return func(all []*redisconn.Request, e *redisconn.Encoder) {
		for _, r := range all {
			q := of(r)
			for _, arg := range q.args[:n] {
				e.Add(arg)
			}
			e.Add(len(q.names.keys))
			e.Add(len(q.names.from))
			for _, owner := range q.names.from {
				e.Add(owner)
			}
		}
	}
}

// columns is all owners, then for each key its token and the key, then the TTL: once where all have the same.
func columns(all []*redisconn.Request, e *redisconn.Encoder) {
	for _, r := range all {
		e.AddEncoded(of(r).ownerForm[:], 1)
	}
	ttl, same := of(all[0]).args[1], true
	for _, r := range all {
		q := of(r)
		e.AddEncoded(q.tokenForm[:], 1)
		e.AddEncoded(q.Keys, 1)
		same = same && q.args[1] == ttl
	}
	if same {
		e.Add(ttl)
		return
	}
	for _, r := range all {
		e.Add(of(r).args[1])
	}
}

// toRelease is one argument with all owners, and then, each where somebody has one, the places of all in the queue and
// the tokens of all that no extension is to come back behind.
func toRelease(all []*redisconn.Request, e *redisconn.Encoder) {
	keys, queued, extended := 0, false, false
	for _, r := range all {
		q := of(r)
		keys += len(q.Hashes)
		queued = queued || q.args[1] != nowhere
		extended = extended || q.args[2] != noToken
	}
	e.AddJoined(keys*(ownerLen+1)-1, func(b []byte) []byte {
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
	for arg, add := range []bool{queued || extended, extended} {
		if !add {
			continue
		}
		for _, r := range all {
			q := of(r)
			for range q.Hashes {
				e.Add(q.args[1+arg])
			}
		}
	}
}

// answer is what one node said, in detail. The node's reader writes it before it casts the vote; the caller reads it
// only where the tally shows the vote.
type answer struct {
	vote      vote
	owner     string        // voteTaken: the holder's owner, where known
	remaining time.Duration // voteTaken: how long its key still lives there, where known
	token     int64         // the token the node knows, where it said
	place     int           // voteTaken: how many wait before us, where we wait
	which     int           // voteTaken: the first of several locks that is
	err       error         // voteFailed, voteAbstained: why
	uncounted bool          // voteTaken: the node abstains, so the vote does not count for its holder either
	reply     any           // of a command with a reply of its own form
}

// read reads a node's reply. What is said of several locks is the worst that is said of one, with the largest token.
func (q *request) read(reply any, err error) answer {
	k := q.command
	switch {
	case err != nil:
		return answer{vote: voteFailed, err: explained(err, "")}
	case k.Script == nil:
		return k.read(reply)
	case reply == nil:
		return answer{vote: voteGranted}
	case k.read == nil:
		return badReply(reply)
	}
	list := reply.([]any)
	worst := k.read(list[0])
	highest := worst.token
	for i, reply := range list[1:] {
		a := k.read(reply)
		highest = max(highest, a.token)
		if a.vote > worst.vote {
			worst, worst.which = a, i+1
		}
	}
	worst.token = highest
	return worst
}

func readSet(reply any) answer {
	switch reply {
	case "OK":
		return answer{vote: voteGranted}
	case nil:
		return answer{vote: voteTaken}
	}
	return badReply(reply)
}

func readAcquire(reply any) answer {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return badReply(reply)
	}
	switch parts[0] {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(2):
		if len(parts) == 2 {
			text, _ := parts[1].([]byte)
			if known, ok := token.Parse(string(text)); ok {
				return answer{vote: voteOutbid, token: known}
			}
		}
	case int64(3):
		return answer{vote: voteAbsent}
	case int64(0):
		a := answer{vote: voteTaken}
		if len(parts) >= 3 {
			owner, _ := parts[1].([]byte)
			ms, _ := parts[2].(int64)
			a.owner, a.remaining = string(owner), time.Duration(ms)*time.Millisecond
			if len(parts) == 4 {
				place, _ := parts[3].(int64)
				a.place = int(place)
			}
			switch {
			case ms == -2:
				return answer{vote: voteAbsent}
			case a.owner == "":
				a.err = errNoLock
			case ms < 0:
				a.err = errNoTTL
			}
		}
		return a
	}
	return badReply(reply)
}

func readExtend(reply any) answer {
	switch reply {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(2):
		// It is ours again but has not been all the time: no vote in this round.
		return answer{vote: voteAbsent}
	case int64(0):
		return answer{vote: voteTaken}
	}
	return badReply(reply)
}

func readRelease(reply any) answer {
	switch reply {
	case int64(1), int64(0): // let go of, or gone before
		return answer{vote: voteGranted}
	case int64(2):
		return answer{vote: voteTaken}
	}
	return badReply(reply)
}

var (
	errNoLock = errors.New("the key is not a string, so it is no lock")
	errNoTTL  = errors.New("the key has no TTL: it was not set by a lock and will not go away")
)

func unexpected(reply any) error { return fmt.Errorf("unexpected reply %v", reply) }

func badReply(reply any) answer { return answer{vote: voteFailed, err: unexpected(reply)} }
