package redlock

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// question is what a call asks of every node, in the same bytes. Its arguments
// are boxed once, when the call is made or an option is settled, and shared by
// all nodes, so that sending allocates nothing.
type question struct {
	kind      *kind
	key       string
	hash      uint64        // of the key
	several   *several      // what is asked about instead of the key; nil: the key
	args      [4]any        // owner, TTL, token, former owner: the first kind.nargs of them
	tokensKey any           // string; where kind.tokens
	expires   time.Time     // undo: when what is to be undone ends by itself
	then      func(c *call) // takes the call, with its caller's part in it, at the outcome; nil: the caller waits
	hold      *hold         // for then
	stands    bool          // is asked by who waits: see node.ask
	begun     instant       // for then

	// The owner and the token as text. The boxed slices stay with the call, only
	// the bytes change.
	owner    [ownerLen]byte
	ownerArg any
	token    [tokenLen]byte
	tokenArg any
}

const (
	ownerLen = 36 // a UUID as text
	tokenLen = 16 // microseconds since 1970 have 16 digits from 2001 to 2286
)

var hashSeed = maphash.MakeSeed()

func (q *question) init() { q.ownerArg, q.tokenArg = q.owner[:], q.token[:] }

// set chooses what is asked, about which key, with which owner.
func (q *question) set(k *kind, key string, owner uuid.UUID) {
	q.kind, q.key, q.hash = k, key, hashOf(key)
	q.setOwner(owner)
	q.args[0] = q.ownerArg
}

// setSeveral chooses what is asked, about which keys, with which owner.
func (q *question) setSeveral(k *kind, s *several, owner uuid.UUID) {
	q.kind, q.several = k, s
	q.setOwner(owner)
	q.args[0] = q.ownerArg
}

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

// keys returns how many keys are asked about.
func (q *question) keys() int {
	if q.several != nil {
		return len(q.several.keys)
	}
	return 1
}

// appendKeys appends what is asked about.
func (q *question) appendKeys(args []any) []any {
	if q.several != nil {
		for i := range q.several.keys {
			args = append(args, &q.several.keys[i])
		}
		return args
	}
	return append(args, &q.key)
}

// appendArgs appends the arguments: for each key, or once for all where the kind has it so.
func (q *question) appendArgs(args []any) []any {
	own := q.args[:q.kind.nargs]
	switch {
	case q.several == nil:
		return append(args, own...)
	case q.kind.once:
		args = append(append(args, own...), len(q.several.keys), len(q.several.from)) // small numbers: boxed without an allocation
		return append(args, q.several.from...)
	}
	for range q.several.keys {
		args = append(args, own...)
	}
	return args
}

// clear drops what the question refers to.
func (q *question) clear() {
	q.kind, q.key, q.several, q.args, q.tokensKey = nil, "", nil, [4]any{}, nil
	q.expires, q.then, q.hold, q.stands = time.Time{}, nil, nil, false
}

// newOwner draws an owner: a UUID of version 7 (RFC 9562), whose first 60 bits
// tell the time and whose last 62 bits are random. With the nodes' time in it
// owners stand in the order in which they began, whatever machine they are from.
func newOwner(micros int64) (id uuid.UUID) {
	_, _ = rand.Read(id[8:]) // never fails
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16|0x7<<12|uint64(micros%1000)<<12/1000)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// moot reports whether an undo has nothing left to undo.
func (q *question) moot(now time.Time) bool { return !q.expires.IsZero() && now.After(q.expires) }

// setOwner writes the UUID's text form, without the allocation of String.
func (q *question) setOwner(id uuid.UUID) {
	const digits = "0123456789abcdef"
	at := 0
	for i, b := range id {
		switch i {
		case 4, 6, 8, 10:
			q.owner[at] = '-'
			at++
		}
		q.owner[at], q.owner[at+1] = digits[b>>4], digits[b&15]
		at += 2
	}
}

// setToken writes the token.
func (q *question) setToken(token int64) {
	for i := range q.token {
		q.token[i] = '0'
	}
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], token, 10)
	copy(q.token[max(0, tokenLen-len(text)):], text)
	q.args[2] = q.tokenArg
}
