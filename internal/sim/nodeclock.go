package sim

import "time"

// nodeClock is a node's own wall clock: virtual time, run at a rate and set off by steps. Redis expires keys by it.
type nodeClock struct {
	anchor time.Time // virtual instant of the last change
	shown  time.Time // what the clock showed then
	rate   float64
}

// sinceBubble is what a node's clock is ahead of virtual time, which begins in 2000: a node of that year would be as
// unlike a real one as one of 1970, and tokens, which are times in µs, would have a digit less than they ever will
// have.
const sinceBubble = 26 * 365 * 24 * time.Hour

func newNodeClock() nodeClock {
	now := time.Now()
	shown := now
	if now.Year() < 2020 {
		shown = now.Add(sinceBubble)
	}
	return nodeClock{anchor: now, shown: shown, rate: 1}
}

func (c *nodeClock) now() time.Time {
	d := time.Since(c.anchor)
	if c.rate != 1 {
		d = time.Duration(float64(d) * c.rate)
	}
	return c.shown.Add(d)
}

// set re-anchors the clock, so that a change of rate does not bend the past.
func (c *nodeClock) set(step time.Duration, rate float64) {
	shown := c.now().Add(step)
	c.anchor, c.shown, c.rate = time.Now(), shown, rate
}

func (c *nodeClock) ms() int64 { return c.now().UnixMilli() }
