package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// The pauses between attempts to connect, and to subscribe.

// backOff is an exponential back-off, with jitter, which spreads the attempts of many clients.
func backOff(failures int, first, most time.Duration) time.Duration {
	limit := min(most, first<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

func reconnectDelay(failures int) time.Duration {
	return backOff(failures, 10*time.Millisecond, time.Second)
}

// idleDelay is how much longer to pause after an attempt with an error if nobody wants the connection.
func idleDelay(failures int, err error) time.Duration {
	switch {
	case failures == 0: // there was a connection, or no attempt before
		return 0
	case errors.Is(err, ErrTimeout): // such an attempt is expensive
		return backOff(failures, 250*time.Millisecond, 8*time.Second)
	default:
		return backOff(failures, 10*time.Millisecond, 2*time.Second)
	}
}

// sleep returns after d, or when woken, or with ctx's error if ctx is done.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	select {
	case <-time.After(d):
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
