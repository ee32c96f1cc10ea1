package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// Subscription is a channel and how to handle its messages.
type Subscription struct {
	Channel   string
	Handshake func(do Do) error // runs with each new second connection, before it subscribes
	// Message is called for one message after the other, and must not block. main: the message came over the connection
	// that the Conn's own Handshake has accepted, not over a second one.
	Message func(message string, main bool)
	Needed  func() bool     // reports whether a caller waits for a message
	Denied  func(err error) // called if the user has no permission; the next attempt follows in a minute
}

// Hear listens over the connection that all requests use, if it speaks RESP3. That costs next to nothing, so it may be
// done before anybody waits. A second connection, and asking again after a refusal, are left to Subscribe.
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

// changeProtocol makes the subscription follow to a new link. mu is held.
func (c *Conn) changeProtocol(l *link) {
	c.protocol = resp2
	if l.resp3 {
		c.protocol = resp3
		c.endSecond()
	}
	c.sendSubscribe()
	wake(c.news)
}

// Hears reports whether messages come, and how often a server has accepted the subscription: between, some are missed.
func (c *Conn) Hears() (hears bool, accepts int64) {
	_, state, _ := c.subscription()
	return state == accepted || c.second.Load(), c.accepts.Load()
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

func (c *Conn) subscribeAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && c.link.subscribing == refused {
		c.link.subscribing = unasked
		c.sendSubscribe()
		c.startWriter()
	}
}

// sendSubscribe queues SUBSCRIBE if the link needs it, and a PING to see that commands are still taken. mu is held.
func (c *Conn) sendSubscribe() {
	l := c.link
	if c.channel == "" || c.draining || l == nil || !l.resp3 || l.subscribing != unasked {
		return
	}
	l.subscribing = asked
	c.enqueue(newAsk(subscribe, c.config.Now(), func([]any, error) {}, [][]any{{"SUBSCRIBE", c.channel}, {"PING"}}))
}

// confirm takes the next reply to SUBSCRIBE and PING. The server confirms a subscription by a push, in order with the
// replies, but refuses one by an error reply. An error of confirm ends the connection, and the next ones stay with
// RESP2: something speaks RESP3, and takes no commands on a subscribed connection all the same. mu is held.
func (c *Conn) confirm(g *group, r resp.Reply) error {
	l := c.link
	_, pushed := r.Value.(resp.Push)
	_, list := r.Value.([]any)
	switch {
	case len(g.replies) > 0: // PING: a connection that is for messages alone is answered by a message
		if pushed || list {
			return errNoCommands
		}
		c.brokeAtSubscribe = false
		return nil
	case r.Err != nil:
		l.subscribing, l.refusal = refused, r.Err
	case pushed:
		l.subscribing = accepted
		c.accepts.Add(1)
	default:
		return errNoCommands
	}
	wake(c.news)
	return nil
}

var errNoCommands = errors.New("no commands are taken on a subscribed connection")

// messageOf returns the message of the channel that a server tells.
func messageOf(said []any, channel string) (message string, ok bool) {
	if len(said) != 3 || text(said[0]) != "message" || text(said[1]) != channel {
		return "", false
	}
	return text(said[2]), true
}

// isReply reports whether a push is a reply to the oldest request.
func isReply(p resp.Push, oldest *group) bool {
	asked := oldest != nil && oldest.command == subscribe && len(p) > 0
	return asked && (text(p[0]) == "subscribe" || text(p[0]) == "pong")
}

// hear passes a message on. It is called by the reader, without mu.
func (c *Conn) hear(message string) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	if c.message != nil {
		c.message(message, true)
	}
}

// Subscribe listens until ctx is done, over the connection that all requests use if it speaks RESP3, otherwise over a
// second one, and again over those that replace them. It may be called once. SUBSCRIBE goes ahead of the requests that
// are sent after Subscribe has returned. ended waits for the end, after which Message is not called any more.
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

// follow keeps the subscription on the right connection until ctx is done.
func (c *Conn) follow(ctx context.Context, s *Subscription) {
	for ctx.Err() == nil {
		switch speaks, _, _ := c.subscription(); speaks {
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
			if sleep(ctx, s.pause(refusal, failures), nil) != nil {
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
	if !resp.Is(err, resp.Forbidden) {
		return reconnectDelay(failures)
	}
	s.Denied(err)
	return time.Minute
}

// overSecond listens over a second connection, since without RESP3 a subscribed one takes no commands, and connects
// again whenever that is lost. It returns when ctx is done or the first connection speaks RESP3.
func (c *Conn) overSecond(ctx context.Context, s *Subscription) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	c.endSecond = cancel
	if c.protocol == resp3 {
		cancel()
	}
	c.mu.Unlock()
	for failures := 0; ctx.Err() == nil; failures++ {
		w, err := c.dialer.establish(ctx, func(_ context.Context, w *wire) error { return s.Handshake(w.do) })
		if err == nil {
			stop := context.AfterFunc(ctx, w.close)
			var subscribed bool
			if subscribed, err = c.listen(w, s); subscribed && !isBreach(err) {
				failures = 0
			}
			stop()
			w.close()
		}
		if sleep(ctx, s.pause(err, failures), nil) != nil {
			return
		}
	}
}

// listen passes messages on until the connection breaks. It reports whether the server accepted the subscription.
func (c *Conn) listen(w *wire, s *Subscription) (subscribed bool, _ error) {
	w.decoder.Strict = false
	w.encoder.Command("SUBSCRIBE", s.Channel)
	if err := w.encoder.Flush(w.net); err != nil {
		return false, err
	}
	var unanswered atomic.Bool // a ping was sent, and no answer has come
	stop := make(chan struct{})
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { c.heartbeat(stop, w, s.Needed, &unanswered) })
	defer heartbeat.Wait()
	defer close(stop)
	defer c.second.Store(false)
	for got, err := []resp.Reply(nil), error(nil); ; {
		if got, err = w.take(got[:0], c.config.Now); err != nil {
			return subscribed, err
		}
		for _, r := range got {
			if r.Err != nil {
				return subscribed, r.Err
			}
			said, _ := r.Value.([]any)
			message, ok := messageOf(said, s.Channel)
			switch {
			case ok:
				s.Message(message, false)
			case len(said) == 3 && text(said[0]) == "subscribe":
				subscribed = true
				c.second.Store(true)
				c.accepts.Add(1)
			case said == nil || len(said) == 2 && text(said[0]) == "pong": // a push is an array
				unanswered.Store(false)
			}
			if err := w.flow.count(message, ok, c.config.Now()); err != nil {
				return subscribed, err
			}
		}
	}
}

// heartbeat pings while a message is needed, and closes the connection if a ping has no answer by the next: it may be
// half-open, as a firewall or a restarted host forgot it, and a caller would wait in vain until TCP's keepalive fails.
func (c *Conn) heartbeat(stop <-chan struct{}, w *wire, needed func() bool, unanswered *atomic.Bool) {
	defer w.close()
	tick := time.NewTicker(c.config.ConnectTimeout)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if unanswered.Load() {
			return
		}
		if !needed() {
			continue
		}
		unanswered.Store(true)
		w.encoder.Command("PING", "")
		_ = w.net.SetWriteDeadline(c.config.Now().Add(c.config.ConnectTimeout))
		if w.encoder.Flush(w.net) != nil {
			return
		}
	}
}
