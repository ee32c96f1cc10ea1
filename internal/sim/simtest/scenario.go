// Package simtest runs the real library, package redlock, on the model of package sim: several Lockers, each in several
// goroutines, lock, hold, extend, unlock and give up by a random schedule, while the network and the nodes fail by
// another. All of it happens in virtual time inside a testing/synctest bubble. One seed is one run.
package simtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Scenario is what a seed decides before a run begins.
type Scenario struct {
	Seed    uint64
	Nodes   int
	Clients int
	Workers int // goroutines of each client
	Names   int
	TTL     time.Duration
	Timeout time.Duration // WithNodeTimeout
	Guard   time.Duration // WithMaxTTL; 0: NoRestartGuard
	Durable bool          // nodes keep everything on disk, and say so
	Trusted bool          // durable nodes are believed: TrustDisk
	Length  time.Duration // how long clients and faults go on
	Faults  []fault       // what is drawn from; empty: a calm run
	Pace    time.Duration // mean pause between faults
	Strain  time.Duration // their mean length
	Narrow  float64       // the part of faults of the network that concern a single link
	Habits  Habits
	Permits int       // workers acquire one of so many permits in place of locking; 0: they lock
	Hurry   bool      // see hurry
	Jobs    bool      // workers carry out jobs, once each, in place of locking
	Delay   sim.Delay // of all links, faults apart
	// PlainNodes speak RESP2 alone, so that clients need a second connection to each. Bit i is for node i.
	PlainNodes uint
	Login      time.Duration // what credentials may take; 0: nodes want none
	DoneTTL    time.Duration // for how long jobs are remembered
	Change     *Change       // of nodes, or nil
	Copied     bool          // the second client is a copy of the first, from a snapshot that was started twice
	Crowd      *Crowd        // what happens to fifty Lockers of one process, or nil
	Rivals     *Rivals       // what happens to clients with lists of nodes that conflict, or nil
	Liar       *Liar         // one of the nodes, or nil
	Actions    bool          // what happens to the first name is kept for docs/spec, see Action
	Sound      bool          // the faults keep the assumptions under which holds exclude each other
}

// NewScenario derives a scenario from a seed. It draws not only what happens but also what can happen: see row.
func NewScenario(seed uint64) Scenario {
	s := newScenario(seed, row(seed))
	if s.Habits.Part[Acquire] > 0 {
		s.Permits = 1 + int(seed/rows%3)
	}
	return s
}

// ordinary derives one whose clients all have the same settings, and in which workers do only the one or the other:
// lock, acquire permits, carry out jobs.
func ordinary(seed uint64) Scenario {
	return newScenario(seed, row(seed)&^of(Acquire, Once, OtherTTL, OtherMaxTTL, OtherNodeTimeout, Visit))
}

func newScenario(seed uint64, row set) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5ce7a210))
	s := Scenario{
		Seed: seed, Nodes: 3, Clients: 2 + r.IntN(4), Workers: 1 + r.IntN(2), Names: 1, Sound: true, Delay: sim.LAN,
		DoneTTL: time.Hour,
	}
	if r.IntN(5) < 2 {
		s.Nodes = 5
	}
	if row.has(LockAll) {
		s.Names = 2 + r.IntN(len(names)-1)
	}
	if row.has(Plain) {
		s.PlainNodes = []uint{math.MaxUint, 1 + r.Uint()}[r.IntN(2)]
	}
	for f := features; f < features+Feature(len(menu)); f++ {
		// Each other time, who trusts the disk meets what else the row has: see below.
		if older := allFaults[f-features].name; row.has(Trusted) && seed/rows%2 == 0 &&
			(older == "rollback" || older == "failover") {
			continue
		}
		for range 1 + r.IntN(4) { // some strike more often than others
			if row.has(f) {
				s.Faults = append(s.Faults, allFaults[f-features])
			}
		}
	}
	// Everything scales with the TTL, and delays, faults and time-outs may be as long as it: what matters happens at its
	// end.
	s.TTL = 50 * time.Millisecond << r.IntN(5)
	if s.Forgets() { // a node that forgot is out of the vote for 2 s at least: that must not be many TTLs
		s.TTL = 800 * time.Millisecond << r.IntN(2)
	}
	s.TTL += time.Duration(r.Int64N(int64(s.TTL))).Truncate(time.Millisecond)
	s.Length = 10 * s.TTL
	s.Timeout = 10*time.Millisecond + time.Duration(float64(s.TTL)*(0.1+1.4*r.Float64()*r.Float64()))
	if r.IntN(4) == 0 {
		s.Timeout += scaled(s.TTL, r, 1./2, 2)
	}
	s.Pace = scaled(s.TTL, r, 1./16, 1.5)
	s.Strain = scaled(s.TTL, r, 1./8, 2)
	s.Narrow = r.Float64()
	s.Habits = newHabits(r, s.TTL, row)
	if far := r.IntN(4); far > 1 {
		s.Delay.Max += s.TTL / time.Duration(100/far/far)
	}
	if r.IntN(3) == 0 {
		s.Delay.Slow = 0.1
	}
	s.hurry(row)
	s.refuse(row)
	// Without faults an answer always comes within the node timeout.
	s.Delay.Max = min(s.Delay.Max, s.Timeout/4)
	s.Delay.SlowMax = max(s.Delay.Max, min(s.Delay.SlowMax, s.Timeout/3))
	// No TTL is longer than the guard's period, and that no shorter than clocks may disagree.
	s.Guard, s.Durable = max(s.TTL, 2*time.Second), r.IntN(4) > 0
	for _, f := range s.kinds() {
		s.Sound = s.Sound && f.class != unsound
		// A durable node does not roll back; one that does, or loses its disk, is out of the vote for
		// the guard's period: leave time to see what comes after.
		s.Durable = s.Durable && f.name != "rollback"
		if f.class == forgetful {
			s.Length += 3 * s.longest() / 2
		}
	}
	s.Copied = rand.New(rand.NewPCG(seed, 0xc10e)).IntN(4) == 0
	// Who trusts durable nodes assumes that none is started from a replica's file: after a failover that nobody has
	// noticed yet, the next crash would do just that.
	s.Trusted = s.Durable && row.has(Trusted) &&
		!slices.ContainsFunc(s.Faults, func(f fault) bool { return f.name == "failover" })
	return s
}

// hurry makes, in some scenarios, connections break and scripts go missing all the time, while much is under way and
// clients lose patience: what a Locker asks, asks again and undoes then meets on its way to a node.
func (s *Scenario) hurry(row set) {
	r := rand.New(rand.NewPCG(s.Seed, 0x4e117))
	for i, f := range haste {
		if row.has(features+Feature(len(menu)+i)) && r.IntN(2) == 0 {
			s.Hurry = true
			for range 1 + r.IntN(4) {
				s.Faults = append(s.Faults, f)
			}
		}
	}
	if !s.Hurry {
		return
	}
	s.Pace = scaled(s.TTL, r, 1./32, 1./4)
	s.Delay.Max += scaled(s.TTL, r, 1./32, 1./16)
	if r.IntN(2) == 0 {
		s.Habits.Hasty = r.Float64()
		return
	}
	// Nor is there always somebody who gets at once what is let go of.
	s.Clients, s.Workers, s.Names = 2, 1, len(names)
	s.Habits.Part[Extend], s.Habits.Part[TryLock], s.Habits.Part[RLock] = 0.9, 0.9, 0
}

// scaled draws a part of a time between the given limits, small ones as often as large ones.
func scaled(d time.Duration, r *rand.Rand, least, most float64) time.Duration {
	return time.Duration(float64(d) * least * math.Pow(most/least, r.Float64()))
}

// kinds returns the faults that can happen, each once.
func (s Scenario) kinds() (kinds []fault) {
	for _, f := range s.Faults {
		if !slices.ContainsFunc(kinds, func(k fault) bool { return k.name == f.name }) {
			kinds = append(kinds, f)
		}
	}
	return kinds
}

// longest is the longest MaxTTL that a client may have.
func (s Scenario) longest() time.Duration {
	if s.Habits.Part[OtherMaxTTL] > 0 {
		return 4 * max(s.Guard, s.TTL)
	}
	return s.Guard
}

// slowest is the longest node timeout that a client may have.
func (s Scenario) slowest() time.Duration {
	if s.Habits.Part[OtherNodeTimeout] > 0 {
		return 2 * s.Timeout
	}
	return s.Timeout
}

// permits is which part of the calls wants permits: all, unless the row says so.
func (s Scenario) permits() float64 {
	if s.Permits > 0 && s.Habits.Part[Acquire] == 0 {
		return 1
	}
	return s.Habits.Part[Acquire]
}

// Remembers reports whether nodes keep all that they know: what is kept for longer than the restart guard's period
// rests on that.
func (s Scenario) Remembers() bool {
	return s.Crowd == nil &&
		!slices.ContainsFunc(s.Faults, func(f fault) bool { return f.class == forgetful || f.name == "flushall" })
}

// forgetsJobs reports whether jobs that are done are forgotten before the end.
func (s Scenario) forgetsJobs() bool { return s.DoneTTL < s.Length }

// Forgets reports whether nodes lose what they know, so that exclusion rests on the restart guard.
func (s Scenario) Forgets() bool {
	return s.Crowd != nil || slices.ContainsFunc(s.Faults, func(f fault) bool { return f.class == forgetful })
}

// String begins with what internal/mutants reads.
func (s Scenario) String() string {
	type plain Scenario // without this method
	return fmt.Sprintf("seed %d: %d nodes, %+v", s.Seed, s.Nodes, plain(s))
}
