package redlock

import "time"

// drift bounds how much faster than ours a node's clock may run.
//
// A node starts to count the TTL after the request was sent and rounds to
// milliseconds; its clock may gain on ours. The Redis documentation's algorithm
// takes off TTL × 1 % + 2 ms. One per cent covers quartz (0.01 %) and kernel
// slewing (0.05 %), not chrony's default maxslewrate (8.3 %): docs/tuning.md.
type drift struct {
	factor float64       // part of the TTL
	slack  time.Duration // on top: Redis's rounding to milliseconds
}

// allowance returns what to take off a TTL, rounded up.
func (d drift) allowance(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.factor) + d.slack + 1
}

// validity returns how long a lease may still be trusted, when the requests
// that granted it for ttl were queued elapsed ago. Zero or less: not at all.
func (d drift) validity(ttl, elapsed time.Duration) time.Duration {
	return ttl - d.allowance(ttl) - elapsed
}

// leastValidity is what must be left of the TTL for a hold to count: what the user has set, or else a quarter of how
// long it may be held. Zero means: not set, no limit.
func leastValidity(ttl, set, maxHold time.Duration) time.Duration {
	switch {
	case set > 0:
		return set
	case maxHold > 0:
		return min(ttl, maxHold) / 4
	default:
		return ttl / 4
	}
}
