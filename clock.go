package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/token"
)

// instant is one reading of all clocks of this machine.
type instant struct {
	local time.Time     // Go's wall and monotonic readings
	boot  time.Duration // time since boot, suspension included; 0: unknown
}

// clock reads the time for all decisions. No other code of the package may call time.Now, so a test can give a Locker
// other clocks.
type clock struct {
	local      func() time.Time
	boot       func() time.Duration
	suspension *suspension
}

// suspension tracks how long the machine was suspended: the time since boot includes that, the monotonic clock does
// not.
type suspension struct {
	epoch     time.Time
	wall      func(time.Time) int64 // a reading of local by the wall clock, in ns since 1970
	bootAhead atomic.Int64          // time since boot minus time since epoch, at least, in ns; 0: unknown
	wallAhead atomic.Int64          // wallAheadAt when the time since boot was read last
}

// wallAheadAt returns by how much the wall clock is ahead of the monotonic clock, which counts from epoch, in ns.
func (s *suspension) wallAheadAt(now time.Time) int64 { return s.wall(now) - int64(now.Sub(s.epoch)) }

func systemClock() clock { return newClock(time.Now, boottime.Now) }

func newClock(local func() time.Time, boot func() time.Duration) clock {
	return clock{local, boot, &suspension{epoch: local(), wall: time.Time.UnixNano}}
}

func (c clock) now() instant {
	boot := c.boot() // before local, so that bootAhead is never too large
	now := instant{local: c.local(), boot: boot}
	if boot != 0 {
		if ahead := int64(boot - now.local.Sub(c.suspension.epoch)); ahead > c.suspension.bootAhead.Load() {
			c.suspension.bootAhead.Store(ahead)
		}
		c.suspension.wallAhead.Store(c.suspension.wallAheadAt(now.local))
	}
	return now
}

// begin is now for the beginning of a hold. It computes the time since boot instead of paying the system call for it,
// unless the wall clock has moved against the monotonic clock since the last call, as it does in a suspension. If the
// wall clock was set back by as much at that moment, the suspension goes unnoticed. The beginning then seems earlier
// than it was, so one hold is trusted for too short a time; none is ever trusted for too long.
func (c clock) begin() instant {
	const tolerated = time.Millisecond // clocks that are being corrected run at slightly different rates
	now, ahead := instant{local: c.local()}, time.Duration(c.suspension.bootAhead.Load())
	moved := c.suspension.wallAheadAt(now.local) - c.suspension.wallAhead.Load()
	if ahead == 0 || time.Duration(moved).Abs() > tolerated {
		return c.now()
	}
	now.boot = now.local.Sub(c.suspension.epoch) + ahead
	return now
}

// since returns the time from a to b: the largest difference that any clock shows.
//
// Each clock shows too little in some case, and too little is the dangerous error: it makes a holder trust its hold for
// too long. The monotonic clock stops while the machine is suspended. CLOCK_BOOTTIME is missing outside Linux. Both may
// stop while a hypervisor pauses the machine; the wall clock shows that once it is corrected. A wall clock that is set
// forward only ends a hold early; if it is set back, the other clocks decide.
func (b instant) since(a instant) time.Duration {
	return max(
		b.local.Sub(a.local),
		b.local.Round(0).Sub(a.local.Round(0)), // Round strips the monotonic reading
		b.boot-a.boot,
	)
}

// tokens is the clock from which fencing tokens are drawn (see package token). It runs on this process's clock.
type tokens struct {
	*token.Clock
	epoch instant // zero of the time passed to token.Clock
}

func newTokens(nodes int, c clock, apart time.Duration) tokens {
	t := tokens{epoch: c.now()}
	t.Clock = token.New(nodes, t.epoch.local.UnixMicro(), apart)
	return t
}

// micros returns the time since the epoch in µs. It does not follow the wall clock.
func (t *tokens) micros(now instant) int64 {
	if now.boot != 0 {
		return (now.boot - t.epoch.boot).Microseconds()
	}
	return now.local.Sub(t.epoch.local).Microseconds()
}

// time returns the nodes' time in µs: the median of their clocks.
func (t *tokens) time(now instant) int64 { return t.Time(t.micros(now)) }

func (t *tokens) propose(now instant) int64 { return t.Propose(t.micros(now)) }

// sleep returns after d, or with ctx's error if ctx is done first.
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
