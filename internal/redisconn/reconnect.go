package redisconn

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// run connects, serves the connection, and connects again, until Stop.
func (c *Conn) run() {
	defer close(c.stopped)
	for failures := 0; ; failures++ {
		w, err := c.dialer.connect(c.ctx)
		if err == nil {
			l := &link{wire: w}
			l.write = func() { c.write(l) }
			c.connected(l)
			err = c.serve(l)
		}
		c.disconnected(err)
		if w != nil && !(c.brief && isBreach(err)) {
			failures = 0
		}
		if c.rest(failures, err) != nil {
			c.mu.Lock()
			c.retries = 0 // what waits for a connection fails, since there will be none
			c.mu.Unlock()
			c.loseRequests()
			return
		}
	}
}

// rest pauses before the next attempt to connect, and for longer than reconnectDelay unless somebody wants the
// connection: a thousand clients that nobody uses must not make attempts all the while that a server is away.
func (c *Conn) rest(failures int, after error) error {
	err, longer := sleep(c.ctx, reconnectDelay(failures), nil), idleDelay(failures, after)
	if err != nil || longer == 0 || c.Backlog() > 0 || c.awaited.Load() { // undos must get there
		return err
	}
	return sleep(c.ctx, longer, c.wanted)
}

// serve reads from the connection until it ends, and returns when nothing uses it any more. Writers and checks run
// beside it, each only while it has something to do: an idle connection is one goroutine, which reads.
func (c *Conn) serve(l *link) error {
	if c.ctx.Err() != nil { // Stop may have come before the link was known
		l.close()
	}
	err := c.read(l)
	c.mu.Lock()
	l.ended = true
	if l.failure != nil {
		err = l.failure
	}
	if l.endCheck != nil {
		l.endCheck()
	}
	c.mu.Unlock()
	if c.ctx.Err() == nil { // not at Stop: what was written before it must reach the server
		l.abort()
	}
	l.close()
	l.users.Wait()
	return err
}

func (c *Conn) connected(l *link) {
	var unanswered, over []*Request
	c.mu.Lock()
	down := c.down
	c.link, c.since, c.down, c.unresponsive = l, c.config.Now(), nil, time.Time{}
	// Nothing is written until what goes ahead of the queue is in it. Requests that come meanwhile must stay behind those
	// that waited, since they may be their undos.
	c.opening, l.writing = true, true
	c.queue, over = filterOver(c.queue)
	for _, r := range over {
		unanswered = r.unanswered(unanswered)
	}
	c.changeProtocol(l)
	c.mu.Unlock()
	fail(unanswered, down)
	callDone(over)
	c.checkDrained()
	if c.config.OnConnect != nil && c.ctx.Err() == nil {
		c.config.OnConnect()
	}
	c.mu.Lock()
	c.opening, l.writing = false, false
	c.startWriter()
	c.setCheck()
	c.mu.Unlock()
	c.changed()
}

// disconnected notes that a connection or an attempt to connect has ended.
func (c *Conn) disconnected(err error) {
	if c.config.OnDisconnect != nil {
		c.config.OnDisconnect()
	}
	c.mu.Lock()
	if c.retries = c.retriesAfter(err); c.link != nil {
		c.brief = c.config.Now().Sub(c.since) < time.Second
	}
	c.link, c.down, c.unresponsive = nil, fmt.Errorf("%w: %w", ErrDown, err), time.Time{}
	if oldest := c.inFlight.peek(); oldest != nil && oldest.command == subscribe {
		// All before SUBSCRIBE is answered, so it may be what has broken the connection: not by chance, if it did twice.
		blamed := c.brokeAtSubscribe || errors.Is(err, errNoCommands)
		if blamed {
			c.dialer.avoidRESP3()
		}
		c.brokeAtSubscribe = !blamed
	}
	c.mu.Unlock()
	c.loseRequests()
	c.changed()
}

// retriesAfter returns how many attempts to connect may fail before requests fail fast. A server that breaks
// connections and is well takes new ones at once, unless it breaks one during its handshake, too. A refusal, or
// silence, is an outage: then no request should wait for the next attempt, which may come much later. mu is held.
func (c *Conn) retriesAfter(err error) int {
	switch {
	case isBreach(err):
		return 0
	case c.link != nil && !errors.Is(err, ErrTimeout):
		return 2
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), // it hung up
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return max(0, c.retries-1)
	default:
		return 0
	}
}

// loseRequests fails the requests that were written and not answered: the server may have executed them or not. Only
// undos are sent again, since they are idempotent. What was not written may wait for the next connection.
func (c *Conn) loseRequests() {
	var unanswered, over []*Request
	c.mu.Lock()
	kept := make([]*Request, 0, len(c.queue))
	c.eachUnanswered(func(r *Request, sent time.Time) {
		waits := sent.IsZero() && c.retries > 0 && !r.replied && !r.Command.ofLink()
		if !waits {
			unanswered = r.unanswered(unanswered)
		}
		if waits || r.Command.Undo && !r.Round.Over() {
			kept = append(kept, r)
		} else {
			over = append(over, r)
		}
	})
	c.inFlight, c.queue, c.ahead = groups{}, kept, 0
	down := c.down
	c.mu.Unlock()
	fail(unanswered, down)
	callDone(over)
	c.checkDrained()
}
