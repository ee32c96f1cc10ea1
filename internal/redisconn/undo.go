package redisconn

import "time"

// How soon an undo that fails with a transient error is sent again. Its Round has the error, so no caller waits for it.
const undoRetryDelay = 250 * time.Millisecond

// postpone keeps a request that failed with a transient error, if it is an undo; else the caller must call Done.
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

// retryUndos queues the postponed undos again that have something left to undo. The retry timer runs it, and Drain.
func (c *Conn) retryUndos() {
	c.mu.Lock()
	kept, over := filterOver(c.postponed)
	c.queue, c.postponed = append(c.queue, kept...), nil
	c.startWriter()
	c.mu.Unlock()
	callDone(over)
}
