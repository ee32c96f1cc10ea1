package simtest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

// Clients with the old list beside clients with the new one, without those that have both in between: the same worlds
// show holds that overlap. So it is the middle phase that they are safe by.
func TestWithoutTheMiddlePhaseHoldsOverlap(t *testing.T) {
	notRaced(t)
	const most = 200 // one of ten shows it, or of thirty
	begin := map[string]uint64{"replace one of five": 10, "replace one of three": 4, "five to three": 4}
	for _, shape := range simtest.Shapes {
		t.Run(strings.ReplaceAll(shape.Name, " ", "_"), func(t *testing.T) {
			for s := begin[shape.Name]; s <= most; s++ {
				for _, v := range run(t, simtest.WithoutMiddle(s, shape)).Violations {
					if v.Invariant == "exclusion" && strings.Contains(v.Text, "while held") {
						t.Logf("seed %d: %s", s, v)
						return
					}
				}
			}
			t.Errorf("%d seeds, and no harm without a middle phase: they prove nothing", most)
		})
	}
}

// Clients with both lists want a free name at the same moment, and each may get a majority of one list. Who gives way
// is clear at once: the lock is not free for long while somebody waits for it.
func TestContendersDuringAChangeOfNodes(t *testing.T) {
	const limit = 200 * time.Millisecond
	var longest time.Duration
	n := 3 * *seeds
	for seed := *first; seed < *first+n; seed++ {
		var sum simtest.Contest
		synctest.Test(t, func(*testing.T) { sum = simtest.Contend(seed, 10) })
		longest = max(longest, sum.Idle)
		if sum.Both > 0 || sum.Idle > limit {
			t.Errorf("%s: free for %v while somebody waited, want %v at most; two had it in %d rounds",
				sum.Text, sum.Idle, limit, sum.Both)
		}
	}
	t.Logf("%d seeds: free for %v at most while somebody waited", n, longest)
}
