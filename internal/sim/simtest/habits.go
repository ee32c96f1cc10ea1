package simtest

import (
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
	Soon    time.Duration // WithPollInterval: the shortest
	Late    time.Duration // and the longest
	Async   bool          // WithAsyncUnlock
	Do      float64       // Do in place of Lock, RLock or Acquire
	Limit   float64       // holds with WithMaxHold
	Hand    float64       // holds that are handed to another worker, with a ticket
	Hasty   float64       // waits that are given up soon, most of them while a question is under way
	MaxWait bool          // WithMaxWait bounds every other wait, in place of the context
	Long    float64       // holds that are kept for several TTLs, extended all the time
	Revoke  float64       // in place of a lock of its own, a worker takes one from somebody
	Forget  float64       // calls of Once with one of Forget before it
	Value   float64       // holds with a value, and how often it is changed
	Look    float64       // in place of a lock of its own, a worker looks at one
	// Watchers are how many watch names.
	Watchers int
	Share    bool // the workers of a client have one Semaphore for each name
}

// newHabits draws each of them on its own, extremes included.
func newHabits(r *rand.Rand, ttl time.Duration) Habits {
	part := func() float64 { return max(0, min(1, 1.4*r.Float64()-0.2)) }
	h := Habits{
		Try: part(), Renew: part(), Extend: part(), Last: 0.7 * part(),
		Stay: scaled(ttl, r, 1./20, 2./3), Rest: scaled(ttl, r, 1./12, 1./2),
		Soon: scaled(time.Millisecond, r, 1./2, 4), Late: scaled(ttl, r, 1./8, 1./3),
	}
	// Each of these is drawn by itself, so that a seed means what it meant before there were any.
	apart := func(salt uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(h.Stay), salt)) }
	sometimes := func(salt uint64, one int) float64 {
		if r := apart(salt); r.IntN(one) == 0 {
			return r.Float64()
		}
		return 0
	}
	h.Read = sometimes(0x4ead, 2)
	h.Async = apart(0xa51c).IntN(4) == 0
	h.Several = apart(0x5e7).Float64()
	h.Do = 0.5 * sometimes(0xd0, 2)
	h.Limit = sometimes(0x11317, 3)
	h.Hand = sometimes(0x71c4e7, 3)
	h.Revoke = 0.3 * sometimes(0x4e70ce, 4)
	h.MaxWait = apart(0x3a817).IntN(3) == 0
	if r := apart(0x10065); r.IntN(4) == 0 {
		h.Value, h.Look, h.Watchers = r.Float64(), 0.5*r.Float64(), 1+r.IntN(2)
		if r.IntN(3) == 0 { // some for longer than the retention
			h.Long = 0.2 * r.Float64()
		}
	}
	h.Share = apart(0x5a4ed).IntN(2) == 0
	return h
}
