package redlock

import (
	"time"

	"github.com/quorumlock/redlock/internal/token"
)

// settle returns base with the options applied, or base itself where there are none.
func settle(base *options, call bool, opts []Option) (*options, error) {
	if len(opts) == 0 {
		return base, nil
	}
	o := *base
	for _, opt := range opts {
		switch {
		case opt.apply == nil:
			return nil, invalid("the zero Option")
		case call && opt.newOnly:
			return nil, invalid("%s is only for New", opt.name)
		case call && opt.onceOnly:
			return nil, invalid("%s is only for New and Once", opt.name)
		}
		opt.apply(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return &o, nil
}

// check refuses what cannot work and boxes what goes on the wire.
func (o *options) check() error {
	if o.ttl < time.Millisecond {
		return invalid("TTL %s: Redis counts in milliseconds, 1ms is the least", o.ttl)
	}
	o.ttl = o.ttl.Truncate(time.Millisecond)
	switch {
	case o.drift.factor < 0 || o.drift.factor >= 1 || o.drift.slack < 0:
		return invalid("drift %g and %s: want a factor from 0 to 1 and no negative slack", o.drift.factor, o.drift.slack)
	case o.minValidity < 0:
		return invalid("minimum validity %s is negative", o.minValidity)
	case o.drift.validity(o.ttl, 0) <= 0:
		return invalid("TTL %s: the drift allowance of %s leaves nothing of it", o.ttl, o.drift.allowance(o.ttl))
	case o.drift.validity(o.ttl, 0) <= o.leastValidity():
		return invalid("TTL %s: less than the minimum validity %s is left after drift", o.ttl, o.leastValidity())
	case o.nodeTimeout <= 0:
		return invalid("node timeout %s is not positive", o.nodeTimeout)
	case o.maxAttempts < 0:
		return invalid("%d attempts", o.maxAttempts)
	case o.maxHold < 0:
		return invalid("a maximum hold of %s", o.maxHold)
	case o.maxHold > 0 && o.maxHold <= o.minValidity:
		return invalid("a maximum hold of %s is no longer than the minimum validity %s", o.maxHold, o.minValidity)
	case o.fencing && o.retention < o.ttl+2*token.MaxAhead:
		return invalid("TTL %s: tokens are kept for %s, which must be %s longer than any TTL (WithFenceRetention)", o.ttl, o.retention, 2*token.MaxAhead)
	case o.guard < 0, o.guard > 0 && o.guard < 2*token.MaxAhead:
		return invalid("restart guard %s: less than %s cannot outlast the difference of the nodes' clocks; 0 turns it off", o.guard, 2*token.MaxAhead)
	case o.guard > 0 && o.ttl > o.guard:
		return invalid("TTL %s: longer than the restart guard %s (WithRestartGuard), so a node could forget the lock and count again before it ends", o.ttl, o.guard)
	case o.doneTTL < time.Millisecond:
		return invalid("done TTL %s: Redis counts in milliseconds, 1ms is the least", o.doneTTL)
	case o.maxRuns < 0:
		return invalid("%d runs", o.maxRuns)
	case o.backoff == nil:
		return invalid("no back-off")
	case o.logger == nil:
		return invalid("no logger")
	}
	o.ttlArg = o.ttl.Milliseconds()
	return nil
}
