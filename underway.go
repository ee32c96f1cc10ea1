package redlock

import (
	"context"
	"sync/atomic"
	"time"
)

// underway counts the calls that may yet have to undo what they ask of nodes, so that Close
// does not cut off the undoing: the node's connection goes last.
type underway struct {
	state atomic.Int64  // how many, and closing
	idle  chan struct{} // closed when closing and none is left
}

// closing is added to the state when no more may begin.
const closing = 1 << 32

// begin lets a call begin, which must call underway.end, or returns why it may not: ErrClosed, or ctx's error.
func (l *Locker) begin(ctx context.Context) error {
	if err := l.ended(ctx); err != nil {
		return err
	}
	for u := &l.underway; ; {
		n := u.state.Load()
		if n >= closing {
			return ErrClosed
		}
		if u.state.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (u *underway) end() {
	if u.state.Add(-1) == closing {
		close(u.idle)
	}
}

// close lets no more calls begin, and returns when those under way have ended, or after that time.
func (u *underway) close(limit time.Duration) {
	if u.state.Add(closing) == closing {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.idle:
	case <-timer.C:
	}
}
