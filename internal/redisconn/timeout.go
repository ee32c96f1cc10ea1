package redisconn

import (
	"errors"
	"net"
	"runtime"
	"time"

	"github.com/quorumlock/redlock/internal/endpoint"
)

// A server that does not answer, or that answers with a transient error.

// expire is run by the watchdog. It fails requests that are older than the time-out. If there are any, the server
// counts as unresponsive until its next reply, unless it is this process that was not scheduled. A server that stays
// unresponsive gets a new connection: over the old one, TCP would repeat lost segments at ever longer intervals. But
// not while this process runs late, or the server answers over other connections: a new one would be as slow, and its
// handshake would add to the work.
func (c *Conn) expire() {
	// A timer overtakes the goroutines that are ready to run, among which may be the reader: with twenty thousand of them,
	// it waits for a tenth of a second. So the watchdog queues up, and where that takes long, it fires late.
	runtime.Gosched()
	now := c.config.Now()
	again, starved := c.firedLate(now)
	if again {
		return
	}
	var overdue, late []*Request // late: not for the server's sake
	var next time.Time           // when the watchdog has to fire again
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	c.mu.Lock()
	c.eachUnanswered(func(r *Request, sent time.Time) {
		deadline := r.Asked.Add(c.config.Timeout)
		switch { // the reply may come before fail, and with it the request's own Done
		case r.replied:
		case now.Before(deadline):
			sooner(deadline)
		case c.sentLate(r, sent, now):
			late = r.unanswered(late)
		default:
			overdue = r.unanswered(overdue)
		}
	})
	var dead *link
	var silence time.Duration // of the dead link
	excused := starved
	if !starved {
		c.starved = 0
	} else if c.starved++; c.starved > maxStarved {
		starved = false // a server that is silent all the while
	}
	if starved && c.link != nil {
		overdue, late = nil, append(late, overdue...)
	}
	gaveUp, why := false, error(ErrTimeout)
	if errors.As(c.down, new(endpoint.CredentialsError)) || errors.As(c.down, new(*net.DNSError)) {
		why = c.down // the server was not asked
	}
	if len(overdue) > 0 && c.link == nil && !starved {
		// Of the first attempt, the outcome is awaited.
		gaveUp = c.hope > 0 && !errors.Is(c.down, errConnecting)

		c.hope = 0 // the attempt to connect hangs, and delays no other request
	}
	blamed := len(overdue) > 0
	if oldest := c.inFlight.peek(); len(late) > 0 && oldest != nil { // else, where all are late, nobody would notice
		blamed = blamed || now.Sub(c.since.Add(oldest.sent)) >= c.config.Timeout
	}
	newlyUnresponsive := blamed && c.link != nil && c.unresponsive.IsZero() && !starved
	if newlyUnresponsive || starved && !c.unresponsive.IsZero() { // its silence counts from now
		c.unresponsive, c.giveUp = now, now.Add(c.config.ConnectTimeout)
		c.spared.begin(c.dialer.address)
	}
	if !c.unresponsive.IsZero() && c.link != nil {
		switch {
		case now.Before(c.giveUp):
			sooner(c.giveUp)
		case c.spared.excuse(c.dialer.address, excused):
			c.giveUp = now.Add(c.config.ConnectTimeout)
			sooner(c.giveUp)
		default:
			dead, silence = c.link, now.Sub(c.unresponsive)
		}
	}
	if c.nextDeadline = next; !next.IsZero() {
		c.watchdog.Reset(next.Sub(now))
	}
	c.mu.Unlock()
	if newlyUnresponsive || gaveUp {
		c.changed()
	}
	if dead != nil {
		c.fail(dead, silent("no answer for "+seconds(silence)+"; connection replaced"))
	}
	fail(overdue, why)
	fail(late, ErrLate)
}

// sentLate reports whether the server had less than half of the time-out for a request, because this process was late
// to send it, at the time sent; zero: it has not been sent. It is not where the server does not read, where it has
// answered that the request must be sent again, or where there was no connection to it. It is called with mu held.
func (c *Conn) sentLate(r *Request, sent, now time.Time) bool {
	if c.link == nil || r.eval || r.Asked.Before(c.since) {
		return false
	}
	if sent.IsZero() {
		if c.link.took == 0 {
			return true
		}
		sent = c.since.Add(c.link.took)
	}
	return now.Sub(sent) < c.config.Timeout/2
}

// maxStarved is how often in a row the watchdog may fire late before a server that has not replied meanwhile counts as
// unresponsive all the same.
const maxStarved = 3

// firedLate reports whether the watchdog fired so late that this process was probably not scheduled. Replies may then
// wait to be read, so the watchdog is set to fire again, once, to give the reader a moment; starved is true then.
func (c *Conn) firedLate(now time.Time) (again, starved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if starved = c.grace; starved {
		c.grace = false
		return false, true
	}
	if c.nextDeadline.IsZero() || now.Sub(c.nextDeadline) < c.config.lateness() {
		return false, false
	}
	c.grace = true
	c.watchdog.Reset(c.config.Timeout / 16)
	return true, false
}

// An undo that fails with a transient error is sent again until nothing is left to undo. Its Round has the error by
// then, so no caller waits for the undo.
const undoRetryDelay = 250 * time.Millisecond

// postpone keeps an undo that failed with a transient error. It returns false if the request is not kept, and the
// caller must call Done.
func (c *Conn) postpone(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.Command.Undo || c.draining || len(c.postponed) >= maxPostponed {
		return false
	}
	if len(c.postponed) == 0 {
		c.retry.Reset(undoRetryDelay)
	}
	c.postponed = append(c.postponed, r)
	return true
}

// retryUndos queues the postponed undos again. It is run by the retry timer.
func (c *Conn) retryUndos() {
	c.mu.Lock()
	over := c.requeuePostponed()
	c.startWriter()
	c.mu.Unlock()
	callDone(over)
}

// requeuePostponed queues the postponed undos again, and returns those that have nothing left to undo. It is called
// with mu held.
func (c *Conn) requeuePostponed() (over []*Request) {
	kept, over := filterOver(c.postponed)
	c.queue = append(c.queue, kept...)
	clear(c.postponed)
	c.postponed = c.postponed[:0]
	return over
}
