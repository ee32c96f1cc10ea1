package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// run connects, serves the connection, and connects again, until Stop.
func (c *Conn) run() {
	defer close(c.stopped)
	for failures := 0; ; failures++ {
		l, err := c.connect(c.ctx)
		if err == nil {
			failures = 0
			c.connected(l)
			err = c.serve(l)
		}
		c.disconnected(err, l != nil)
		if c.rest(failures, errors.Is(err, ErrTimeout)) != nil {
			c.abandonQueue()
			return
		}
	}
}

// rest pauses before the next attempt to connect, and for longer than reconnectDelay unless somebody wants the
// connection: a thousand clients that nobody uses must not make attempts all the while that a server is away.
func (c *Conn) rest(failures int, silence bool) error {
	err, longer := sleep(c.ctx, reconnectDelay(failures)), idleDelay(failures, silence)
	if err != nil || longer == 0 || c.Backlog() > 0 || c.awaited.Load() { // undos must get there
		return err
	}
	timer := time.NewTimer(longer)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wanted:
	case <-c.ctx.Done():
	}
	return c.ctx.Err()
}

// Wanted says that somebody needs the connection. If there is none, the next attempt comes within a second, even after
// silence. A request that fails for lack of a connection says so, too.
func (c *Conn) Wanted() {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
}

// idleDelay is how much longer to pause if nobody wants the connection: an exponential back-off up to 8 s, with jitter,
// after attempts that met with silence, since such an attempt is expensive, and up to 2 s after others.
func idleDelay(failures int, silence bool) time.Duration {
	limit := min(2*time.Second, 10*time.Millisecond<<min(failures, 10))
	switch {
	case failures == 0: // there was a connection, or no attempt before
		return 0
	case silence:
		limit = min(8*time.Second, 250*time.Millisecond<<min(failures, 10))
	}
	return limit/2 + chance.Duration(limit/2)
}

// reconnectDelay is an exponential back-off up to a second. Its jitter spreads the attempts of many clients.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
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

func (c *Conn) connected(l *link) {
	var unanswered []*Request
	c.mu.Lock()
	down := c.down
	c.link, c.since, c.down, c.unresponsive = l, c.config.Now(), nil, time.Time{}
	// Nothing is written until what goes ahead of the queue is in it. Requests that come meanwhile must stay behind those
	// that waited, since they may be their undos.
	c.opening, l.writing = true, true
	kept, over := filterOver(c.queue)
	c.queue = kept
	for _, r := range over {
		unanswered = r.unanswered(unanswered)
	}
	c.changeProtocol(l)
	c.mu.Unlock()
	fail(unanswered, down)
	callDone(over)
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

// changeProtocol makes the subscription follow to a new link. It is called with mu held.
func (c *Conn) changeProtocol(l *link) {
	c.protocol = resp2
	if l.resp3 {
		c.protocol = resp3
		if c.endSecond != nil {
			c.endSecond()
		}
	}
	c.sendSubscribe()
	c.tellSubscriber()
}

// disconnected notes that a connection or an attempt to connect has ended. broke: it was a connection.
func (c *Conn) disconnected(err error, broke bool) {
	if c.config.OnDisconnect != nil {
		c.config.OnDisconnect()
	}
	c.mu.Lock()
	c.link, c.down, c.unresponsive = nil, fmt.Errorf("%w: %w", ErrDown, err), time.Time{}
	c.hope = hopeAfter(err, broke, c.hope)
	if broke {
		c.brief = c.config.Now().Sub(c.since) < time.Second
	}
	if oldest := c.inFlight.peek(); oldest != nil && oldest.command == subscribe {
		// All before SUBSCRIBE is answered, so it may be what has broken the connection: not by chance, if it did twice.
		blamed := c.brokeAtSubscribe || errors.Is(err, errNoCommands)
		if blamed {
			c.avoidRESP3()
		}
		c.brokeAtSubscribe = !blamed
	}
	c.mu.Unlock()
	c.loseRequests()
	c.changed()
}

// hopeAfter returns how many attempts to connect may fail before requests are refused, given that number before. A
// server that breaks connections and is well takes new ones at once, unless it breaks one during its handshake, too. A
// refusal, or silence, is an outage: then no request should wait for the next attempt, which may come much later.
func hopeAfter(err error, broke bool, before int) int {
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case broke && !errors.Is(err, ErrTimeout):
		return 2
	case hungUp:
		return max(0, before-1)
	default:
		return 0
	}
}

// abandonQueue fails the requests that wait for a connection, since there will be none.
func (c *Conn) abandonQueue() {
	c.mu.Lock()
	c.hope = 0
	c.mu.Unlock()
	c.loseRequests()
}

// loseRequests fails the requests that were written and not answered: the server may have executed them or not. Only
// undos are sent again, since they are idempotent. What was not written waits for the next connection if there is hope.
func (c *Conn) loseRequests() {
	var unanswered, over []*Request
	c.mu.Lock()
	kept := make([]*Request, 0, len(c.queue))
	lose := func(r *Request) {
		unanswered = r.unanswered(unanswered)
		if r.Command.Undo && !r.Round.Over() {
			kept = append(kept, r)
		} else {
			over = append(over, r)
		}
	}
	c.eachInFlight(func(r *Request, _ time.Time) { lose(r) })
	for _, r := range c.queue {
		if c.hope > 0 && !r.replied && !r.Command.ofLink() {
			kept = append(kept, r)
		} else {
			lose(r)
		}
	}
	c.inFlight, c.queue, c.ahead = groups{}, kept, 0
	down, draining := c.down, c.draining
	c.mu.Unlock()
	fail(unanswered, down)
	callDone(over)
	if draining {
		c.checkDrained()
	}
}

// unanswered appends a request to those that fail, unless its Round has a reply. It is called with Conn.mu held.
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

// changed calls Config.Changed. It is called without mu, because Changed may call State.
func (c *Conn) changed() {
	if c.config.OnChange != nil && c.ctx.Err() == nil {
		c.config.OnChange()
	}
}

// eachUnanswered visits all unanswered requests, in order, with the time when each was sent; zero: it was not. It is
// called with mu held.
func (c *Conn) eachUnanswered(visit func(r *Request, sent time.Time)) {
	c.eachInFlight(visit)
	for _, r := range c.queue {
		visit(r, time.Time{})
	}
}

func (c *Conn) eachInFlight(visit func(r *Request, sent time.Time)) {
	for i := range c.inFlight.n {
		g := c.inFlight.at(i)
		for _, r := range g.requests[g.answered:] {
			visit(r, c.since.Add(g.sent))
		}
	}
}

// filterOver filters a queue in place, and returns the requests that are not sent any more: nobody waits for them, or
// nothing is left to undo. It is called with mu held.
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

// sleep returns after d, or with ctx's error if ctx is done first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
