package simtest_test

import (
	"testing"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

// Clients whose lists of nodes conflict start at one moment, and come and go: no two hold the lock, also not beside a
// ticket or a hold of a process that has ended, and in the end the clients with one of the lists work. One seed takes
// the time of four of TestSimulation.
func TestListsThatConflict(t *testing.T) {
	sum := swarmOf(t, 1+*seeds/4, simtest.RivalScenario)
	t.Logf("%d seeds: %d calls, %d holds, %d breaks, %d commands",
		sum.seeds, sum.calls, sum.grants, sum.faults, sum.commands)
	if !t.Failed() && sum.grants < 10*sum.seeds {
		t.Errorf("too little happened: want at least 10 holds a seed")
	}
}
