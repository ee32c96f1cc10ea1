package redisconn

import "time"

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

// retryUndos queues the postponed undos again that have something left to undo. The retry timer runs it, and Drain.
func (c *Conn) retryUndos() {
	c.mu.Lock()
	kept, over := filterOver(c.postponed)
	c.queue = append(c.queue, kept...)
	clear(c.postponed)
	c.postponed = c.postponed[:0]
	c.startWriter()
	c.mu.Unlock()
	callDone(over)
}
