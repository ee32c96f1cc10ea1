package protocol

import (
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// Command is a command that a round sends to all nodes: how it is encoded, and how its reply is read.
type Command struct {
	redisconn.Command
	Trust  guard.Trust                       // which nodes' grants count
	Reader *Command                          // sent instead for a hold that is shared with other readers
	native func(q *Request, b []byte) []byte // not of a script: appends the whole command, encoded
	read   func(reply any) quorum.Answer     // reads the reply about one key; nil: the script has no reply to read
	tells  bool                              // the script has something to tell about each key: no result is usual
}

// Name names the command for people.
func (k *Command) Name() string {
	if k.Script == nil {
		return "SET"
	}
	return "script " + k.Script.Name
}

// Unexpected returns the error for a reply that is not of the command's kind.
func (k *Command) Unexpected(reply any) error {
	return fmt.Errorf("%s: %w", k.Name(), resp.Unexpected(reply))
}

// Request is a command with its arguments, as every node gets it. Each command takes the fields that it needs: see the
// functions of the same names. Encode encodes what every lock needs once for all nodes, so sending allocates nothing.
type Request struct {
	redisconn.Message
	Kind *Command

	Owner    uuid.UUID     // who asks; Nil: nobody in particular
	Token    int64         // its fencing token; 0: none
	TTL      time.Duration // for how long the nodes are to keep what they are asked for
	Member   string        // the owner's place in a queue; "": none
	Channel  string        // where nodes tell of a hand-over, or of changes; "": nowhere
	Value    string        // what the nodes keep beside the lock, or a job's entry; "": nothing
	From     string        // the owner from whom the lock is taken over, or to whom it goes back
	Extended bool          // of a release: an extension was sent, and may arrive after it
	End      int64         // of an entry: when it ends, in ms of the nodes' time
	Slots    int           // of a survey: how many there are

	Names     *Names       // of several locks, in place of one key
	Queues    bool         // nodes that refuse it put its caller into their queues
	Cancelled *atomic.Bool // nil, or set when the request must not be sent again
	Expires   time.Time    // of an undo: when that which is undone ends by itself

	// What all nodes get, encoded. The request keeps the memory when it is used again.
	hash      [1]uint64
	ownerForm [len("$36\r\n") + ownerLen + len("\r\n")]byte
	tokenForm [len("$16\r\n") + tokenLen + len("\r\n")]byte
}

const (
	ownerLen = 36 // a UUID as text
	tokenLen = 16 // microseconds since 1970 have 16 digits from 2001 to 2286
)

// Names are several locks: two at least. They are never changed.
type Names struct {
	List   []string // sorted, all different
	From   []string // the owners to take the locks over from, in that order; nil: the locks must be free
	keys   []string // in the order of List, as all below
	hashes []uint64
}

// NewNames returns the names in a list, which have these keys.
func NewNames(list, keys []string) *Names {
	n := &Names{List: list, keys: keys, hashes: make([]uint64, len(keys))}
	for i, key := range keys {
		n.hashes[i] = hashOf(key)
	}
	return n
}

// Part returns the names List[from:to].
func (n *Names) Part(from, to int) *Names {
	return &Names{List: n.List[from:to], keys: n.keys[from:to], hashes: n.hashes[from:to]}
}

// Key returns the key of one of the names.
func (n *Names) Key(i int) string { return n.keys[i] }

// Init prepares a request for its first use.
func (q *Request) Init() {
	copy(q.ownerForm[:], "$36\r\n")
	copy(q.tokenForm[:], "$16\r\n")
	copy(q.ownerForm[len(q.ownerForm)-2:], "\r\n")
	copy(q.tokenForm[len(q.tokenForm)-2:], "\r\n")
}

// About sets what the request is, and its key.
func (q *Request) About(k *Command, key string) {
	q.Kind, q.Command = k, &k.Command
	q.hash[0] = hashOf(key)
	q.Hashes, q.Keys = q.hash[:], resp.AppendBulk(q.Keys[:0], key)
}

// AboutAll is About for several keys.
func (q *Request) AboutAll(k *Command, n *Names) {
	q.Kind, q.Command = k, &k.Command
	q.Names, q.Hashes, q.Keys = n, n.hashes, q.Keys[:0]
	for _, key := range n.keys {
		q.Keys = resp.AppendBulk(q.Keys, key)
	}
}

// Encode encodes the arguments. It is called before the request is sent, when all of them are set.
func (q *Request) Encode() {
	q.encodeOwner()
	q.encodeToken()
	if q.Kind.native != nil {
		q.Native = q.Kind.native(q, q.Native[:0])
	}
}

// Read reads a node's reply: of several locks the worst answer about one of them, with the largest token of all.
func (q *Request) Read(reply any) quorum.Answer {
	k := q.Kind
	switch {
	case k.Script == nil:
		return k.ReadOne(reply)
	case reply == nil && k.tells:
		return quorum.Answer{Vote: quorum.Failed, Err: k.Unexpected(int64(len(q.Hashes)))}
	case reply == nil:
		return quorum.Answer{Vote: quorum.Granted}
	case k.read == nil:
		return quorum.Answer{Vote: quorum.Failed, Err: k.Unexpected(reply)}
	}
	list := reply.([]any)
	worst := k.ReadOne(list[0])
	highest := worst.Token
	for i, reply := range list[1:] {
		a := k.ReadOne(reply)
		highest = max(highest, a.Token)
		if a.Vote > worst.Vote {
			worst, worst.Which = a, i+1
		}
	}
	worst.Token = highest
	return worst
}

// ReadOne reads the reply about one key.
func (k *Command) ReadOne(reply any) quorum.Answer {
	a := k.read(reply)
	if a.Vote == quorum.Failed && a.Err == nil {
		a.Err = k.Unexpected(reply)
	}
	return a
}

// Clear drops all references and arguments, so that a pooled request keeps nothing alive.
func (q *Request) Clear() {
	q.Command, q.Kind, q.Names, q.Cancelled, q.Expires = nil, nil, nil, nil, time.Time{}
	q.Owner, q.Token, q.TTL, q.Member, q.Channel, q.Value, q.From = uuid.Nil, 0, 0, "", "", "", ""
	q.Extended, q.Queues, q.End, q.Slots = false, false, 0, 0
}

// of returns what a connection's request is about.
func of(r *redisconn.Request) *Request { return r.About.(*Request) }

var hashSeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

func (q *Request) owner() []byte { return q.ownerForm[5 : 5+ownerLen] }

// encodeOwner writes the owner as text, without the allocation of UUID.String.
func (q *Request) encodeOwner() {
	text, id := q.owner(), &q.Owner
	hex.Encode(text, id[:4])
	for i, at := 4, 8; i < 10; i, at = i+2, at+5 {
		text[at] = '-'
		hex.Encode(text[at+1:], id[i:i+2])
	}
	text[23] = '-'
	hex.Encode(text[24:], id[10:])
}

func (q *Request) encodeToken() {
	text, left := q.tokenForm[5:5+tokenLen], q.Token
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + left%10)
		left /= 10
	}
}

// argOwner appends the owner, or "" if nobody in particular asks.
func (q *Request) argOwner(e *resp.Encoder) {
	if q.Owner == uuid.Nil {
		e.ArgString("")
		return
	}
	e.ArgEncoded(q.ownerForm[:], 1)
}

// argToken appends the token, or "" if there is none.
func (q *Request) argToken(e *resp.Encoder) {
	if q.Token == 0 {
		e.ArgString("")
		return
	}
	e.ArgEncoded(q.tokenForm[:], 1)
}

func (q *Request) argTTL(e *resp.Encoder) { e.ArgInt(q.TTL.Milliseconds()) }

// argLate appends what keeps out an extension that was sent on an earlier, broken connection and may come after this
// release: a larger token. Half a step is above ours and below every other hold's, so none needs a second round.
func (q *Request) argLate(e *resp.Encoder) {
	switch {
	case !q.Extended:
		e.ArgString("")
	case q.Token == 0:
		e.ArgString("untold")
	default:
		e.ArgJoined(len(q.decimal())+len(".5"), func(b []byte) []byte { return append(append(b, q.decimal()...), ".5"...) })
	}
}

// decimal returns the token without leading zeros.
func (q *Request) decimal() []byte {
	text := q.tokenForm[5 : 5+tokenLen]
	for len(text) > 1 && text[0] == '0' {
		text = text[1:]
	}
	return text
}

// ReaderToken is a waiting reader's entry in place of a token: readers have none.
const ReaderToken = "reading---------"

// InQueue returns the member with which an owner waits in the nodes' queues: see queue.lua.
func InQueue(owner uuid.UUID, token int64, ttl time.Duration, channel string) string {
	return fmt.Sprintf("%s %016d %013d %s", owner, token, ttl.Milliseconds(), channel)
}

// ReaderInQueue is InQueue for a reader.
func ReaderInQueue(owner uuid.UUID, ttl time.Duration, channel string) string {
	return fmt.Sprintf("%s %s %013d %s", owner, ReaderToken, ttl.Milliseconds(), channel)
}
