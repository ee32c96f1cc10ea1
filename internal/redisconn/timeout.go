package redisconn

import (
	"runtime"
	"time"
)

// expire is run by the watchdog: it looks at what has no reply, and does what silence.go decides.
func (c *Conn) expire() {
	// A timer overtakes the goroutines that are ready to run, among which may be the reader: with twenty thousand of them,
	// it waits for a tenth of a second. So the watchdog queues up, and where that takes long, it fires late.
	runtime.Gosched()
	now := c.config.Now()
	c.mu.Lock()
	w := c.snapshot(now)
	if w.waitsForReader() {
		c.suspicion = w.suspicion
		c.watchdog.Reset(c.config.Timeout / 16)
		c.mu.Unlock()
		return
	}
	var overdue, late []*Request
	c.eachUnanswered(func(r *Request, sent time.Time) {
		if r.replied { // its own Done may come before fail
			return
		}
		switch w.judge(r, sent) {
		case waits:
		case isLate:
			late = r.unanswered(late)
		case timesOut:
			overdue = r.unanswered(overdue)
		}
	})
	p, l := w.decide(), c.link
	if c.suspicion = p.suspicion; p.failFast {
		c.retries = 0
	}
	if c.nextDeadline = p.next; !p.next.IsZero() {
		c.watchdog.Reset(p.next.Sub(now))
	}
	c.mu.Unlock()
	if p.changed {
		c.changed()
	}
	if p.replace {
		c.fail(l, silent("no answer for "+seconds(now.Sub(p.unresponsive))+"; connection replaced"))
	}
	fail(overdue, p.why)
	fail(late, ErrLate)
}

// snapshot returns what the watchdog's decision depends on, apart from the requests. mu is held.
func (c *Conn) snapshot(now time.Time) snapshot {
	w := snapshot{
		suspicion: c.suspicion, config: &c.config, now: now, due: c.nextDeadline, connected: c.link != nil, since: c.since,
		answers: c.dialer.address.answers.Load(), retries: c.retries, down: c.down,
	}
	if w.connected {
		w.took = c.link.took
	}
	if oldest := c.inFlight.peek(); oldest != nil {
		w.oldest = c.since.Add(oldest.sent)
	}
	return w
}
