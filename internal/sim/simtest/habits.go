package simtest

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Habits are how the workers of a run use the library: parts from 0 to 1, and times.
type Habits struct {
	Try     float64       // TryLock in place of Lock
	Read    float64       // RLock and TryRLock in place of these
	Several float64       // LockAll of several names, where there are several
	Renew   float64       // renewal left on
	Extend  float64       // Extend at the end of each while
	Last    float64       // holds that are kept to the end of their validity, or of what renewal makes of it
	Stay    time.Duration // mean of a while that a lock is kept
	Rest    time.Duration // longest pause before the next
	Least   time.Duration // WithMinValidity
	Async   bool          // WithAsyncUnlock
	Once    float64       // WithMaxAttempts(1) for Lock and Acquire
	Limit   float64       // holds with WithMaxHold
	Hand    float64       // holds that are handed to another worker, with a ticket
	Hasty   float64       // waits that are given up soon, most of them while a question is under way
	MaxWait bool          // WithMaxWait bounds every other wait, in place of the context
	Long    float64       // holds that are kept for several TTLs, extended all the time
	Revoke  float64       // in place of a lock of its own, a worker takes one from somebody
	Forget  float64       // calls of Once with one of Forget before it
	Share   bool          // the workers of a client have one Semaphore for each name
}

// newHabits draws each of them on its own, extremes included.
func newHabits(r *rand.Rand, ttl time.Duration) Habits {
	part := func() float64 { return max(0, min(1, 1.4*r.Float64()-0.2)) }
	h := Habits{
		Try: part(), Renew: part(), Extend: part(), Last: 0.7 * part(),
		Stay: scaled(ttl, r, 1./20, 2./3), Rest: scaled(ttl, r, 1./12, 1./2), Least: scaled(ttl, r, 1./100, 1./4),
	}
	// Drawn by itself, so that with no readers a seed means what it meant before there were any.
	if apart := rand.New(rand.NewPCG(uint64(h.Stay), 0x4ead)); apart.IntN(2) == 0 {
		h.Read = apart.Float64()
	}
	h.Async = rand.New(rand.NewPCG(uint64(h.Stay), 0xa51c)).IntN(4) == 0
	h.Several = rand.New(rand.NewPCG(uint64(h.Stay), 0x5e7)).Float64()
	if apart := rand.New(rand.NewPCG(uint64(h.Stay), 0x0ace)); apart.IntN(3) == 0 {
		h.Once = 0.6 * apart.Float64()
	}
	if apart := rand.New(rand.NewPCG(uint64(h.Stay), 0x11317)); apart.IntN(3) == 0 {
		h.Limit = apart.Float64()
	}
	if apart := rand.New(rand.NewPCG(uint64(h.Stay), 0x71c4e7)); apart.IntN(3) == 0 {
		h.Hand = apart.Float64()
	}
	if apart := rand.New(rand.NewPCG(uint64(h.Stay), 0x4e70ce)); apart.IntN(4) == 0 {
		h.Revoke = 0.3 * apart.Float64()
	}
	h.MaxWait = rand.New(rand.NewPCG(uint64(h.Stay), 0x3a817)).IntN(3) == 0
	h.Share = rand.New(rand.NewPCG(uint64(h.Stay), 0x5a4ed)).IntN(2) == 0 || h.Once > 0
	return h
}

func (h Habits) String() string {
	unlocks := ""
	if h.Async {
		unlocks = ", unlocks not waited for"
	}
	if h.MaxWait {
		unlocks += ", waits bounded by themselves"
	}
	return fmt.Sprintf("%.0f %% try, %.0f %% once, %.0f %% read, %.0f %% several, %.0f %% renew, %.0f %% extend, "+
		"%.0f %% last, %.0f %% limited, %.0f %% handed on, %.0f %% revoke, holds of %v, rests up to %v%s",
		100*h.Try, 100*h.Once, 100*h.Read, 100*h.Several, 100*h.Renew, 100*h.Extend,
		100*h.Last, 100*h.Limit, 100*h.Hand, 100*h.Revoke, h.Stay, h.Rest, unlocks)
}
