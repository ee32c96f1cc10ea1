package redisconn

import (
	"fmt"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// read delivers replies, all that have come at a time.
func (c *Conn) read(l *link) error {
	var got []resp.Reply
	var due []delivery
	for {
		err := l.decoder.Wait()
		if err != nil {
			return err
		}
		if got, err = l.take(got[:0], c.config.Now); err != nil {
			return err
		}
		recovered := false
		if due, recovered, err = c.match(got, due[:0]); recovered {
			c.changed()
		}
		c.deliver(due)
		c.checkDrained()
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

// match appends replies to due, with what they answer. recovered: the server had been unresponsive. err ends the link.
func (c *Conn) match(got []resp.Reply, due []delivery) (_ []delivery, recovered bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.startWriter() // for requests that are sent again
	answered := false
	for _, r := range got {
		g := c.inFlight.peek()
		if p, ok := r.Value.(resp.Push); ok && !isReply(p, g) {
			message, ok := messageOf(p, c.channel)
			ok = ok && c.link.subscribing == accepted // else nothing was subscribed for it
			if ok && err == nil {
				due = append(due, delivery{reply: message})
			}
			if full := c.link.flow.count(message, ok, c.config.Now()); full != nil {
				return due, recovered, full
			}
			continue
		}
		if g == nil {
			return due, recovered, errUnasked
		}
		if !answered { // by a reply alone: a server that sends anything else may yet answer nothing
			answered, recovered = true, !c.unresponsive.IsZero()
			c.unresponsive, c.starved = time.Time{}, 0
			c.dialer.address.answers.Add(1)
		}
		if g.command == subscribe {
			if broken := c.confirm(g, r); broken != nil {
				return due, recovered, broken
			}
		}
		due = c.divide(g, r, due)
		if int(g.answered) == len(g.requests) {
			c.inFlight.pop()
			c.batch.recycle(g)
		}
		if resp.Is(r.Err, resp.Demoted) && err == nil {
			// The server has become a replica, which leaves its connections open. The handshake's results are void.
			err = fmt.Errorf("no longer a master: %w", c.dialer.explain(r.Err, ""))
		}
	}
	return due, recovered, err
}

// divide divides the next reply to a group among its requests, and appends the parts to due. mu is held.
func (c *Conn) divide(g *group, r resp.Reply, due []delivery) []delivery {
	if g.command.Script == nil {
		to := g.requests[g.answered]
		if to.Replies > 0 {
			if r.Err != nil {
				r.Value = r.Err
			}
			if g.replies = append(g.replies, r.Value); len(g.replies) < to.Replies {
				return due
			}
			r = resp.Reply{Value: g.replies}
			g.replies = nil
		}
		g.answered++
		due = append(due, delivery{to, !to.replied, r.Value, r.Err})
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

// resend queues a request once more, with the script's source, if the server lacks the script: by SCRIPT FLUSH, or as a
// proxy has changed the server behind it. A request that is over is not: its undo may have been sent already, and must
// stay behind it. For the same reason mu is held from Over to the append.
func (c *Conn) resend(r *Request, refusal error) bool {
	if !resp.Is(refusal, resp.Unloaded) || r.eval || r.Round.Over() {
		return false
	}
	r.eval = true
	c.queue = append(c.queue, r)
	return true
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
		if !resp.Is(d.err, resp.Transient) || !c.postpone(d.to) {
			d.to.Round.Done()
		}
	}
	clear(due)
}
