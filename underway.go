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
	for u := &l.underway; ; {
		n := u.state.Load()
		if n >= closing {
			return ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return endOf(ctx, err)
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

// refuse lets no more calls begin. It is called once.
func (u *underway) refuse() {
	if u.state.Add(closing) == closing {
		close(u.idle)
	}
}

// wait returns when the calls under way have ended, or after that time. No more may begin.
func (u *underway) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.idle:
	case <-timer.C:
	}
}
