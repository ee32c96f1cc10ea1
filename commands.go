package redlock

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
	"github.com/quorumlock/redlock/internal/token"
)

// command is a command that a round sends to all nodes: how it is encoded, and how its reply is read. What a script
// does, and what its arguments and replies are, is in the head of its file in internal/lua.
type command struct {
	redisconn.Command
	form   func(q *request, b []byte) []byte // native commands: appends the whole command, encoded
	read   func(reply any) quorum.Answer     // reads the reply about one key; nil: the script has no reply to read
	tells  bool                              // the script has something to tell about each key: there is no usual result
	trust  guard.Trust                       // which nodes' grants count
	reader *command                          // sent instead for a hold that is shared with other readers
}

// The commands of a lock. Other commands are beside the code that sends them: inspect.go, semaphore.go, once_run.go and
// locks.go.
var (
	acquirePlain = &command{form: setForm, read: readSet, reader: read}
	acquire      = script(command{read: readAcquire}, columns,
		"revoked", "usual", "label", "readers", "propose", "queue", "join", "watchers", "acquire")
	raise = script(command{read: readAcquire}, rows(3), "propose", "watchers", "raise")
	// A node that has told its token once knows no larger one when it is asked to accept a larger one: while the lock is
	// ours, nobody else's is accepted. The nearest node could have each attempt raise its token without end.
	lastRaise = &command{Command: raise.Command, read: readLastRaise}
	extend    = urgent(command{read: readExtend, trust: guard.TrustOurs, reader: keepReading}, rowsThenValues,
		"revoked", "watchers", "value", "extend")
	release = undo(command{read: readRelease, reader: stopReading}, toRelease,
		"free", "readers", "propose", "queue", "watchers", "value", "release")
	adopt          = script(command{read: readAcquire}, rows(4), "revoked", "label", "watchers", "adopt")
	revert         = undo(command{}, rows(2), "revoked", "readers", "propose", "queue", "watchers", "revert")
	acquireOrQueue = &command{Command: acquire.Command, read: acquire.read} // acquire, with a channel
	acquireAll     = script(command{read: readAcquire}, rowForAll(3), "revoked", "label", "watchers", "acquire_all")
	enqueue        = script(command{read: readAcquire, reader: read}, rows(4), queueing("enqueue")...)

	read        = script(command{read: readShared}, rows(3), queueing("read")...)
	keepReading = urgent(command{read: readExtend, trust: guard.TrustOurs}, rows(2), "revoked", "readers", "keep_reading")
	stopReading = undo(command{read: readRelease}, rows(2), "readers", "propose", "queue", "watchers", "stop_reading")
)

// queueing returns the files of a script that may put its caller into a queue.
func queueing(name string) []string {
	return []string{"revoked", "label", "readers", "propose", "queue", "join", "watchers", name}
}

// scripts are the scripts of all commands.
var scripts []*lua.Script

// script returns the command whose script is the files, one after the other. The set of tokens is its last key.
func script(k command, args func([]*redisconn.Request, *resp.Encoder), files ...string) *command {
	k.Script, k.Args, k.ExtraKey = lua.Load(files...), args, true
	scripts = append(scripts, k.Script)
	return &k
}

// urgent returns a script that holds depend on: it goes before what others wait for.
func urgent(k command, args func([]*redisconn.Request, *resp.Encoder), files ...string) *command {
	k.Urgent = true
	return script(k, args, files...)
}

// undo returns a script that must reach every node that may have executed what the script undoes. Since its votes grant
// no lock, those of abstaining nodes count, too.
func undo(k command, args func([]*redisconn.Request, *resp.Encoder), files ...string) *command {
	k.Undo, k.trust = true, guard.TrustAll
	return script(k, args, files...)
}

// request is a command with its arguments, as every node gets it. What every lock needs is encoded once, when the
// request is filled in. The other arguments are boxed then, or when the options are applied, so that sending allocates
// nothing.
type request struct {
	redisconn.Message
	command   *command
	args      [4]any       // owner, TTL, token, former owner or value: a command takes the first of them that it needs
	token     int64        // the number in args; 0: none
	names     *names       // of LockAll; nil: one key
	queues    bool         // nodes that refuse it put its caller into their queues: see round.unasked
	cancelled *atomic.Bool // nil, or set when the request must not be sent again
	expires   time.Time    // undo: when that which is undone ends by itself

	// Arguments that all nodes get, encoded. The round keeps their memory when it is reused.
	hash      [1]uint64
	ownerForm [len("$36\r\n") + ownerLen + len("\r\n")]byte
	tokenForm [len("$16\r\n") + tokenLen + len("\r\n")]byte
	ownerArg  any // []byte: the text in ownerForm
	tokenArg  any // []byte: the text in tokenForm
}

// noMember is the member of a hold that is in no queue; noToken is the token of a command that needs none; noChannel is
// the channel of a look that is no watch; noValue is the value of a hold that has none; untold is what is released with
// in place of the token of an extended hold that has none.
var noMember, noToken, noChannel, noValue, untold any = "", "", "", "", "untold"

// readerToken is a waiting reader's entry in place of a token: readers have none.
const readerToken = "reading---------"

// names are what LockAll locks: two names at least. They are never changed.
type names struct {
	list   []string // sorted, all different
	keys   []string // in the order of list, like all below
	hashes []uint64 // of the keys
	from   []any    // string: the owners to take the locks over from; nil: the locks must be free
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

// set fills in the command, its key, owner and token; token 0: none.
func (q *request) set(k *command, key string, owner uuid.UUID, token int64) {
	q.setCommand(k, owner, token)
	q.hash[0] = hashOf(key)
	q.Hashes, q.Keys = q.hash[:], resp.AppendBulk(q.Keys[:0], key)
}

// setAll is set for several keys.
func (q *request) setAll(k *command, s *names, owner uuid.UUID, token int64) {
	q.setCommand(k, owner, token)
	q.names, q.Hashes, q.Keys = s, s.hashes, q.Keys[:0]
	for _, key := range s.keys {
		q.Keys = resp.AppendBulk(q.Keys, key)
	}
}

func (q *request) setCommand(k *command, owner uuid.UUID, token int64) {
	q.command, q.Command = k, &k.Command
	q.setOwner(owner)
	q.args[0], q.args[2], q.token = q.ownerArg, "", token
	if token > 0 {
		q.setToken(token)
	}
}

var hashSeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

// setOwner writes the owner as text, without the allocation of UUID.String.
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

func (q *request) setToken(token int64) {
	text := q.tokenText()
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + token%10)
		token /= 10
	}
	q.args[2] = q.tokenArg
}

// clear drops all references, so that a pooled round keeps nothing alive.
func (q *request) clear() {
	q.command, q.Command, q.names, q.args = nil, nil, nil, [4]any{}
	q.queues, q.cancelled, q.expires = false, nil, time.Time{}
}

// setForm encodes SET key owner NX PX TTL.
func setForm(q *request, b []byte) []byte {
	b = append(append(append(b, "*6\r\n$3\r\nSET\r\n"...), q.Keys...), q.ownerForm[:]...)
	var digits [20]byte
	ttl := strconv.AppendInt(digits[:0], q.args[1].(int64), 10)
	return resp.AppendBulk(append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...), ttl)
}

// The functions below encode the arguments of a script for a batch: all requests that one call of the script carries.

// of returns what a connection's request is about.
func of(r *redisconn.Request) *request { return r.About.(*request) }

// rows encodes, for each key, the first n arguments of its request.
func rows(n int) func([]*redisconn.Request, *resp.Encoder) {
	return func(all []*redisconn.Request, e *resp.Encoder) {
		for _, r := range all {
			q := of(r)
			for range q.Hashes {
				for _, arg := range q.args[:n] {
					e.Arg(arg)
				}
			}
		}
	}
}

// rowsThenValues encodes rows of three arguments, and then, if any request has one, for each key the value of its
// request.
func rowsThenValues(all []*redisconn.Request, e *resp.Encoder) {
	rows(3)(all, e)
	if !slices.ContainsFunc(all, func(r *redisconn.Request) bool { return of(r).args[3] != noValue }) {
		return
	}
	for _, r := range all {
		q := of(r)
		for range q.Hashes {
			e.Arg(q.args[3])
		}
	}
}

// rowForAll encodes, for each request, its first n arguments, the number of its keys, the number of owners to take over
// from, and these owners. A request with a single key is the second about it: it takes over from its own owner.
func rowForAll(n int) func([]*redisconn.Request, *resp.Encoder) {
	return func(all []*redisconn.Request, e *resp.Encoder) {
		for _, r := range all {
			q := of(r)
			for _, arg := range q.args[:n] {
				e.Arg(arg)
			}
			if q.names == nil {
				e.Arg(1)
				e.Arg(1)
				e.Arg(q.ownerArg)
				continue
			}
			e.Arg(len(q.names.keys))
			e.Arg(len(q.names.from))
			for _, owner := range q.names.from {
				e.Arg(owner)
			}
		}
	}
}

// columns encodes all owners, then each token with its key, then the TTLs, a single one if all are the same, and the
// channel of the waiters.
func columns(all []*redisconn.Request, e *resp.Encoder) {
	for _, r := range all {
		e.ArgEncoded(of(r).ownerForm[:], 1)
	}
	ttl, same := of(all[0]).args[1], true
	for _, r := range all {
		q := of(r)
		e.ArgEncoded(q.tokenForm[:], 1)
		e.ArgEncoded(q.Keys, 1)
		same = same && q.args[1] == ttl
	}
	for i, r := range all {
		if i == 0 || !same {
			e.Arg(of(r).args[1])
		}
	}
	e.Arg(of(all[0]).args[3])
}

// toRelease encodes one argument with all owners; then, if any request has a member or a token, the members of all;
// then, if any has a token, the tokens of all. A token keeps out an extension that arrives late.
func toRelease(all []*redisconn.Request, e *resp.Encoder) {
	keys, queued, extended := 0, false, false
	for _, r := range all {
		q := of(r)
		keys += len(q.Hashes)
		queued = queued || q.args[1] != noMember
		extended = extended || q.args[2] != noToken
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
	for arg, add := range []bool{queued || extended, extended} {
		if !add {
			continue
		}
		for _, r := range all {
			q := of(r)
			for range q.Hashes {
				e.Arg(q.args[1+arg])
			}
		}
	}
}

// read reads a node's reply. An answer about several locks is the worst answer about one of them, with the largest
// token of all.
func (q *request) read(reply any, err error) quorum.Answer {
	k := q.command
	switch {
	case err != nil && errors.As(err, new(resp.UnexpectedError)):
		return quorum.Answer{Vote: quorum.Failed, Err: fmt.Errorf("%s: %w", k.name(), err)}
	case err != nil:
		return quorum.Answer{Vote: quorum.Failed, Err: explained(err, "")}
	case k.Script == nil:
		return k.readOne(reply)
	case reply == nil && k.tells:
		return quorum.Answer{Vote: quorum.Failed, Err: k.unexpected(int64(len(q.Hashes)))}
	case reply == nil:
		return quorum.Answer{Vote: quorum.Granted}
	case k.read == nil:
		return quorum.Answer{Vote: quorum.Failed, Err: k.unexpected(reply)}
	}
	list := reply.([]any)
	worst := k.readOne(list[0])
	highest := worst.Token
	for i, reply := range list[1:] {
		a := k.readOne(reply)
		highest = max(highest, a.Token)
		if a.Vote > worst.Vote {
			worst, worst.Which = a, i+1
		}
	}
	worst.Token = highest
	return worst
}

// badReply is what a reader returns for a reply that is not of its command's kind.
var badReply = quorum.Answer{Vote: quorum.Failed}

// readOne reads the reply about one key.
func (k *command) readOne(reply any) quorum.Answer {
	a := k.read(reply)
	if a.Vote == quorum.Failed && a.Err == nil {
		a.Err = k.unexpected(reply)
	}
	return a
}

// unexpected returns the error for a reply that is not of the command's kind.
func (k *command) unexpected(reply any) error {
	return fmt.Errorf("%s: %w", k.name(), resp.Unexpected(reply))
}

// name names the command for people.
func (k *command) name() string {
	if k.Script == nil {
		return "SET"
	}
	return "script " + k.Script.Name
}

func readSet(reply any) quorum.Answer {
	switch reply {
	case "OK":
		return quorum.Answer{Vote: quorum.Granted}
	case nil:
		return quorum.Answer{Vote: quorum.Taken}
	}
	return badReply
}

func readAcquire(reply any) quorum.Answer {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return badReply
	}
	switch parts[0] {
	case int64(1):
		if endsWithAhead(parts[1:]) {
			return quorum.Answer{Vote: quorum.Granted, Ahead: readAhead(parts[1:])}
		}
	case int64(2):
		if len(parts) >= 2 && endsWithAhead(parts[2:]) {
			text, _ := parts[1].([]byte)
			if known, ok := token.Parse(string(text)); ok {
				return quorum.Answer{Vote: quorum.Outbid, Token: known, Ahead: readAhead(parts[2:])}
			}
		}
	case int64(3):
		return quorum.Answer{Vote: quorum.Absent}
	case int64(4):
		return quorum.Answer{Vote: quorum.Taken, Err: errRevoked, Revoked: true}
	case int64(0):
		a := quorum.Answer{Vote: quorum.Taken}
		if len(parts) >= 3 {
			owner, isText := parts[1].([]byte)
			ms, isNumber := parts[2].(int64)
			if !isText || !isNumber {
				return badReply
			}
			a.Owner, a.Remaining = string(owner), readLeft(ms)
			if len(parts) >= 4 {
				a.Label = agreement.ReadLabel(parts[3])
			}
			a.Ahead = readAhead(parts[min(4, len(parts)):])
			switch {
			case ms == -2:
				return quorum.Answer{Vote: quorum.Absent}
			case a.Owner == "":
				a.Err = errNoLock
			case ms < 0:
				a.Err = errNoTTL
			}
		}
		return a
	}
	return badReply
}

// readShared reads the reply to a reader, who has no token that a larger one could be known beside.
func readShared(reply any) quorum.Answer {
	if a := readAcquire(reply); a.Vote != quorum.Outbid {
		return a
	}
	return badReply
}

func readLastRaise(reply any) quorum.Answer {
	a := readAcquire(reply)
	if a.Vote == quorum.Outbid {
		return quorum.Answer{Vote: quorum.Failed, Err: errOutbidAgain}
	}
	return a
}

// endsWithAhead reports whether the rest of a granting entry is how many waiters are ahead, or nothing.
func endsWithAhead(rest []any) bool {
	if len(rest) == 0 {
		return true
	}
	_, isNumber := rest[0].(int64)
	return isNumber && len(rest) == 1
}

// readAhead reads how many waiters are ahead, if the rest of an entry says so. Whatever a node says, it is neither
// negative nor so much that a pause, which grows with it, overflows.
func readAhead(rest []any) int {
	if len(rest) == 0 {
		return 0
	}
	ahead, _ := rest[0].(int64)
	return int(min(max(ahead, 0), 1<<20))
}

// readLeft converts what a node says is left of a key's TTL, in ms: it is -1 ms, for none, to 34 years. A key that
// others have set may have a TTL with which pauses would overflow.
func readLeft(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), 1<<40)) * time.Millisecond
}

func readExtend(reply any) quorum.Answer {
	switch reply {
	case int64(1):
		return quorum.Answer{Vote: quorum.Granted}
	case int64(2):
		// The node has the key again but did not have it all the time: no vote in this round.
		return quorum.Answer{Vote: quorum.Absent}
	case int64(0):
		return quorum.Answer{Vote: quorum.Taken}
	case int64(3):
		return quorum.Answer{Vote: quorum.Taken, Err: errRevoked}
	}
	return badReply
}

func readRelease(reply any) quorum.Answer {
	switch reply {
	case int64(1), int64(0): // released, or gone before
		return quorum.Answer{Vote: quorum.Granted}
	case int64(2):
		return quorum.Answer{Vote: quorum.Taken}
	}
	return badReply
}

var (
	errNoLock      = errors.New("the key is not a string, so it is not a lock")
	errOutbidAgain = errors.New("it knows a larger token than it told a moment before")
	errNoTTL       = errors.New("the key has no TTL, so no lock has set it: delete it, or call ForceUnlock")
	// errRevoked is also a waiter's cue to draw another owner.
	errRevoked = errors.New("an administrator has taken it from this owner: see ForceUnlock")
)
