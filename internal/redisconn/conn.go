package redisconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Conn keeps a connection to one server.
type Conn struct {
	config   Config
	dialer   dialer
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

	// hearing guards message, and is held while it is called. It is locked before mu, if both are.
	hearing sync.Mutex
	message func(message string, main bool) // Subscription.Message; nil: nobody listens
	second  atomic.Bool                     // a second connection is subscribed
	accepts atomic.Int64                    // see Hears

	// mu guards the fields below. While it is held, Over and Retain are the only methods of a Round that may be called:
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
	since        time.Time     // when the last link was made
	brief        bool          // it lasted for less than a second
	retries      int           // not connected: how many more attempts may fail before requests fail fast
	suspicion                  // of the link's server
	nextDeadline time.Time     // when the watchdog will fire; zero: it is not set
	draining     bool          // only undos are accepted
	drained      chan struct{} // closed when draining and nothing is queued or in flight, or there will be no connection
	checkDue     bool          // a check was asked for, and none has begun since
	idleChecks   int           // how many have begun since the last request, apart from Ask's

	channel          string             // of Hear and Subscribe; "": none
	protocol         protocol           // of the last link
	endSecond        context.CancelFunc // ends the second connection of Subscribe, if there is one
	brokeAtSubscribe bool               // the connection before ended with SUBSCRIBE unanswered
}

// link is a connection that takes requests.
type link struct {
	*wire

	batch []*group // what the writer sends next; owned by the writer, like encoder
	write func()   // the writer; made once, so that starting it allocates nothing

	users sync.WaitGroup // the writer and the check; to add to it needs Conn.mu, and that ended is not set

	// Guarded by Conn.mu:
	writing  bool               // there is a writer, or writing has failed
	took     time.Duration      // when the writer took the batch that it is writing: after Conn.since; 0: it writes none
	endCheck context.CancelFunc // ends the context of the check; nil: there is none
	ended    bool               // no writer and no check may begin
	failure  error              // of the writer or the check; nil: the reader's error ends the link

	subscribing subscribing
	refusal     error // of the last SUBSCRIBE
}

// subscribing is how far a link's subscription is.
type subscribing uint8

const (
	unasked subscribing = iota
	asked
	accepted
	refused
)

// State returns whether there is a connection, and why the server cannot answer at present; nil: it can.
func (c *Conn) State() (connected bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && !c.unresponsive.IsZero() {
		return true, ErrTimeout
	}
	return c.link != nil, c.down
}

// say takes the reason why there has been no connection for a while.
func (c *Conn) say(reason error, awhile time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.link != nil:
	case awhile < c.config.ConnectTimeout && errors.Is(c.down, errConnecting): // the first attempt is awaited still
		c.down = fmt.Errorf("%w: %w", errConnecting, reason)
	default:
		c.down = fmt.Errorf("%w: %w", ErrDown, reason)
	}
}

// Returns reports whether there is no connection and, as far as is known, will be one soon: the server has broken the
// last one, after a while, and neither refused the next nor been silent; or the first attempt has not ended yet.
func (c *Conn) Returns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link == nil && c.retries > 0 && !c.brief
}

// Backlog returns how many requests wait to be sent or sent again, without what goes ahead of them: see OnConnect.
func (c *Conn) Backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) - c.ahead + len(c.postponed)
}

// Wanted says that somebody needs the connection. If there is none, the next attempt comes within a second, even after
// silence. A request that fails for lack of a connection says so, too.
func (c *Conn) Wanted() { wake(c.wanted) }

// changed calls Config.OnChange. It is called without mu, because OnChange may call State.
func (c *Conn) changed() {
	if c.config.OnChange != nil && c.ctx.Err() == nil {
		c.config.OnChange()
	}
}

// fail ends a connection because its writer or its check failed, or because nothing comes. It makes the reader return.
func (c *Conn) fail(l *link, err error) {
	c.mu.Lock()
	if l.failure == nil {
		l.failure = err
	}
	c.mu.Unlock()
	if c.ctx.Err() == nil {
		l.abort()
	}
}

// eachUnanswered visits the unanswered requests, in order, with the time when each was sent; zero: not yet. mu is held.
func (c *Conn) eachUnanswered(visit func(r *Request, sent time.Time)) {
	for i := range c.inFlight.n {
		g := c.inFlight.at(i)
		for _, r := range g.requests[g.answered:] {
			visit(r, c.since.Add(g.sent))
		}
	}
	for _, r := range c.queue {
		visit(r, time.Time{})
	}
}

// checkDrained ends Drain if nothing is left, or nothing can be had any more: a connection that has just broken is made
// anew, and takes what is to be undone. It is called after the Rounds have their replies.
func (c *Conn) checkDrained() {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := c.link == nil && c.retries == 0 || len(c.queue)+len(c.postponed)+c.inFlight.total == 0
	if c.draining && over && !isClosed(c.drained) {
		close(c.drained)
	}
}
