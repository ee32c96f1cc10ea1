package redlock

import "time"

// drift bounds how much faster than ours a node's clock may run.
//
// A node starts to count the TTL after the request was sent and rounds to milliseconds; its clock may gain on ours. The
// algorithm in the Redis documentation subtracts TTL × 1 % + 2 ms. One per cent covers quartz (0.01 %) and kernel
// slewing (0.05 %), not chrony's default maxslewrate (8.3 %): docs/tuning.md.
type drift struct {
	factor float64       // fraction of the TTL
	slack  time.Duration // added to that, for Redis's rounding to milliseconds
}

// usualDrift is that of the Redis documentation.
var usualDrift = drift{factor: 0.01, slack: 2 * time.Millisecond}

// allowance returns what to subtract from a TTL, rounded up.
func (d drift) allowance(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.factor) + d.slack + 1
}

// validity returns for how long to trust a hold granted for ttl by requests queued elapsed ago; ≤ 0: not at all.
func (d drift) validity(ttl, elapsed time.Duration) time.Duration {
	return ttl - d.allowance(ttl) - elapsed
}

// leastValidity returns how much of the TTL must be left for a hold to count: a quarter, of maxHold if set and shorter.
func leastValidity(ttl, maxHold time.Duration) time.Duration {
	if maxHold > 0 {
		return min(ttl, maxHold) / 4
	}
	return ttl / 4
}
