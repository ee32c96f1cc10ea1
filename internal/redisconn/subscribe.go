package redisconn

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Subscription is a channel and how to handle its messages.
type Subscription struct {
	Channel string
	// Handshake runs with each new second connection, before it subscribes.
	Handshake func(do Do) error
	// Message is called for one message after the other, and must not block. main: the message came over the connection
	// that the Conn's own Handshake has accepted, not over a second one.
	Message func(message string, main bool)
	Needed  func() bool     // reports whether a caller waits for a message
	Denied  func(err error) // called if the user has no permission; the next attempt follows in a minute
}

// protocol is what a link speaks.
type protocol uint8

// The protocols. The zero value: there was no link yet.
const (
	resp2 protocol = 2
	resp3 protocol = 3
)

// subscribing is how far a link's subscription is.
type subscribing uint8

const (
	unasked subscribing = iota
	asked
	accepted
	refused
)

// subscribe is the Command of a SUBSCRIBE over a link that takes requests.
var subscribe = &Command{}

// Subscribe listens until ctx is done: over the connection that all requests use if it speaks RESP3, otherwise over a
// second one. It follows when the connection is lost and another one replaces it. It may be called once. If there is a
// connection, SUBSCRIBE goes ahead of the requests that are sent after Subscribe has returned. ended waits for the end,
// after which Message is not called any more.
func (c *Conn) Subscribe(ctx context.Context, s *Subscription) (ended func()) {
	c.Hear(s)
	var running sync.WaitGroup
	running.Go(func() {
		c.follow(ctx, s)
		c.hearing.Lock()
		c.message = nil
		c.hearing.Unlock()
	})
	return running.Wait
}

// Hear listens over the connection that all requests use, each time that it speaks RESP3. That costs next to nothing,
// so it may be done before anybody waits for a message. What else it takes is left to Subscribe: a second connection,
// and to ask again after a refusal.
func (c *Conn) Hear(s *Subscription) {
	c.hearing.Lock()
	c.message = s.Message
	c.hearing.Unlock()
	c.mu.Lock()
	c.channel = s.Channel
	c.sendSubscribe()
	c.startWriter()
	c.mu.Unlock()
}

// follow keeps the subscription on the right connection until ctx is done.
func (c *Conn) follow(ctx context.Context, s *Subscription) {
	for ctx.Err() == nil {
		c.mu.Lock()
		speaks := c.protocol
		c.mu.Unlock()
		switch speaks {
		case resp3:
			c.overMain(ctx, s)
		case resp2:
			c.overSecond(ctx, s)
		default: // which protocol it will be is not known yet
			c.awaited.Store(true)
			select {
			case <-c.news:
			case <-ctx.Done():
			}
			c.awaited.Store(false)
		}
	}
}

// overMain keeps the subscription on the connection that all requests use. It returns when ctx is done or when that
// speaks RESP2. The reader passes the messages on, and each new connection subscribes by itself. What is left is to ask
// again after a refusal, and to find out that the connection is half-open: see heartbeat.
func (c *Conn) overMain(ctx context.Context, s *Subscription) {
	tick := time.NewTicker(c.config.ConnectTimeout)
	defer tick.Stop()
	for failures := 0; ; {
		speaks, state, refusal := c.subscription()
		switch {
		case speaks != resp3:
			return
		case state == accepted:
			failures = 0
		case state == refused:
			if sleep(ctx, s.pause(refusal, failures)) != nil {
				return
			}
			failures++
			c.subscribeAgain()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.Needed() {
				c.Ask(func([]any, error) {}, []any{"PING"}) // the watchdog watches for the reply
			}
		case <-c.news:
		}
	}
}

// pause returns how long to wait after a failed attempt to subscribe. It reports a lack of permission.
func (s *Subscription) pause(err error, failures int) time.Duration {
	if Code(err) != "NOPERM" {
		return reconnectDelay(failures)
	}
	s.Denied(err)
	return time.Minute
}

// subscription returns the protocol of the last link, and how far its subscription is.
func (c *Conn) subscription() (protocol, subscribing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return c.protocol, unasked, nil
	}
	return c.protocol, c.link.subscribing, c.link.refusal
}

// subscribeAgain asks again after a refusal.
func (c *Conn) subscribeAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && c.link.subscribing == refused {
		c.link.subscribing = unasked
		c.sendSubscribe()
		c.startWriter()
	}
}

// sendSubscribe queues SUBSCRIBE if the link needs it. The PING behind it shows that the server still takes commands:
// see confirm. It is called with mu held.
func (c *Conn) sendSubscribe() {
	l := c.link
	if c.channel == "" || c.draining || l == nil || !l.resp3 || l.subscribing != unasked {
		return
	}
	l.subscribing = asked
	e := &Encoder{}
	e.AddString("SUBSCRIBE")
	e.AddString(c.channel)
	e.end()
	e.AddString("PING")
	e.end()
	m := &Message{Command: subscribe, Asked: c.config.Now(), Native: e.buf, Replies: 2}
	c.enqueue(&Request{Message: m, Round: &askRound{func([]any, error) {}, m.Replies}})
}

// confirm takes the next reply to SUBSCRIBE and PING. The server confirms a subscription by a push, in order with the
// replies, but refuses one by an error reply. An error ends the connection, and the next ones stay with RESP2: the
// server, or a proxy, speaks RESP3 and takes no commands on a subscribed connection all the same. confirm is called
// with mu held.
func (c *Conn) confirm(g *group, r reply) error {
	l := c.link
	_, pushed := r.value.(push)
	_, list := r.value.([]any)
	switch {
	case len(g.replies) > 0: // PING: a connection that is for messages alone is answered by a message
		if pushed || list {
			return errNoCommands
		}
		c.brokeAtSubscribe = false
		return nil
	case r.err != nil:
		l.subscribing, l.refusal = refused, r.err
	case pushed:
		l.subscribing = accepted
	default:
		return errNoCommands
	}
	c.tellSubscriber()
	return nil
}

var errNoCommands = errors.New("no commands are taken on a subscribed connection")

// tellSubscriber wakes follow because the link or its subscription has changed.
func (c *Conn) tellSubscriber() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// heard returns the message of a push. A message that nothing was subscribed for does not count. It is called with mu
// held.
func (c *Conn) heard(p push) (message string, ok bool) {
	if c.link.subscribing != accepted || len(p) != 3 || text(p[0]) != "message" || text(p[1]) != c.channel {
		return "", false
	}
	return text(p[2]), true
}

// isReply reports whether a push is a reply to the oldest request.
func isReply(p push, oldest *group) bool {
	if oldest == nil || oldest.command != subscribe || len(p) == 0 {
		return false
	}
	kind := text(p[0])
	return kind == "subscribe" || kind == "pong"
}

// hear passes a message on. It is called by the reader, without mu.
func (c *Conn) hear(message string) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	if c.message != nil {
		c.message(message, true)
	}
}
