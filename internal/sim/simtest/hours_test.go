package simtest_test

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

var (
	hoursSeed = flag.Uint64("hours-seed", 1, "seed of TestTheJobOfTheHour")
	hours     = flag.Int("hours", 24, "how long it goes on; 72 is the long form")
)

// A day of hourly jobs on five machines: each is done once, or tried exactly as often as it may be. -v prints what
// became of each.
func TestTheJobOfTheHour(t *testing.T) {
	notRaced(t)
	var w *simtest.Hours
	synctest.Test(t, func(*testing.T) { w = simtest.RunHours(*hoursSeed, *hours) })
	var table strings.Builder
	if err := w.Print(&table); err != nil {
		t.Fatal(err)
	}
	done, exhausted, runs := w.Totals()
	t.Logf("\n%s\nseed %d: %d jobs done, %d exhausted; runs: %v; %d restarts of nodes, empty",
		table.String(), w.Seed, done, exhausted, runs, w.Restarts)
	for _, v := range w.Violations {
		t.Error(v)
	}
	// A table in which nothing happens proves nothing.
	if h := *hours; done+exhausted != h || done < h*30/72 || exhausted < h*3/72 || runs["crashed"] < h*10/72 ||
		h >= 72 && runs["crashed after its work"] < 1 || w.Restarts < h*200/72 {
		t.Error("too little happened, or too much")
	}
}
