package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/token"
)

// instant is one reading of all clocks of this machine.
type instant struct {
	local time.Time     // Go's wall and monotonic readings
	boot  time.Duration // time since boot, suspension included; 0: unknown
}

// clock reads the time for all decisions: no other code of the package may call time.Now, so tests can replace it.
type clock struct {
	local      func() time.Time
	boot       func() time.Duration
	suspension *suspension
}

// suspension tracks how long the machine was suspended: in the time since boot that counts, not in the monotonic clock.
type suspension struct {
	epoch     time.Time
	wall      func(time.Time) int64 // a reading of local by the wall clock, in ns since 1970
	bootAhead atomic.Int64          // time since boot minus time since epoch, at least, in ns; 0: unknown

	// From just before the time since boot was read last. They are written after bootAhead.
	wallAhead atomic.Int64 // wallAheadAt
	readAt    atomic.Int64 // time since epoch, in ns
}

// wallAheadAt returns by how much the wall clock is ahead of the monotonic clock, which counts from epoch, in ns.
func (s *suspension) wallAheadAt(now time.Time) int64 { return s.wall(now) - int64(now.Sub(s.epoch)) }

func systemClock() clock { return newClock(time.Now, boottime.Now) }

func newClock(local func() time.Time, boot func() time.Duration) clock {
	return clock{local, boot, &suspension{epoch: local(), wall: time.Time.UnixNano}}
}

// The time since boot costs a system call, so it is computed from its last reading, within these limits.
const (
	maxBootAge   = 100 * time.Millisecond // of the reading
	maxWallShift = time.Millisecond       // of the wall clock against the monotonic clock since then
)

// now computes the time since boot from its last reading, unless that is older than maxBootAge or the wall clock has
// moved against the monotonic clock since. It does so in a suspension: the kernel adds the same time to the wall clock
// and to the time since boot, and it corrects the rates of the wall clock and of the monotonic clock alike.
//
// Only if the wall clock is set back by as much as a suspension took, at that moment, does now not notice it, until the
// last reading is older than maxBootAge: for 100 ms of running time. Meanwhile a hold from before the suspension may be
// trusted for so long after its end. One that begins meanwhile is safe: it seems to begin earlier than it did.
func (c clock) now() instant {
	s := c.suspension
	ahead := s.bootAhead.Load()
	now := instant{local: c.local()}
	mono := now.local.Sub(s.epoch)
	age, moved := mono-time.Duration(s.readAt.Load()), s.wallAheadAt(now.local)-s.wallAhead.Load()
	// The second look at bootAhead notices that another goroutine has read the clocks since the first: they may be from
	// before a suspension, and the reading of local from after it.
	if ahead == 0 || age > maxBootAge || time.Duration(moved).Abs() > maxWallShift || s.bootAhead.Load() != ahead {
		return c.read()
	}
	now.boot = mono + time.Duration(ahead)
	return now
}

// read reads all clocks. The wall clock's lead is from before the time since boot, so a suspension between two of the
// readings is noticed by the next now.
func (c clock) read() instant {
	s := c.suspension
	before := c.local()
	wallAhead := s.wallAheadAt(before)
	boot := c.boot() // before local, so that bootAhead is never too large
	now := instant{local: c.local(), boot: boot}
	if boot == 0 {
		return now
	}
	ahead := int64(boot - now.local.Sub(s.epoch))
	for known := s.bootAhead.Load(); ahead > known && !s.bootAhead.CompareAndSwap(known, ahead); {
		known = s.bootAhead.Load()
	}
	s.wallAhead.Store(wallAhead)
	s.readAt.Store(int64(before.Sub(s.epoch)))
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

func newTokens(e *quorum.Electorate, c clock, apart time.Duration) tokens {
	t := tokens{epoch: c.now()}
	t.Clock = token.New(e.Size, e.Least(), t.epoch.local.UnixMicro(), apart)
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

// ahead returns by how much a token is ahead of the nodes' time, in whole seconds.
func (t *tokens) ahead(of int64, now instant) time.Duration {
	return (time.Duration(of-t.time(now)) * time.Microsecond).Round(time.Second)
}

var errTokenAhead = errors.New("ahead of the nodes' clocks (doctor says what to do)")

// tooFarAhead returns an errTokenAhead. what: what a node has done with the token.
func (t *tokens) tooFarAhead(what string, token int64, now instant) error {
	return fmt.Errorf("%s that is %s %w", what, t.ahead(token, now), errTokenAhead)
}

func (t *tokens) propose(now instant) int64 { return t.Propose(t.micros(now)) }

// signal wakes whoever waits at a channel with room for one.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // the last value has not been taken yet
	}
}

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
