// Package redisconn keeps one connection to one Redis server. Any number of callers share it: requests are batched,
// pipelined and kept in order.
//
// It knows Redis: URLs, TLS, authentication, the protocol, scripts, pub/sub, and how connections fail. It knows no
// locks, no votes and no other servers; callers interpret the replies.
//
// Callers append requests to a queue. A writer takes everything in the queue and sends it with one system call; a
// reader hands out the replies, which come in the order of the requests. So no caller waits for a free connection, a
// batch costs one system call, and requests about one key take effect in the order in which they were sent: an undo
// follows the request that it undoes, even if the server has not read that request yet.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
)

// The reasons why a request has no reply.
var (
	ErrTimeout = errors.New("no answer within the node timeout")
	ErrDown    = errors.New("not connected")
	ErrBusy    = errors.New("too many unanswered requests")
	ErrClosed  = errors.New("closed")
	// ErrLate is an ErrTimeout of which the server is innocent: this process sent the request, or reads, too late.
	ErrLate error = timeoutError{"no answer within the node timeout: this process was late to ask or to read"}
)

// Config says how to reach the server and what to do with a new connection.
type Config struct {
	Timeout        time.Duration // for each request, counted from Message.Asked
	ConnectTimeout time.Duration // for dialling and the handshake; an unresponsive server gets a new connection after it
	TLS            *tls.Config   // nil: the system's roots, TLS 1.2
	Now            func() time.Time
	Scripts        []*lua.Script // loaded into the server with each new connection
	ExtraKey       string        // the last key of each command that has ExtraKey set

	// Dial replaces the net package's dialer. It may be nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialID is the same for Configs with the same Dial. What is nil for a Dial that is not is no other's.
	DialID any
	// Credentials is asked for user and password at each attempt to connect, in place of the URL, which must have none. An
	// empty password means no authentication. ctx ends after credentialsTimeout, or at Stop. It may be nil.
	Credentials func(ctx context.Context, addr string) (user, password string, err error)
	// Handshake runs with each new connection before the connection takes requests. An error refuses the server.
	Handshake func(do Do) error
	// Check looks now and then whether the server is still the one of the handshake: see CheckSoon. It runs in a goroutine
	// of its own, only while there is a connection, and never twice at a time. An error closes the connection. ctx is done
	// when the connection has ended. Check may be nil.
	Check func(ctx context.Context) error
	// CheckEvery is the mean interval between two checks; it varies at random between half and 1.5 times that.
	CheckEvery time.Duration
	// OnDisconnect runs after each connection that ended and after each failed attempt to connect.
	OnDisconnect func()
	// OnConnect runs when there is a new connection, before OnChange. What it sends by Ask goes ahead of the requests that
	// waited for the connection. It must not wait for an answer.
	OnConnect func()
	// OnChange runs after each change of State. Its first run tells the outcome of the first attempt to connect.
	OnChange func()
	// Explain turns an error reply into the type that users see. command is the refused command, "" if unknown.
	Explain func(err error, command string) error
}

// Do sends commands and waits for the replies. An error reply is a redis.Error among the replies; err is not nil only
// if there are no replies.
type Do func(commands ...[]any) (replies []any, err error)

// Command is a native command, or a script that takes any number of keys. All requests of a batch with the same script
// are sent as one call of it. The script replies the number of keys if every key had the usual result, otherwise a list
// with an element for each key.
type Command struct {
	Script   *lua.Script                      // nil: a native command
	Args     func(all []*Request, e *Encoder) // script: appends the arguments for all requests
	ExtraKey bool                             // script: Config.ExtraKey is the last key
	// Undo: it must reach the server if the request that it undoes may have reached it. So it stays queued while the
	// server is away, is sent again if nobody can tell whether the server executed it, and is repeated after a transient
	// error.
	Undo bool
	// Urgent: it goes before the other requests of its batch.
	Urgent bool
	// BestEffort: an Undo that is not kept for a server that is away while the queue is long already.
	BestEffort bool
}

// Message is what several servers are sent in the same bytes. It is written before the first Send, then read-only.
type Message struct {
	Command *Command
	Asked   time.Time // the time-out counts from here
	Hashes  []uint64  // of the keys. Requests about one key stay in order; others may change places within a batch
	Keys    []byte    // script: the keys, encoded
	Native  []byte    // native: the whole command, encoded, or several commands in a row
	Replies int       // native: how many replies that makes; 0: one
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
	// Reply is called once for each request: with the reply of a native command, or a []any of the replies to several;
	// for a script with nil if every key had the usual result, otherwise with a []any that has an element for each key of
	// the request; or with an error.
	Reply(node int, reply any, err error)
	// Over reports that a request need not be sent again: no caller waits for it, or nothing is left to undo.
	Over() bool
	// Retain announces one more call of Done.
	Retain()
	// Done says that the Conn has released the request. It is called once for each request sent, after Reply, and once
	// for each Hold.
	Done()
}

// Conn keeps a connection to one server.
type Conn struct {
	server   server
	address  *address // set before run begins
	config   Config
	watchdog *time.Timer        // runs expire; set under mu
	retry    *time.Timer        // runs retryUndos; set under mu
	check    *time.Timer        // runs runCheck; set under mu
	stopped  chan struct{}      // closed by run when it returns
	ctx      context.Context    // ends run
	cancel   context.CancelFunc // ends ctx
	closing  sync.WaitGroup     // of Stop
	news     chan struct{}      // wakes follow; its buffer has room for one
	wanted   chan struct{}      // see Wanted; likewise
	awaited  atomic.Bool        // a subscription waits for the first connection

	plainUntil time.Time // until then no HELLO is sent; owned by run

	// hearing guards message, and is held while it is called. It is locked before mu, if both are.
	hearing sync.Mutex
	message func(message string, main bool) // Subscription.Message; nil: nobody listens

	// mu guards the fields below. While it is held, Over and Hold are the only methods of a Round that may be called:
	// Reply and Done run callers' code, which may lock a mutex of its own, and call Send.
	mu           sync.Mutex
	queue        []*Request    // not yet written, in order
	inFlight     groups        // written and not yet answered, in order
	postponed    []*Request    // undos that failed with a transient error and will be sent again
	batch        batch         // sorts the queue into groups
	link         *link         // nil: not connected
	opening      bool          // OnConnect has not returned yet, and nothing is written
	ahead        int           // so many requests, at the head of the queue, go ahead of those that waited for the link
	down         error         // why not connected
	inquiry      *inquiry      // for credentials, under way or not used yet; nil: none
	since        time.Time     // when the last link was made
	brief        bool          // it lasted for less than a second
	hope         int           // not connected: how many more attempts may fail before requests are refused
	unresponsive time.Time     // since when: a request timed out then, and no reply has come since; zero: it responds
	giveUp       time.Time     // when an unresponsive server's connection is replaced
	spared       spared        // of the unresponsive connection
	grace        bool          // the watchdog fired late, and will fire again
	starved      int           // how often in a row it fired late, and no reply has come since
	nextDeadline time.Time     // when the watchdog will fire; zero: it is not set
	draining     bool          // only undos are accepted
	drained      chan struct{} // closed when draining and nothing is queued or in flight, or the connection is lost
	checkDue     bool          // a check was asked for, and none has begun since
	idleChecks   int           // how many have begun since the last request, apart from Ask's

	channel          string             // of Hear and Subscribe; "": none
	protocol         protocol           // of the last link
	endSecond        context.CancelFunc // ends the second connection of Subscribe; nil: there was none
	brokeAtSubscribe bool               // the connection before ended with SUBSCRIBE unanswered
}

// MaxQueue bounds the unanswered requests. Undos are exempt: at most one follows each accepted request.
const MaxQueue = 1 << 14

// New returns a Conn to the server at a URL: redis://, rediss:// or unix://. Start connects it. The error quotes
// nothing that may be part of a password.
func New(url string, config Config) (*Conn, error) {
	at, err := parseServer(url)
	if err != nil {
		return nil, err
	}
	if config.Credentials != nil && (at.username != "" || at.password != "") {
		return nil, errors.New("the URL has a user or a password, and so would WithCredentials: leave them out of the URL")
	}
	c := &Conn{
		server: at, config: config, address: newAddress(), down: errConnecting, hope: 1, wanted: make(chan struct{}, 1),
		stopped: make(chan struct{}), drained: make(chan struct{}), news: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.watchdog, c.retry, c.check = idleTimer(c.expire), idleTimer(c.retryUndos), idleTimer(c.runCheck)
	return c, nil
}

// idleTimer returns a timer that runs f each time it was set.
func idleTimer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

var errConnecting = fmt.Errorf("%w yet", ErrDown)

// Addr names the server for humans, without user and password.
func (c *Conn) Addr() string { return c.server.String() }

// SameURL reports whether both were made with URLs that say the same.
func (c *Conn) SameURL(other *Conn) bool { return c.server == other.server }

// Start connects, and connects again whenever the connection is lost, until Close.
func (c *Conn) Start() {
	if key, shared := c.addressKey(); shared {
		c.address = key.join(c.address)
	}
	go c.run()
}

// addressKey returns the key of the Conn's address; shared is false if no other Conn can have the same.
func (c *Conn) addressKey() (key addressKey, shared bool) {
	shared = c.config.Dial == nil || c.config.DialID != nil
	return addressKey{c.config.DialID, c.server.network, c.server.address}, shared
}

// State returns whether there is a connection, and why the server cannot answer at present; nil: it can.
func (c *Conn) State() (connected bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && !c.unresponsive.IsZero() {
		return true, ErrTimeout
	}
	return c.link != nil, c.down
}

// Returns reports whether there is no connection, and will be one soon, for all that is known: the server has broken
// the last one, which had lasted for a while, and has neither refused the next nor been silent. Likewise before the
// first attempt to connect has ended.
func (c *Conn) Returns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link == nil && c.hope > 0 && !c.brief
}

// Backlog returns how many requests wait to be sent or sent again, without what goes ahead of them: see OnConnect.
func (c *Conn) Backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) - c.ahead + len(c.postponed)
}

// Drain stops accepting requests other than undos. It returns when all requests are answered, when the connection is
// lost, or when ctx is done.
func (c *Conn) Drain(ctx context.Context) {
	c.mu.Lock()
	c.draining = true
	over := c.requeuePostponed() // for the last time
	c.startWriter()
	c.mu.Unlock()
	callDone(over)
	c.checkDrained()
	select {
	case <-c.drained:
	case <-ctx.Done():
	}
}

// checkDrained ends Drain if nothing is left. It is called while draining, after the Rounds have their replies.
func (c *Conn) checkDrained() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if (c.link == nil || len(c.queue)+c.inFlight.total == 0) && !isClosed(c.drained) {
		close(c.drained)
	}
}

// Stop begins to close the connection and does not wait.
func (c *Conn) Stop() {
	c.cancel()
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		c.closing.Go(l.close) // with TLS, it may wait for room for the last alert
	}
}

// Close closes the connection of a Conn that was started and waits for its goroutines.
func (c *Conn) Close() {
	c.Stop()
	<-c.stopped
	c.closing.Wait()
	if key, shared := c.addressKey(); shared {
		key.leave(c.address)
	}
	c.watchdog.Stop()
	c.retry.Stop()
	c.check.Stop()
}

// TLS reports whether the server is to speak TLS.
func (c *Conn) TLS() bool { return c.server.tls }

// Code returns the error code of an error reply, its first word: NOPERM, OOM …, or ERR; "" if err is no error reply.
// MAXCLIENTS stands for "max number of clients reached", which has no code of its own. Before Redis 7, the error that a
// script fails with is quoted inside an ERR.
func Code(err error) string {
	if err == nil {
		return ""
	}
	return codeOf(err) // apart, since it allocates
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

// isTransient reports whether the server did not execute the command, for a reason that may pass soon.
func isTransient(err error) bool {
	return slices.Contains([]string{"BUSY", "LOADING", "MISCONF", "NOREPLICAS", "OOM"}, Code(err))
}

// isErrorReply reports whether the server itself sent the error, so that the connection is sound.
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
