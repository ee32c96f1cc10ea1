package redisconn

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Send queues a request and reports whether the server may execute it. It never blocks: if the server cannot answer at
// present, Send replies the error at once, so that no Round waits for a server that is away or unresponsive. While a
// connection that has just broken is being made anew, the request waits for that.
func (c *Conn) Send(r *Request) bool {
	k := r.Command
	c.mu.Lock()
	if k != native {
		c.idleChecks = 0
	}
	undo := k.Undo && !(k.BestEffort && len(c.queue) >= maxPostponed)
	refusal := c.refusal(k, undo)
	if c.link == nil {
		c.Wanted()
	}
	if refusal != nil && !undo {
		c.mu.Unlock()
		r.Round.Reply(r.Node, nil, refusal)
		r.Round.Done()
		return false
	}
	// An undo is queued even if the server cannot answer now: the server may have executed the request that it undoes, or
	// may be about to read it.
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

// enqueue queues a request, and sets the watchdog unless its Round has a reply already. It is called with mu held.
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

// ofLink reports whether what is sent is about a connection that there is, so that it waits for no other.
func (k *Command) ofLink() bool { return k == native || k == subscribe }

// goesAhead reports whether a request goes ahead of those that waited for the link. It is called with mu held.
func (c *Conn) goesAhead(k *Command) bool { return c.opening && k.ofLink() }

// refusal returns why a request fails at once, nil if it can be sent. It is called with mu held.
func (c *Conn) refusal(k *Command, undo bool) error {
	waits := c.hope > 0 && !k.ofLink() && (undo || !k.BestEffort)
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

// startWriter starts a writer if the queue needs one and there is none. It is called with mu held.
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
		if err := l.flush(); err != nil {
			c.fail(l, err)
			return
		}
	}
}

// flush writes the encoded commands.
func (l *link) flush() error {
	e := &l.encoder
	if len(e.buf) == 0 {
		return nil
	}
	_, err := l.net.Write(e.buf)
	if cap(e.buf)+cap(e.args) > 1<<18 {
		e.buf, e.args = nil, nil // a rare large batch is not kept in memory
	}
	e.buf = e.buf[:0]
	return err
}

// takeQueue moves the queue to inFlight and the link's batch. It returns false if the queue is empty: then the writer
// must return, and the next request starts another one.
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

// read delivers replies, all that have come at a time.
func (c *Conn) read(l *link) error {
	var got []reply
	var due []delivery
	for {
		err := l.decoder.wait()
		if err != nil {
			return err
		}
		if got, err = l.decoder.take(got[:0]); err != nil {
			return err
		}
		recovered := false
		var draining bool
		due, recovered, draining, err = c.match(got, due[:0])
		if recovered {
			c.changed()
		}
		c.deliver(due)
		if draining {
			c.checkDrained()
		}
		if err != nil {
			return err
		}
	}
}

// delivery is the part of a reply that is about one request, or a message.
type delivery struct {
	to    *Request // nil: reply is a message
	first bool     // its Round has had no Reply yet
	reply any
	err   error
}

// match appends replies to due, with the requests that they answer. It reports whether the server had been
// unresponsive, and whether Drain waits. An error ends the connection.
func (c *Conn) match(got []reply, due []delivery) (_ []delivery, recovered, draining bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	recovered = !c.unresponsive.IsZero()
	c.unresponsive, c.starved = time.Time{}, 0
	c.address.answers.Add(1)
	for _, r := range got {
		g := c.inFlight.peek()
		if p, ok := r.value.(push); ok && !isReply(p, g) {
			if message, ok := c.heard(p); ok && err == nil {
				due = append(due, delivery{reply: message})
			}
			continue
		}
		if g == nil {
			err = errUnasked
			break
		}
		if g.command == subscribe {
			if broken := c.confirm(g, r); broken != nil {
				err = broken
				break
			}
		}
		due = c.divide(g, r, due)
		if int(g.answered) == len(g.requests) {
			c.inFlight.pop()
			c.batch.recycle(g)
		}
		if r.err != nil && Code(r.err) == "READONLY" && err == nil {
			// The server has become a replica, which leaves its connections open. The handshake's results are void.
			err = fmt.Errorf("no longer a master: %w", c.explain(r.err, ""))
		}
	}
	c.startWriter() // for requests that are sent again
	return due, recovered, c.draining, err
}

// divide divides the next reply to a group among its requests, and appends the parts to due. It is called with mu held.
func (c *Conn) divide(g *group, r reply, due []delivery) []delivery {
	if g.command.Script == nil {
		to := g.requests[g.answered]
		if to.Replies > 1 {
			if r.err != nil {
				r.value = r.err
			}
			if g.replies = append(g.replies, r.value); len(g.replies) < to.Replies {
				return due
			}
			r = reply{value: g.replies}
			g.replies = nil
		}
		g.answered++
		due = append(due, delivery{to, !to.replied, r.value, r.err})
		to.replied = true
		return due
	}
	details, err := g.details(r)
	for _, to := range g.requests {
		if err != nil && c.resend(to, err) {
			continue
		}
		d := delivery{to: to, first: !to.replied, err: err}
		if details != nil {
			d.reply, details = details[:len(to.Hashes)], details[len(to.Hashes):]
		}
		due = append(due, d)
		to.replied = true
	}
	g.answered = int32(len(g.requests))
	return due
}

// deliver calls Reply and Done for each delivery. It is called without mu.
func (c *Conn) deliver(due []delivery) {
	for i := range due {
		d := &due[i]
		if d.to == nil {
			c.hear(d.reply.(string))
			continue
		}
		if d.first {
			d.to.Round.Reply(d.to.Node, d.reply, d.err)
		}
		if d.err == nil || !isTransient(d.err) || !c.postpone(d.to) {
			d.to.Round.Done()
		}
	}
	clear(due)
}
