package main

import (
	"slices"
	"strconv"
)

// What a master would need for more than was measured: the cost of one client, hold, waiter or cycle in the largest
// crowd, multiplied.

// A perThousand is what a thousand of something add to a master, and on their clients.
type perThousand struct {
	What, Grows string
	cost        map[string]float64
}

// Adds shows a cost. What may be lost in the noise is nothing where it is less.
func (p perThousand) Adds(name string) string {
	switch v := max(p.cost[name], 0); name {
	case connections:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case usedMemory:
		return number(v / 1024)
	default:
		return number(v)
	}
}

// HalfACore is how many take half of a master's core, alone, with two digits: more would claim too much. Empty: it was
// lost in the noise.
func (p perThousand) HalfACore() string {
	share := p.cost[masterShare]
	if share <= 0 {
		return ""
	}
	v, unit := 1000*50/share, 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	return number(unit * float64(int(v/unit)))
}

// crowds are the sizes of those that were measured.
func (r results) crowds() (sizes []int) {
	if o := r[crowdScenario]; o != nil {
		for _, r := range o.Rows {
			sizes = append(sizes, r.n)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// perThousand works out the costs from the largest crowd.
func (r results) perThousand() []perThousand {
	sizes := r.crowds()
	if len(sizes) == 0 {
		return nil
	}
	n := sizes[len(sizes)-1]
	figure := func(n int, state, name string) float64 {
		v, _ := r.figure(crowdScenario, state, n, name)
		return v
	}
	// added is what a state adds to another, for so many of what causes it. Memory and connections are the clients'
	// always: the buffers of their connections.
	added := func(n int, with, without string, count float64) map[string]float64 {
		cost := map[string]float64{}
		for _, name := range []string{masterShare, commands, "in KiB/s", "out KiB/s", usedMemory, connections} {
			of := count
			if name == usedMemory || name == connections {
				of = float64(n)
			}
			cost[name] = (figure(n, with, name) - figure(n, without, name)) * 1000 / max(of, 1)
		}
		return cost
	}
	// Cycles are those of the crowd that did most of them: on a busy machine the largest does not keep the pace.
	busiest := n
	for _, other := range sizes {
		if figure(other, allCycle, events) > figure(busiest, allCycle, events) {
			busiest = other
		}
	}
	return []perThousand{
		{"clients at rest", "with the clients", added(n, atRest, nobody, float64(n))},
		{"holds, TTL 10 s", "with the holds ÷ the TTL: 3 renewals in each", added(n, allHold, atRest, float64(n))},
		{"waiters, TTL 10 s", "with the waiters: each asks about once in a TTL", added(n, allWait, atRest, float64(n))},
		{"cycles/s", "with the cycles", added(busiest, allCycle, atRest, figure(busiest, allCycle, events))},
	}
}
