// Package redisconn keeps one connection to one Redis server, shared by any number of callers: ordered, multiplexed
// and batched.
//
// It knows Redis: URLs, TLS, authentication, the protocol, scripts, pub/sub, and how connections fail. It knows no
// locks, no votes and no other servers; what a reply means is its callers' affair.
//
// Callers append requests to a queue. A writer takes all that are queued and sends them with one system call; a reader
// hands out the replies, which come in the order of the requests. So nobody waits for a connection, a batch costs one
// system call, and what is sent later is carried out later: an undo takes effect behind what it undoes, even where the
// server has not read that yet.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
)

// Why a request has no reply.
var (
	ErrTimeout = errors.New("no answer within the node timeout")
	ErrDown    = errors.New("not connected")
	ErrBusy    = errors.New("too many unanswered requests")
	ErrClosed  = errors.New("closed")
)

// Config is how to reach the server and what to do with a new connection.
type Config struct {
	Timeout        time.Duration // for each request, from Message.Asked on
	ConnectTimeout time.Duration // for dialling and the handshake; and how long a silent server is waited for
	TLS            *tls.Config   // nil: the system's roots, TLS 1.2
	Now            func() time.Time
	Scripts        []*lua.Script // loaded into the server with each new connection
	ExtraKey       string        // the last key of commands that want it

	// Dial is the net package's where it is nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Handshake is run with each new connection before it takes requests. An error refuses the server.
	Handshake func(do Do) error
	// Attend is run beside each connection until ctx is done. An error gives the connection up.
	Attend func(ctx context.Context) error
	// Lost is run whenever a connection has ended, or an attempt to connect.
	Lost func()
	// Changed is told that State has changed. The first time is the outcome of the first attempt to connect.
	Changed func()
	// Explain gives an error reply the type that users see. command is what was refused, where that is known.
	Explain func(err error, command string) error
}

// Do sends commands and waits for the replies. A reply that is an error is a redis.Error among the replies; the error
// says that there are none.
type Do func(commands ...[]any) (replies []any, err error)

// Command is one of the things that a server can be asked: a native command, or a script that takes any number of
// keys at once. All requests of a batch with the same script are sent as one call of it. Its reply is the number of
// keys where all went as usual, or else a list with an element for each key.
type Command struct {
	Script   *lua.Script                      // nil: a native command
	Args     func(all []*Request, e *Encoder) // script: appends the arguments for all requests
	ExtraKey bool                             // script: Config.ExtraKey is the last key
	// Undo: it must reach the server if what it undoes may have. So it is kept while the server is away, sent again where
	// nobody can tell whether it was carried out, and repeated where it was refused for the time being.
	Undo bool
	// Spare: an Undo that is not kept for a server that is away and has much to catch up with already.
	Spare bool
}

// Message is what is sent to several servers in the same bytes: written before the first gets it, then read-only.
type Message struct {
	Command *Command
	Asked   time.Time // the time-out counts from here
	Hashes  []uint64  // of the keys. Requests about one key stay in order; others may change places within a batch
	Keys    []byte    // script: the keys, encoded
	Native  []byte    // native: the whole command, encoded
}

// Request is a message to one server.
type Request struct {
	*Message
	Round Round
	Node  int // which server's request it is: what Round.Reply is told

	replied bool // Round.Reply was called or will be, by whoever set this; guarded by Conn.mu
	eval    bool // send the script, not its name; guarded by Conn.mu
}

// Round is what requests belong to. A Conn calls it without holding any mutex, and must not be kept waiting.
type Round interface {
	// Reply is called once for each request: with what a native command replied; for a script with nil where all keys
	// went as usual, or else with a []any that has an element for each key of the request; or with an error.
	Reply(node int, reply any, err error)
	// Over reports that a request need not be sent again: nobody waits for it, or there is nothing left to undo.
	Over() bool
	// Hold announces one more call of Done.
	Hold()
	// Done says that the Conn will not touch the request any more. It is called once for each request sent, later than
	// Reply, and once for each Hold.
	Done()
}

// Conn keeps a connection to one server.
type Conn struct {
	server   server
	config   Config
	watchdog *time.Timer        // runs expire; set under mu
	retry    *time.Timer        // runs retryUndos; set under mu
	kick     chan struct{}      // holds a value when the queue may have something for the writer
	stopped  chan struct{}      // closed by run when it returns
	ctx      context.Context    // ends run
	cancel   context.CancelFunc // ends ctx

	mu        sync.Mutex    // guards the fields below. No Round is called while it is held, but for Over and Hold
	queue     []*Request    // not yet written, in order
	flight    groups        // written and not yet answered, in order
	postponed []*Request    // undos that were refused, and are to be sent again
	batch     batch         // sorts the queue into groups
	link      *link         // nil: not connected
	down      error         // why not connected
	silent    time.Time     // not zero: has let a request grow too old, and has said nothing since
	grace     bool          // the watchdog has fired late, and will fire again
	deadline  time.Time     // when the watchdog will look; zero: it is not set
	draining  bool          // only undos are taken
	drained   chan struct{} // closed when draining and nothing is owed any more
}

// maxQueue bounds the requests that may be unanswered. Undos are exempt: there is at most one for each request taken
// before.
const maxQueue = 1 << 13

// New returns a Conn to the server at a URL: redis://, rediss:// or unix://. It connects when it is started. The error
// quotes nothing that may be part of a password.
func New(url string, config Config) (*Conn, error) {
	at, err := parseServer(url)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		server: at, config: config, down: errConnecting,
		kick: make(chan struct{}, 1), stopped: make(chan struct{}), drained: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.watchdog = time.AfterFunc(time.Hour, c.expire)
	c.watchdog.Stop()
	c.retry = time.AfterFunc(time.Hour, c.retryUndos)
	c.retry.Stop()
	return c, nil
}

var errConnecting = notConnected("yet")

// Addr names the server for people, without user and password.
func (c *Conn) Addr() string { return c.server.String() }

// Start connects, and connects again whenever the connection is lost, until Close.
func (c *Conn) Start() { go c.run() }

// State returns whether there is a connection, and why a request would not be answered.
func (c *Conn) State() (connected bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && !c.silent.IsZero() {
		return true, ErrTimeout
	}
	return c.link != nil, c.down
}

// Backlog returns how many requests wait to be sent, or to be repeated.
func (c *Conn) Backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) + len(c.postponed)
}

// Drain stops taking requests other than undos and returns when none is unanswered, at the latest when ctx is done.
func (c *Conn) Drain(ctx context.Context) {
	c.mu.Lock()
	c.draining = true
	over := c.resume() // for the last time
	c.checkDrained()
	c.mu.Unlock()
	letGo(over)
	c.wakeWriter()
	select {
	case <-c.drained:
	case <-ctx.Done():
	}
}

// checkDrained is called with mu held while draining.
func (c *Conn) checkDrained() {
	if (c.link == nil || len(c.queue)+c.flight.total == 0) && !isClosed(c.drained) {
		close(c.drained)
	}
}

// Stop begins to close the connection and does not wait.
func (c *Conn) Stop() { c.cancel() }

// Close closes the connection and waits for the goroutines of a Conn that was started.
func (c *Conn) Close() {
	c.cancel()
	<-c.stopped
	c.watchdog.Stop()
	c.retry.Stop()
}

// Code returns the first word of an error reply: NOPERM, OOM …, or ERR; and "" where err is none. MAXCLIENTS stands for
// "max number of clients reached", for which servers have no word. Before Redis 7, what a script fails with is quoted
// inside an ERR of its own.
func Code(err error) string {
	if err == nil {
		return ""
	}
	return codeOf(err) // which allocates
}

func codeOf(err error) string {
	var said redis.Error
	if !errors.As(err, &said) {
		return ""
	}
	reply := string(said)
	if strings.Contains(reply, "max number of clients") {
		return "MAXCLIENTS"
	}
	code, rest, _ := strings.Cut(reply, " ")
	if strings.HasPrefix(rest, "Error running script") {
		if _, quoted, ok := strings.Cut(rest, ": -"); ok {
			code, _, _ = strings.Cut(quoted, " ")
		}
	}
	if code != strings.ToUpper(code) {
		return "ERR"
	}
	return code
}

// passes reports whether the server did nothing, for a reason that may be over soon.
func passes(err error) bool {
	return slices.Contains([]string{"BUSY", "LOADING", "MISCONF", "NOREPLICAS", "OOM"}, Code(err))
}

// isErrorReply reports whether err is what the server itself said, so that the connection is sound.
func isErrorReply(err error) bool {
	_, ok := err.(redis.Error) //nolint:errorlint // redigo never wraps it, and every reply passes here
	return ok
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
