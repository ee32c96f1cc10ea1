package redlock

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"time"

	"github.com/google/uuid"
)

// question is what a call asks of every node, in the same bytes. What every lock needs is put into the form of the wire once, when
// the call is filled in. The other arguments are boxed then, or when an option is settled, so that sending allocates nothing.
type question struct {
	kind      *kind
	key       string
	hash      uint64        // of the key
	several   *several      // what is asked about instead of the key; nil: the key
	args      [4]any        // owner, TTL, token, former owner: as many of them as the kind has
	tokensKey any           // string; where kind.tokens
	expires   time.Time     // undo: when what is to be undone ends by itself
	then      func(c *call) // takes the call, with its caller's part in it, at the outcome; nil: the caller waits
	hold      *hold         // for then
	observed  *observation  // of the hold, for events.repaired
	stands    bool          // is asked by who waits: see node.ask
	begun     instant       // for then

	// What every node is sent, in the form of the wire: see wire. The memory stays with the call.
	keyForm   []byte
	ownerForm [len("$36\r\n") + ownerLen + len("\r\n")]byte
	tokenForm [len("$16\r\n") + tokenLen + len("\r\n")]byte
	command   []byte // the whole command, where the kind has a form for it
	ownerArg  any    // []byte: the text in ownerForm
	tokenArg  any    // []byte: the text in tokenForm
}

const (
	ownerLen = 36 // a UUID as text
	tokenLen = 16 // microseconds since 1970 have 16 digits from 2001 to 2286
)

var hashSeed = maphash.MakeSeed()

func (q *question) init() {
	copy(q.ownerForm[:], "$36\r\n")
	copy(q.tokenForm[:], "$16\r\n")
	copy(q.ownerForm[len(q.ownerForm)-2:], "\r\n")
	copy(q.tokenForm[len(q.tokenForm)-2:], "\r\n")
	q.ownerArg, q.tokenArg = q.owner(), q.tokenText()
}

func (q *question) owner() []byte     { return q.ownerForm[5 : 5+ownerLen] }
func (q *question) tokenText() []byte { return q.tokenForm[5 : 5+tokenLen] }

// set chooses what is asked, about which key, with which owner.
func (q *question) set(k *kind, key string, owner uuid.UUID) {
	q.kind, q.hash = k, hashOf(key)
	q.setKey(key)
	q.setOwner(owner)
	q.args[0] = q.ownerArg
}

func (q *question) setKey(key string) {
	q.key, q.keyForm = key, appendBulk(q.keyForm[:0], key)
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

// addKeys adds what is asked about.
func (q *question) addKeys(w *wire) {
	if q.several == nil {
		w.addForm(q.keyForm)
		return
	}
	for _, key := range q.several.keys {
		w.args = appendBulk(w.args, key)
		w.n++
	}
}

// addArgs adds the first n arguments.
func (q *question) addArgs(w *wire, n int) {
	for _, arg := range q.args[:n] {
		w.add(arg)
	}
}

// addCommand adds the native command.
func (q *question) addCommand(w *wire) {
	if q.kind.form != nil {
		w.buf = append(w.buf, q.command...)
		return
	}
	w.add(q.kind.command)
	for _, arg := range q.kind.native(q, nil) {
		w.add(arg)
	}
	w.end()
}

// clear drops what the question refers to.
func (q *question) clear() {
	q.kind, q.key, q.several, q.args, q.tokensKey = nil, "", nil, [4]any{}, nil
	q.expires, q.then, q.hold, q.observed, q.stands = time.Time{}, nil, nil, nil, false
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
func (q *question) setToken(token int64) {
	text := q.tokenText()
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + token%10)
		token /= 10
	}
	q.args[2] = q.tokenArg
}
