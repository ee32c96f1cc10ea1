package redisconn

import (
	"context"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// checkGrain is the distance of the moments at which checks begin, so that a process wakes up once for many of them.
const checkGrain = 100 * time.Millisecond

// CheckSoon asks for a check at once, or as soon as there is a connection.
func (c *Conn) CheckSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkDue = true
	c.setCheck()
}

// IdleChecks returns how many checks have begun, over this or earlier connections, since the last request but an Ask.
func (c *Conn) IdleChecks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idleChecks
}

// setCheck sets the timer for the next check. mu is held.
func (c *Conn) setCheck() {
	l := c.link
	if c.config.Check == nil || l == nil || l.ended || l.endCheck != nil {
		return // the next connection will set it, or the end of the check
	}
	if c.checkDue {
		c.check.Reset(0)
		return
	}
	now := c.config.Now()
	next := now.Add(c.config.CheckEvery/2 + chance.Duration(c.config.CheckEvery))
	c.check.Reset(next.Sub(now) + checkGrain - time.Duration(next.UnixNano())%checkGrain)
}

func (c *Conn) runCheck() {
	c.mu.Lock()
	l := c.link
	if l == nil || l.ended || l.endCheck != nil {
		c.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.checkDue, l.endCheck = false, cancel
	c.idleChecks++
	l.users.Add(1)
	c.mu.Unlock()
	defer l.users.Done()
	defer cancel()
	if err := c.config.Check(ctx); err != nil {
		c.fail(l, err)
		return
	}
	c.mu.Lock()
	l.endCheck = nil
	c.setCheck()
	c.mu.Unlock()
}
