package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
)

// instant is one reading of every clock this process can see.
type instant struct {
	local time.Time     // Go's wall and monotonic readings
	boot  time.Duration // time since boot, suspension included; 0 where unknown
}

// clock reads the time for all decisions. It stands alone in the code that
// may call time.Now, so that a test can give a Locker another notion of time.
type clock struct {
	local func() time.Time
	boot  func() time.Duration
}

func systemClock() clock { return clock{local: time.Now, boot: boottime.Now} }

func (c clock) now() instant { return instant{local: c.local(), boot: c.boot()} }

// since returns the time from a to b: the longest that any clock claims.
//
// Each clock has a case in which it shows too little, and a holder that
// believes too little has passed is the one error that matters: the monotonic
// clock stops while the machine is suspended, CLOCK_BOOTTIME is missing
// outside Linux, and both may stop while a hypervisor pauses the machine, which
// the corrected wall clock shows later. A wall clock that is set forward only
// ends a hold early; one that is set back is outvoted.
func (b instant) since(a instant) time.Duration {
	return max(
		b.local.Sub(a.local),
		b.local.Round(0).Sub(a.local.Round(0)), // Round strips the monotonic reading
		b.boot-a.boot,
	)
}

// sleep returns after d, or with ctx's error when that is done first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
