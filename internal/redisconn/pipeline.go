package redisconn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Send queues a request and reports whether the server may act on it. It never blocks. A server that cannot answer
// is no reason to wait: the Round is told at once, and need not wait for a dial or on a silent server.
func (c *Conn) Send(r *Request) bool {
	k := r.Command
	c.mu.Lock()
	undo := k.Undo && !(k.Spare && len(c.queue) >= maxPostponed)
	refusal := c.refusal(undo)
	if refusal != nil && !undo {
		c.mu.Unlock()
		r.Round.Reply(r.Node, nil, refusal)
		r.Round.Done()
		return false
	}
	// An undo is queued even for a server that cannot answer now: what it undoes may have been done there, or be about
	// to be read.
	r.replied, r.eval = refusal != nil, false
	c.queue = append(c.queue, r)
	first := len(c.queue) == 1
	deadline := r.Asked.Add(c.config.Timeout)
	if refusal == nil && (c.deadline.IsZero() || deadline.Before(c.deadline)) {
		c.deadline = deadline
		c.watchdog.Reset(c.config.Timeout)
	}
	c.mu.Unlock()
	if first {
		c.wakeWriter()
	}
	if refusal != nil {
		r.Round.Reply(r.Node, nil, refusal) // the caller still holds the round
	}
	return true
}

// refusal says why no requests are taken at present. Called with mu held.
func (c *Conn) refusal(undo bool) error {
	switch {
	case c.draining && !undo:
		return ErrClosed
	case c.link == nil:
		return c.down
	case !c.silent.IsZero():
		return ErrTimeout
	case !undo && len(c.queue)+c.flight.total >= maxQueue:
		return ErrBusy
	default:
		return nil
	}
}

func (c *Conn) wakeWriter() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// write sends what is queued, a batch at a time.
func (c *Conn) write(ctx context.Context, l *link) error {
	var out []*group
	for {
		select {
		case <-c.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Let callers that are ready to run join the batch: at load this is the difference between a system call for each
		// request and one for dozens. Twice, since the scheduler lets the goroutine that was woken last run next of all:
		// of five writers one sent three times as many batches as the others.
		runtime.Gosched()
		runtime.Gosched()
		out = c.takeQueue(out[:0])
		for _, g := range out {
			g.encode(&l.encoder, c.config.ExtraKey)
		}
		if err := l.flush(); err != nil {
			return err
		}
	}
}

// flush writes what was encoded.
func (l *link) flush() error {
	e := &l.encoder
	if len(e.buf) == 0 {
		return nil
	}
	_, err := l.net.Write(e.buf)
	if cap(e.buf)+cap(e.args) > 1<<18 {
		e.buf, e.args = nil, nil // a rare flood need not stay in memory
	}
	e.buf = e.buf[:0]
	return err
}

// takeQueue moves the queue into flight, as groups, and returns these.
func (c *Conn) takeQueue(out []*group) []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.flight.n
	for _, r := range c.queue {
		c.batch.add(r, &c.flight)
	}
	c.batch.close(&c.flight)
	clear(c.queue)
	c.queue = c.queue[:0]
	for i := before; i < c.flight.n; i++ {
		out = append(out, c.flight.at(i))
	}
	return out
}

// read takes replies, all that have come at a time, and delivers them.
func (c *Conn) read(l *link) error {
	var got []reply
	var due []delivery
	for {
		var err error
		if got, err = l.decoder.take(got[:0]); err != nil {
			return err
		}
		spoke := false
		due, spoke, err = c.match(got, due[:0])
		if spoke {
			c.changed()
		}
		c.deliver(due)
		if err != nil {
			return err
		}
	}
}

// delivery is a reply as far as it is about one request.
type delivery struct {
	to    *Request
	first bool // its Round has not been told anything yet
	reply any
	err   error
}

// match finds out whose the replies are and appends them to due. It reports whether the server had been silent. The
// error says that the connection is of no more use.
func (c *Conn) match(got []reply, due []delivery) (_ []delivery, spoke bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spoke = !c.silent.IsZero()
	c.silent = time.Time{}
	queued := len(c.queue)
	for _, r := range got {
		g := c.flight.peek()
		if g == nil {
			err = errors.New("redlock: a reply that nobody asked for")
			break
		}
		due = c.divide(g, r, due)
		if g.read == len(g.requests) {
			c.flight.pop()
			c.batch.put(g)
		}
		if r.err != nil && Code(r.err) == "READONLY" && err == nil {
			// It has become a replica. Its connections stay open then, so what was learnt in the handshake is void.
			err = fmt.Errorf("no longer a master: %w", c.explain(r.err, ""))
		}
	}
	if len(c.queue) > queued {
		c.wakeWriter()
	}
	if c.draining {
		c.checkDrained()
	}
	return due, spoke, err
}

// divide appends to due what each request has of the next reply to its group. Called with mu held.
func (c *Conn) divide(g *group, r reply, due []delivery) []delivery {
	if g.command.Script == nil {
		to := g.requests[g.read]
		g.read++
		due = append(due, delivery{to, !to.replied, r.value, r.err})
		to.replied = true
		return due
	}
	details, err := g.details(r)
	for _, to := range g.requests {
		if err != nil && Code(err) == "NOSCRIPT" && c.again(to) {
			continue
		}
		d := delivery{to: to, first: !to.replied, err: err}
		if details != nil {
			d.reply, details = details[:len(to.Hashes)], details[len(to.Hashes):]
		}
		due = append(due, d)
		to.replied = true
	}
	g.read = len(g.requests)
	return due
}

// again queues a request to be sent with the script's source, unless that was done before: after SCRIPT FLUSH, or where
// a proxy has changed the server behind it, the server has not got the script. A request that is over is not sent
// again: its undo may be on its way already, and must stay behind what it undoes. Called with mu held, over the reading
// of Over and the append.
func (c *Conn) again(r *Request) bool {
	if r.eval || r.Round.Over() {
		return false
	}
	r.eval = true
	c.queue = append(c.queue, r)
	return true
}

// deliver is called without mu.
func (c *Conn) deliver(due []delivery) {
	for i := range due {
		d := &due[i]
		if d.first {
			d.to.Round.Reply(d.to.Node, d.reply, d.err)
		}
		if d.err == nil || !passes(d.err) || !c.postpone(d.to) {
			d.to.Round.Done()
		}
	}
	clear(due)
}
