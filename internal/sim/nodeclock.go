package sim

import "time"

// nodeClock is a node's own wall clock: virtual time, run at a rate and set off by steps. Redis expires keys by it.
type nodeClock struct {
	anchor time.Time // virtual instant of the last change
	shown  time.Time // what the clock showed then
	rate   float64
}

func newNodeClock() nodeClock {
	now := time.Now()
	return nodeClock{anchor: now, shown: now, rate: 1}
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
