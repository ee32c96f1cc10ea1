package simtest_test

import (
	"flag"
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
	var result *simtest.Result
	synctest.Test(t, func(*testing.T) { w, result = simtest.RunHours(*hoursSeed, *hours) })
	done, runs := 0, map[string]int{}
	for _, h := range w.List {
		t.Log(h)
		done += h.Done
		for _, r := range h.Runs {
			runs[r.How]++
		}
	}
	t.Logf("%d of %d jobs done; runs: %v; %d restarts of nodes, empty", done, *hours, runs, w.Restarts)
	for _, v := range result.Violations {
		t.Error(v)
	}
	// A day on which nothing happens proves nothing.
	if h := *hours; done > h || done < h*30/72 || h-done < h*3/72 || runs["crashed"] < h*10/72 ||
		h >= 72 && runs["crashed after its work"] < 1 || w.Restarts < h*200/72 {
		t.Error("too little happened, or too much")
	}
}
