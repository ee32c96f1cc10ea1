package redisconn

import (
	"time"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/resp"
)

// Command is a native command, or a script, which is called once for all its requests of a batch. It replies the number
// of keys if every key had the usual result, otherwise a list with an element for each key.
type Command struct {
	Script   *lua.Script                           // nil: a native command
	Args     func(all []*Request, e *resp.Encoder) // script: appends the arguments for all requests
	ExtraKey bool                                  // script: Config.ExtraKey is the last key
	// Undo: it must reach the server if what it undoes may have. So it stays queued while the server is away, and is sent
	// again after a transient error, or if nobody can tell whether the server executed it.
	Undo       bool
	Urgent     bool // it goes before the other requests of its batch
	BestEffort bool // an Undo that is not kept for a server that is away while the queue is long already
}

// native is the Command of all that Ask sends, subscribe that of a SUBSCRIBE over a link that takes requests.
var native, subscribe = &Command{}, &Command{}

// ofLink reports whether what is sent is about a connection that there is, so that it waits for no other.
func (k *Command) ofLink() bool { return k == native || k == subscribe }

// Message is what several servers are sent in the same bytes. It is written before the first Send, then read-only.
type Message struct {
	Command *Command
	Asked   time.Time // the time-out counts from here
	Hashes  []uint64  // of the keys. Requests about one key stay in order; others may change places within a batch
	Keys    []byte    // script: the keys, encoded
	Native  []byte    // native: the whole command, encoded, or several commands in a row
	Replies int       // native: how many replies that makes, which Round.Reply gets as a list; 0: one, and no list
}

// Request is a message to one server.
type Request struct {
	*Message
	Round Round
	Node  int // passed to Round.Reply: which server this request goes to
	About any // for Command.Args: what it encodes the arguments of; not looked at here

	replied bool // the goroutine that set this has called Round.Reply or will; guarded by Conn.mu
	eval    bool // send the script, not its SHA; guarded by Conn.mu
}

// Round receives the replies to requests. Its methods must not block; see Conn.mu for the mutex held during a call.
type Round interface {
	// Reply is called once for each request: with an error; with the reply to a native command, or a []any of its replies;
	// for a script with nil if every key had the usual result, otherwise a []any with an element for each.
	Reply(node int, reply any, err error)
	// Over reports that a request need not be sent again: no caller waits for it, or nothing is left to undo.
	Over() bool
	// Retain announces one more call of Done.
	Retain()
	// Done says that the Conn has released the request. It is called once, after Reply, and once for each Retain.
	Done()
}

// unanswered appends a request to those that fail, unless its Round has a reply. Conn.mu is held.
func (r *Request) unanswered(to []*Request) []*Request {
	if r.replied {
		return to
	}
	r.replied = true
	r.Round.Retain()
	return append(to, r)
}

// fail replies an error to requests for which Retain was called.
func fail(requests []*Request, err error) {
	for _, r := range requests {
		r.Round.Reply(r.Node, nil, err)
		r.Round.Done()
	}
}

// callDone releases requests. It is called without mu.
func callDone(requests []*Request) {
	for _, r := range requests {
		r.Round.Done()
	}
}

// filterOver filters a queue in place. over: what nobody waits for, or that has nothing left to undo. mu is held.
func filterOver(queue []*Request) (kept, over []*Request) {
	kept = queue[:0]
	for _, r := range queue {
		if r.Round.Over() || r.replied && !r.Command.Undo {
			over = append(over, r)
		} else {
			kept = append(kept, r)
		}
	}
	clear(queue[len(kept):])
	return kept, over
}

// newAsk returns a request for replies to commands, sent one directly behind the other.
func newAsk(k *Command, asked time.Time, then func(replies []any, err error), commands [][]any) *Request {
	e := &resp.Encoder{}
	for _, command := range commands {
		e.Command(command...)
	}
	m := &Message{Command: k, Asked: asked, Native: e.Bytes(), Replies: len(commands)}
	return &Request{Message: m, Round: askRound(then)}
}

// askRound is the Round of an Ask. A native command is never sent again, and nobody counts the calls of Done.
type askRound func(replies []any, err error)

func (then askRound) Reply(_ int, reply any, err error) {
	replies, _ := reply.([]any)
	then(replies, err)
}

func (askRound) Over() bool { return false }
func (askRound) Retain()    {}
func (askRound) Done()      {}
