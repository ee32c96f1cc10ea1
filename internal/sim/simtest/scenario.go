// Package simtest runs the real library, package redlock, on the model of package sim: several Lockers, each in several
// goroutines, lock, hold, extend, unlock and give up by a random schedule, while the network and the nodes fail by another.
// All of it happens in virtual time inside a testing/synctest bubble. One seed is one run.
package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
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
	Length  time.Duration // how long clients and faults go on
	Faults  []fault       // the menu; empty: a calm run
	Pace    time.Duration // mean pause between faults
	// Sound: the faults keep the assumptions under which holds exclude each other.
	Sound bool
}

// NewScenario derives a scenario from a seed.
func NewScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5ce7a210))
	s := Scenario{
		Seed: seed, Nodes: 3, Clients: 2 + r.IntN(3), Workers: 1 + r.IntN(2), Names: 1 + r.IntN(2), Sound: true,
		TTL:     time.Duration(300+r.IntN(3000)) * time.Millisecond,
		Timeout: time.Duration(40+r.IntN(160)) * time.Millisecond,
	}
	if r.IntN(5) < 2 {
		s.Nodes = 5
	}
	s.Length = min(max(8*s.TTL, 6*time.Second), 15*time.Second)
	s.Pace = time.Duration(50+r.IntN(800)) * time.Millisecond
	if r.IntN(10) == 0 {
		return s // calm
	}
	for _, f := range menu {
		if r.IntN(2) == 0 && (f.sound || r.IntN(3) == 0) {
			s.Faults = append(s.Faults, f)
			s.Sound = s.Sound && f.sound
		}
	}
	return s
}

func (s Scenario) String() string {
	names := make([]string, len(s.Faults))
	for i, f := range s.Faults {
		names[i] = f.name
	}
	return fmt.Sprintf("seed %d: %d nodes, %d clients × %d, %d names, TTL %v, node timeout %v, %v long, a fault every %v of [%s], assumptions kept: %v",
		s.Seed, s.Nodes, s.Clients, s.Workers, s.Names, s.TTL, s.Timeout, s.Length, s.Pace, strings.Join(names, " "), s.Sound)
}
