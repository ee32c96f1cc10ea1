package redisconn

import (
	"context"
	"runtime"
	"slices"
)

// MaxQueue bounds the unanswered requests. Undos are exempt: at most one follows each accepted request.
const MaxQueue = 1 << 14

// maxPostponed bounds the undos that are sent again to a server that refuses them: more would add to the load of one
// that is busy already. An undo that is BestEffort is kept for a server that is away if fewer requests wait.
const maxPostponed = 1 << 10

// Send queues a request and reports whether the server may execute it. It never blocks: if the server cannot answer, it
// replies the error at once, so that no Round waits. While a broken connection is made anew, it waits for that.
func (c *Conn) Send(r *Request) bool {
	k := r.Command
	c.mu.Lock()
	if k != native {
		c.idleChecks = 0
	}
	refusal := c.refusal(k)
	if c.link == nil {
		c.Wanted()
	}
	if refusal != nil && !c.keeps(k) {
		c.mu.Unlock()
		r.Round.Reply(r.Node, nil, refusal)
		r.Round.Done()
		return false
	}
	r.replied, r.eval = refusal != nil, false
	c.enqueue(r)
	c.startWriter()
	c.mu.Unlock()
	if refusal != nil {
		// The undo may have been sent, answered and released meanwhile. The caller still has the Round.
		r.Round.Reply(r.Node, nil, refusal)
	}
	return true
}

// enqueue queues a request, and sets the watchdog unless its Round has a reply already. mu is held.
func (c *Conn) enqueue(r *Request) {
	if c.goesAhead(r.Command) {
		c.queue = slices.Insert(c.queue, c.ahead, r)
		c.ahead++
	} else {
		c.queue = append(c.queue, r)
	}
	deadline := r.Asked.Add(c.config.Timeout)
	if !r.replied && (c.nextDeadline.IsZero() || deadline.Before(c.nextDeadline)) {
		c.nextDeadline = deadline
		c.watchdog.Reset(deadline.Sub(c.config.Now())) // it may have been asked a while ago
	}
}

// goesAhead reports whether a request goes ahead of those that waited for the link. mu is held.
func (c *Conn) goesAhead(k *Command) bool { return c.opening && k.ofLink() }

// keeps reports whether a request is queued even if the server cannot answer now: an undo, since the server may have
// executed the request that it undoes, or may be about to read it. mu is held.
func (c *Conn) keeps(k *Command) bool {
	return k.Undo && !(k.BestEffort && len(c.queue) >= maxPostponed)
}

// refusal returns why a request fails at once, nil if it can be sent. mu is held.
func (c *Conn) refusal(k *Command) error {
	undo := c.keeps(k)
	waits := c.retries > 0 && !k.ofLink() && (undo || !k.BestEffort)
	switch {
	case c.draining && !undo:
		return ErrClosed
	case c.goesAhead(k): // even if one that waited has timed out just now
		return nil
	case c.link == nil && !waits:
		return c.down
	case !c.unresponsive.IsZero():
		return ErrTimeout
	case !undo && len(c.queue)+c.inFlight.total >= MaxQueue:
		return ErrBusy
	default:
		return nil
	}
}

// startWriter starts a writer if the queue needs one and there is none. mu is held.
func (c *Conn) startWriter() {
	l := c.link
	if l == nil || l.ended || l.writing || len(c.queue) == 0 {
		return
	}
	l.writing = true
	l.users.Add(1)
	go l.write()
}

// write sends the queue, a batch at a time, until it is empty: an idle connection needs no writer.
func (c *Conn) write(l *link) {
	defer l.users.Done()
	for {
		// Yield, so that callers that are ready to run join the batch: under load this makes the difference between a system
		// call for each request and one for dozens. Yield twice: the scheduler runs the goroutine that was woken last next,
		// and with one yield, one of five writers sent three times as many batches as the others.
		runtime.Gosched()
		runtime.Gosched()
		if !c.takeQueue(l) {
			return
		}
		for _, g := range l.batch {
			g.encode(&l.encoder, c.config.ExtraKey)
		}
		if err := l.encoder.Flush(l.net); err != nil {
			c.fail(l, err)
			return
		}
	}
}

// takeQueue moves the queue to inFlight and the link's batch. false: it is empty, and the next request starts a writer.
func (c *Conn) takeQueue(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.took = 0
	if len(c.queue) == 0 {
		l.writing = false
		return false
	}
	l.took = max(1, c.config.Now().Sub(c.since))
	before := c.inFlight.n
	for i, r := range c.queue {
		if i == c.ahead && i > 0 {
			c.batch.close(&c.inFlight) // within a batch, an urgent request would overtake them
		}
		c.batch.add(r, &c.inFlight)
	}
	c.ahead = 0
	c.batch.close(&c.inFlight)
	clear(c.queue)
	c.queue = c.queue[:0]
	l.batch = l.batch[:0]
	for i := before; i < c.inFlight.n; i++ {
		g := c.inFlight.at(i)
		g.sent = l.took
		l.batch = append(l.batch, g)
	}
	return true
}

// Ask sends commands, one directly behind the other, together with all other requests, and does not wait. It calls then
// with the results of Do when the last reply has come, in any goroutine; then must not block.
func (c *Conn) Ask(then func(replies []any, err error), commands ...[]any) {
	if len(commands) == 0 {
		then(nil, nil)
		return
	}
	c.Send(newAsk(native, c.config.Now(), then, commands))
}

// Do is Ask for a caller that waits: until ctx is done, and no longer than the time-out.
func (c *Conn) Do(ctx context.Context, commands ...[]any) ([]any, error) {
	var replies []any
	var err error
	answered := make(chan struct{})
	c.Ask(func(said []any, why error) { replies, err = said, why; close(answered) }, commands...)
	select {
	case <-answered:
		return replies, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
