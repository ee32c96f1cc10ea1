package main

import (
	"fmt"
	"strings"
)

// What a master would need for more than was measured: the cost of one client, hold, waiter or cycle in the largest
// crowd, multiplied.

// perThousand is what a thousand of something add to a master, and on their clients.
type perThousand struct {
	what, grows string
	cost
}

// perThousand works out the costs from the largest crowd.
func (res *result) perThousand() []perThousand {
	r := res.Rows[len(res.Rows)-1]
	all := func(*crowd) float64 { return float64(r.Goroutines) }
	// of is what a state adds to another, for so many of what causes it. Memory and connections are the clients' always:
	// the buffers of their connections.
	of := func(with, without func(*crowd) *cost, count func(*crowd) float64) cost {
		each := func(count func(*crowd) float64, f func(*cost) float64) float64 {
			return r.mid(func(s sample) float64 {
				return (f(with(s.Crowd)) - f(without(s.Crowd))) * 1000 / max(count(s.Crowd), 1)
			})
		}
		return cost{
			Client:      each(count, func(l *cost) float64 { return l.Client }),
			Master:      each(count, func(l *cost) float64 { return l.Master }),
			Commands:    each(count, func(l *cost) float64 { return l.Commands }),
			In:          each(count, func(l *cost) float64 { return l.In }),
			Out:         each(count, func(l *cost) float64 { return l.Out }),
			Memory:      each(all, func(l *cost) float64 { return l.Memory }),
			Connections: each(all, func(l *cost) float64 { return l.Connections }),
		}
	}
	empty := func(c *crowd) *cost { return &c.Empty }
	rest := func(c *crowd) *cost { return &c.Rest }
	atRest := of(rest, empty, all)
	holds := of(func(c *crowd) *cost { return &c.Holds }, rest, all)
	waiters := of(func(c *crowd) *cost { return &c.Waiters }, rest, all)
	// Cycles are those of the crowd that did most of them: on a busy machine the largest does not keep the pace.
	done := func(r *row) float64 { return r.mid(func(s sample) float64 { return s.Crowd.Cycles.Events }) }
	for _, other := range res.Rows {
		if done(other) > done(r) {
			r = other
		}
	}
	cycles := of(func(c *crowd) *cost { return &c.Cycles }, rest, func(c *crowd) float64 { return c.Cycles.Events })
	return []perThousand{
		{"clients at rest", "with the clients", atRest},
		{"holds, TTL 10 s", "with the holds ÷ the TTL: 3 renewals in each", holds},
		{"waiters, TTL 10 s", "with the waiters: each asks about once in a TTL", waiters},
		{"cycles/s", "with the cycles", cycles},
	}
}

// costs is the table of what a thousand of each cost.
func (res *result) costs() string {
	var b strings.Builder
	head(&b, "a thousand", "commands/s", "CPU, % of a core", "KiB/s in", "KiB/s out", "memory MiB", "connections",
		"grows")
	for _, p := range res.perThousand() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.0f | %s |\n", p.what, positive(p.Commands), positive(p.Master),
			positive(p.In), positive(p.Out), positive(p.Memory/1024), p.Connections, p.grows)
	}
	return b.String()
}

// limits says how many of each take half of a master's core, alone.
func (res *result) limits() string {
	var b strings.Builder
	head(&b, "half a core is taken by", "so many")
	for _, p := range res.perThousand() {
		if p.Master > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", p.what, number(rounded(1000*50/p.Master)))
		}
	}
	return b.String()
}

// rounded keeps two digits: more would claim too much.
func rounded(v float64) float64 {
	unit := 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	return unit * float64(int(v/unit))
}

// positive is number for what may be lost in the noise: less than nothing is nothing.
func positive(v float64) string { return number(max(v, 0)) }
