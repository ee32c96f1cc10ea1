package redisconn

import "time"

// A server that does not answer, or refuses to, for the time being.

// expire fails the requests older than the time-out. If there are any, the server counts as silent until it answers,
// and if it stays silent for long it gets a new connection: what was lost on the way would otherwise be sent again by
// TCP at ever longer intervals.
func (c *Conn) expire() {
	now := c.config.Now()
	if c.overslept(now) {
		return
	}
	var late []*Request
	var next time.Time // when the watchdog is needed again
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	c.mu.Lock()
	c.eachUnanswered(func(r *Request) {
		deadline := r.Asked.Add(c.config.Timeout)
		switch {
		case r.replied:
		case now.Before(deadline):
			sooner(deadline)
		default:
			r.replied = true
			r.Round.Hold() // the reply may come meanwhile
			late = append(late, r)
		}
	})
	var dead *link
	fellSilent := len(late) > 0 && c.silent.IsZero()
	if fellSilent {
		c.silent = now
	}
	if !c.silent.IsZero() && c.link != nil {
		if giveUp := c.silent.Add(c.config.ConnectTimeout); now.Before(giveUp) {
			sooner(giveUp)
		} else {
			dead = c.link
		}
	}
	if c.deadline = next; !next.IsZero() {
		c.watchdog.Reset(next.Sub(now))
	}
	c.mu.Unlock()
	if fellSilent {
		c.changed()
	}
	if dead != nil {
		dead.drop()
	}
	fail(late, ErrTimeout)
}

// overslept reports whether the watchdog fires so late that this process was probably not let run. Answers may then
// wait to be read, so the reader gets a moment first.
func (c *Conn) overslept(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() || now.Sub(c.deadline) < c.config.Timeout/8 || c.grace {
		c.grace = false
		return false
	}
	c.grace = true
	c.watchdog.Reset(c.config.Timeout / 16)
	return true
}

// An undo that a server refuses for the time being is sent again until there is nothing left to undo. Its Round has the
// refusal by then, so nobody waits for it.
const (
	undoAgainAfter = 250 * time.Millisecond
	maxPostponed   = maxQueue / 8 // at load, more would keep a server busy that is anyway
)

// postpone keeps an undo that was refused, and reports whether it did: the Conn then has the request as before.
func (c *Conn) postpone(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.Command.Undo || c.draining || len(c.postponed) >= maxPostponed {
		return false
	}
	if len(c.postponed) == 0 {
		c.retry.Reset(undoAgainAfter)
	}
	c.postponed = append(c.postponed, r)
	return true
}

// retryUndos queues what was postponed, as far as there is still something to undo.
func (c *Conn) retryUndos() {
	c.mu.Lock()
	over := c.resume()
	c.mu.Unlock()
	letGo(over)
	c.wakeWriter()
}

// resume queues what was postponed and returns the rest, which has nothing left to undo. Called with mu held.
func (c *Conn) resume() (over []*Request) {
	kept, over := splitOver(c.postponed)
	c.queue = append(c.queue, kept...)
	clear(c.postponed)
	c.postponed = c.postponed[:0]
	return over
}
