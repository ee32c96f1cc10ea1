package redlock

import (
	"time"

	"github.com/quorumlock/redlock/internal/chance"
)

// Backoff says how long to wait after the given number of failed attempts in a
// row, the first being 1. It may be called by several goroutines at once.
type Backoff func(attempts int) time.Duration

// Jitter returns a Backoff that waits a random time between shortest and a
// limit that doubles with each attempt from 2 × shortest up to longest, so that
// competitors come apart.
func Jitter(shortest, longest time.Duration) Backoff {
	return func(attempts int) time.Duration {
		limit := longest
		if shift := uint(max(attempts, 1)); shift < 30 {
			limit = min(longest, shortest<<shift)
		}
		if limit <= shortest {
			return max(shortest, 0)
		}
		return shortest + chance.Duration(limit-shortest)
	}
}
