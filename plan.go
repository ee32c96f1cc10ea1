package redlock

import (
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
)

// plan is what a call wants to acquire, and how. The call makes it, and it is the same for all attempts of the call, or
// of a step of it. It is passed by value: else each Lock would allocate one.
type plan struct {
	op     string // for errors
	name   string // of several, all of them
	key    string // not of several
	names  *protocol.Names
	mode   mode
	former uuid.UUID // adopted: the owner to take over from

	opts     *options
	observed *observation   // nil: there is no observer, or the hold is a step of LockAll
	waits    bool           // the call may wait for the lock
	joins    bool           // a hold that the context carries may be joined
	began    *instant       // when its node timeout began, if it was held before its attempt: see awaitMajority
	since    int64          // when its wait began, in µs of the nodes' time; 0: with the attempt
	head     *verdictAtHead // gets what a wait finds, for the other callers of this process; nil: nobody would see it
}

// mode is how a lock is held.
type mode uint8

const (
	exclusive mode = iota
	reader         // with other readers
	several        // several names at once: LockAll
	adopted        // taken over from the process that wrote a ticket
)

func (p *plan) reads() bool { return p.mode == reader }

func (p *plan) hasValue() bool { return p.opts.value != "" && !p.reads() }

// covered reports whether a hold of some names has some of those that are planned, and whether it has all of them.
func (p *plan) covered(has func(name string) bool) (some, all bool) {
	if p.mode != several {
		one := has(p.name)
		return one, one
	}
	all = true
	for _, name := range p.names.List {
		one := has(name)
		some, all = some || one, all && one
	}
	return some, all
}

// grant is what a majority has given, and all that a hold's times follow from. It does not change: an extension is
// another one.
type grant struct {
	opts  *options
	since instant       // when the maximum of the hold begins to count
	start instant       // when the request on which the validity rests was begun
	term  time.Duration // for how long the nodes keep the lock then: the TTL, or a lease
}

// extended returns the grant that an extension for a whole TTL makes of this one.
func (g grant) extended(begun instant) grant {
	g.start, g.term = begun, g.opts.ttl
	return g
}

// leased reports whether it is for a lease: an extension makes its time whole.
func (g *grant) leased() bool { return g.term < g.opts.ttl }

// left returns for how long the hold may still be trusted; zero or less: its time is up.
func (g *grant) left(now instant) time.Duration {
	left := g.valid(now)
	if g.opts.maxHold > 0 {
		left = min(left, g.opts.maxHold-now.since(g.since))
	}
	return left
}

// enough reports whether so much is left that there may be a hold. A lease suffices only if an extension follows in
// good time.
func (g *grant) enough(now instant) bool {
	least := g.term / 2
	switch o := g.opts; {
	case !g.leased():
		least = leastValidity(o.ttl, o.maxHold)
	case !o.renew || o.maxHold > 0: // at its maximum, a hold is kept for the rest of what it has
		return false
	}
	return g.left(now) >= least
}

// valid returns how much is left of the validity, which the maximum does not bound.
func (g *grant) valid(now instant) time.Duration {
	return g.opts.drift.validity(g.term, now.since(g.start))
}

// validUntil returns when the validity ends.
func (g *grant) validUntil() time.Time { return g.start.local.Add(g.opts.drift.validity(g.term, 0)) }

// atMaximum reports whether the hold has reached its maximum.
func (g *grant) atMaximum(now instant) bool {
	return g.opts.maxHold > 0 && now.since(g.since) >= g.opts.maxHold
}

// deadline returns when the hold ends unless it is extended.
func (g *grant) deadline() time.Time {
	end := g.validUntil()
	if g.opts.maxHold > 0 {
		if limit := g.since.local.Add(g.opts.maxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}
