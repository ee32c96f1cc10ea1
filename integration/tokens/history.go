// Package tokens has the judge of the simulation look at histories of real masters. Its tests show that tokens are in
// order there, whatever clocks and nodes go through.
package tokens

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Hold is one hold as its client saw it. The times are those of one monotonic clock for the whole history.
type Hold struct {
	Name    string
	Reads   bool // beside others that read; without a token
	Token   int64
	Asked   time.Duration // read before the call that acquired
	Granted time.Duration // read after it
	Ended   time.Duration // read before the unlock, and no later than the end of validity
}

// Verdict is what a history amounts to.
type Verdict struct {
	Holds, Names int
	Broken       []sim.Violation
}

// Judge judges a history: tokens are unique, and in the order of real time; and where holds exclude each other, none
// overlaps, and whatever was over has a smaller token.
func Judge(holds []Hold, exclusive bool) Verdict {
	names, first := map[string]bool{}, time.Duration(0)
	if len(holds) > 0 {
		first = slices.MinFunc(holds, func(a, b Hold) int { return int(a.Asked - b.Asked) }).Asked
	}
	at := func(d time.Duration) time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d - first) }
	var all []*sim.Hold
	for _, h := range holds {
		names[h.Name] = true
		is := &sim.Hold{
			Name: h.Name, Token: h.Token, Reads: h.Reads, Start: at(h.Asked), Granted: at(h.Granted), Until: at(h.Ended),
		}
		if h.Ended < h.Granted {
			is.Revoked = is.Granted // who learnt of the grant when it was over did not hold then
		}
		all = append(all, is)
	}
	return Verdict{len(holds), len(names), sim.HistoryOf(all).Check(sim.Assume{Clocks: exclusive})}
}

// String is one line, and one for each of the first things that should not be.
func (v Verdict) String() string {
	lines := []string{fmt.Sprintf("%d holds of %d names: %d not in order, or overlap", v.Holds, v.Names, len(v.Broken))}
	for _, b := range v.Broken[:min(10, len(v.Broken))] {
		lines = append(lines, strings.ReplaceAll(b.String(), "\n\t", "; "))
	}
	return strings.Join(lines, "\n  ")
}
