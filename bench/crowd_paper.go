package main

import "fmt"

// What a master would need for more than was measured: the cost of one client, hold, waiter or cycle in the largest
// crowd, multiplied.

// A perThousand is what a thousand of something add to a master, and on their clients.
type perThousand struct {
	what, grows string
	cost        map[string]float64
}

// perThousand works out the costs from the largest crowd.
func (r results) perThousand() []perThousand {
	sizes := r.crowds()
	if len(sizes) == 0 {
		return nil
	}
	n := sizes[len(sizes)-1]
	figure := func(n int, state, name string) float64 {
		if row := r.find(crowdScenario, state, n); row != nil {
			return row.figures[name]
		}
		return 0
	}
	// added is what a state adds to another, for so many of what causes it. Memory and connections are the clients'
	// always: the buffers of their connections.
	added := func(n int, with, without string, count float64) map[string]float64 {
		cost := map[string]float64{}
		for _, name := range []string{clientShare, masterShare, commands, "in KiB/s", "out KiB/s", usedMemory, connections} {
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

// costs is the table of what a thousand of each cost. What may be lost in the noise is nothing where it is less.
func (r results) costs() string {
	var rows [][]string
	for _, p := range r.perThousand() {
		shown := func(name string, unit float64) string { return number(max(p.cost[name]/unit, 0)) }
		rows = append(rows, []string{
			p.what, shown(commands, 1), shown(masterShare, 1), shown("in KiB/s", 1), shown("out KiB/s", 1),
			shown(usedMemory, 1024), fmt.Sprintf("%.0f", p.cost[connections]), p.grows,
		})
	}
	return table([]string{
		"a thousand", "commands/s", "CPU, % of a core", "KiB/s in", "KiB/s out", "memory MiB", "connections", "grows",
	}, rows)
}

// limits says how many of each take half of a master's core, alone.
func (r results) limits() string {
	var rows [][]string
	for _, p := range r.perThousand() {
		if share := p.cost[masterShare]; share > 0 {
			rows = append(rows, []string{p.what, number(rounded(1000 * 50 / share))})
		}
	}
	return table([]string{"half a core is taken by", "so many"}, rows)
}

// rounded keeps two digits: more would claim too much.
func rounded(v float64) float64 {
	unit := 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	return unit * float64(int(v/unit))
}
