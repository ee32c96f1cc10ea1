package simtest_test

import (
	"flag"
	"testing"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

var crowds = flag.Uint64("crowds", 4, "number of seeds of TestCrowd; 3,000 are the long form")

// Fifty Lockers of one process start at one moment, and lock while masters fail and lose what they know. All come back,
// in bounded time and with few connections, and none is refused. One seed takes the time of ten of TestSimulation.
func TestCrowd(t *testing.T) {
	notRaced(t)
	sum := swarmOf(t, *crowds, simtest.CrowdScenario)
	t.Logf("%d seeds: %d calls, %d holds, %d masters that failed, %d connections where %d were wanted, "+
		"all back %v after the last fault at most, %d commands",
		sum.seeds, sum.calls, sum.grants, sum.faults, sum.connections, sum.wanted, sum.back, sum.commands)
	if !t.Failed() && (sum.grants < 50*sum.seeds || sum.faults < sum.seeds) {
		t.Errorf("too little happened: want at least 50 holds and a fault a seed")
	}
}
