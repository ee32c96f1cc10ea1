// Package simtest runs the real library, package redlock, on the model of package sim: several Lockers, each in several
// goroutines, lock, hold, extend, unlock and give up by a random schedule, while the network and the nodes fail by another.
// All of it happens in virtual time inside a testing/synctest bubble. One seed is one run.
package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	Guard   time.Duration // WithRestartGuard
	Durable bool          // nodes keep everything on disk, and say so
	Length  time.Duration // how long clients and faults go on
	Faults  []fault       // the menu; empty: a calm run
	Pace    time.Duration // mean pause between faults
	Delay   sim.Delay     // of all links, faults apart
	// Sound: the faults keep the assumptions under which holds exclude each other.
	Sound bool
}

// NewScenario derives a scenario from a seed.
func NewScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5ce7a210))
	// Everything scales with the TTL, and delays, faults and time-outs may be as long as it: what matters happens at its end.
	ttl := 50 * time.Millisecond << r.IntN(5)
	ttl += time.Duration(r.Int64N(int64(ttl))).Truncate(time.Millisecond)
	s := Scenario{
		Seed: seed, Nodes: 3, Clients: 2 + r.IntN(3), Workers: 1 + r.IntN(2), Names: 1 + r.IntN(2), Sound: true, TTL: ttl,
		Timeout: 10*time.Millisecond + time.Duration(float64(ttl)*(0.1+1.4*r.Float64()*r.Float64())),
		Length:  16 * ttl,
		Pace:    time.Duration(float64(ttl) * (0.1 + r.Float64())),
		Delay:   sim.LAN,
	}
	if r.IntN(5) < 2 {
		s.Nodes = 5
	}
	if far := r.IntN(4); far > 1 {
		s.Delay.Max += ttl / time.Duration(100/far/far)
	}
	// Without faults an answer always comes within the node timeout.
	s.Delay.Max = min(s.Delay.Max, s.Timeout/4)
	s.Delay.SlowMax = max(s.Delay.Max, min(s.Delay.SlowMax, s.Timeout/3))
	// No TTL is longer than the guard's period, and that no shorter than clocks may disagree.
	s.Guard, s.Durable = max(ttl, 2*time.Second), r.IntN(4) > 0
	if r.IntN(10) == 0 {
		return s // calm
	}
	for _, f := range menu {
		if r.IntN(2) == 0 && (f.class == harmless || r.IntN(3) == 0) {
			s.Faults = append(s.Faults, f)
			s.Sound = s.Sound && f.class != unsound
			// A durable node does not roll back; one that does, or loses its disk, is out of the vote for
			// the guard's period: leave time to see what comes after.
			s.Durable = s.Durable && f.name != "rollback"
			if f.class == forgetful {
				s.Length += 3 * s.Guard / 2
			}
		}
	}
	return s
}

// Forgets reports whether nodes lose what they know, so that exclusion rests on the restart guard.
func (s Scenario) Forgets() bool {
	return slices.ContainsFunc(s.Faults, func(f fault) bool { return f.class == forgetful })
}

func (s Scenario) String() string {
	names := make([]string, len(s.Faults))
	for i, f := range s.Faults {
		names[i] = f.name
	}
	return fmt.Sprintf("seed %d: %d nodes, %d clients × %d, %d names, TTL %v, node timeout %v, guard %v, durable %v, delay up to %v, %v long, a fault every %v of [%s], assumptions kept: %v",
		s.Seed, s.Nodes, s.Clients, s.Workers, s.Names, s.TTL, s.Timeout, s.Guard, s.Durable, s.Delay.Max, s.Length, s.Pace, strings.Join(names, " "), s.Sound)
}
