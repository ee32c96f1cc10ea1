package redlock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/token"
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
	slept *slept
}

// slept is by how much the time since boot is ahead of local, at least, which changes when the machine
// is suspended.
type slept struct {
	epoch time.Time
	wall  func(time.Time) int64 // a reading of local by the wall clock, in ns since 1970
	ahead atomic.Int64          // of the time since epoch, in ns; 0 where unknown
	apart atomic.Int64          // wall and monotonic clock, in ns, when the time since boot was read last
}

// apartBy is by how much the wall clock is ahead of the monotonic one, which counts from epoch.
func (s *slept) apartBy(now time.Time) int64 { return s.wall(now) - int64(now.Sub(s.epoch)) }

func systemClock() clock { return newClock(time.Now, boottime.Now) }

func newClock(local func() time.Time, boot func() time.Duration) clock {
	return clock{local, boot, &slept{epoch: local(), wall: time.Time.UnixNano}}
}

func (c clock) now() instant {
	boot := c.boot() // first, so that what it is ahead by is not taken for more than it is
	now := instant{local: c.local(), boot: boot}
	if boot != 0 {
		if ahead := int64(boot - now.local.Sub(c.slept.epoch)); ahead > c.slept.ahead.Load() {
			c.slept.ahead.Store(ahead)
		}
		c.slept.apart.Store(c.slept.apartBy(now.local))
	}
	return now
}

// begin is now for the beginning of a hold: it spares the system call that the time since boot costs, unless wall and
// monotonic clock have come apart since it was read last, as a suspension makes them. One that they do not show – the
// wall clock was set back as far at that moment – makes the beginning seem longer ago than it is, so that a
// hold is trusted for too short a time, once, and never for too long.
func (c clock) begin() instant {
	const tolerated = time.Millisecond // clocks that are being corrected go at slightly other rates
	now, ahead := instant{local: c.local()}, time.Duration(c.slept.ahead.Load())
	if off := c.slept.apartBy(now.local) - c.slept.apart.Load(); ahead == 0 || time.Duration(off).Abs() > tolerated {
		return c.now()
	}
	now.boot = now.local.Sub(c.slept.epoch) + ahead
	return now
}

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

// tokens is the clock from which tokens are drawn (see package token), by this process's own.
type tokens struct {
	*token.Clock
	epoch instant // where the clock's now counts from
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
