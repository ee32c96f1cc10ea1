package redisconn

import (
	"context"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// The pauses between attempts to connect, and to subscribe.

// idleDelay is how much longer to pause if nobody wants the connection: an exponential back-off up to 8 s, with jitter,
// after attempts that met with silence, since such an attempt is expensive, and up to 2 s after others.
func idleDelay(failures int, silence bool) time.Duration {
	limit := min(2*time.Second, 10*time.Millisecond<<min(failures, 10))
	switch {
	case failures == 0: // there was a connection, or no attempt before
		return 0
	case silence:
		limit = min(8*time.Second, 250*time.Millisecond<<min(failures, 10))
	}
	return limit/2 + chance.Duration(limit/2)
}

// reconnectDelay is an exponential back-off up to a second. Its jitter spreads the attempts of many clients.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

// sleep returns after d, or when woken, or with ctx's error if ctx is done.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
