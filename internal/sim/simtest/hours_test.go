package simtest_test

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

var hoursSeed = flag.Uint64("hours-seed", 1, "seed of TestTheJobOfTheHour")

// Three days of hourly jobs on five machines: each is done once, or tried exactly as often as it may be. -v prints what became
// of each.
func TestTheJobOfTheHour(t *testing.T) {
	var w *simtest.Hours
	synctest.Test(t, func(*testing.T) { w = simtest.RunHours(*hoursSeed, 72) })
	var table strings.Builder
	if err := w.Print(&table); err != nil {
		t.Fatal(err)
	}
	done, exhausted, runs := w.Totals()
	t.Logf("\n%s\nseed %d: %d jobs done, %d exhausted; runs: %v; %d restarts of nodes, empty", table.String(), w.Seed, done, exhausted, runs, w.Restarts)
	for _, v := range w.Violations {
		t.Error(v)
	}
	// A table in which nothing happens proves nothing.
	if done+exhausted != 72 || done < 30 || exhausted < 3 || runs["crashed"] < 10 || runs["crashed after its work"] < 1 || w.Restarts < 200 {
		t.Error("too little happened, or too much")
	}
}
