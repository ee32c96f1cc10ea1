package simtest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim/simtest"
)

// Clients that try a free name at the same instant split the votes. The oldest of them asks again, so that hardly ever
// nobody wins; and never do two.
func TestTies(t *testing.T) {
	rounds := 400
	if raceDetector {
		rounds = 100
	}
	for _, racers := range []int{3, 8} {
		for _, mode := range []string{"fenced", "plain"} {
			var opts []redlock.LockOption
			if mode == "plain" {
				opts = append(opts, redlock.WithoutFencing())
			}
			t.Run(fmt.Sprintf("%d %s", racers, mode), func(t *testing.T) {
				var sum simtest.Tally
				synctest.Test(t, func(*testing.T) { sum = simtest.Races(uint64(racers), racers, rounds, opts...) })
				t.Logf("%+v", sum)
				if sum.Both > 0 {
					t.Errorf("in %d of %d rounds more than one won", sum.Both, rounds)
				}
				if sum.Nobody > rounds/100+2 { // without the tie-break it is 5 to 20 %, with it 0.2 % at most
					t.Errorf("in %d of %d rounds nobody won, want 1 %% at most", sum.Nobody, rounds)
				}
				if sum.Again == 0 {
					t.Error("nobody asked again: this proves nothing")
				}
				if sum.Longest > 250*time.Millisecond {
					t.Errorf("a call took %v", sum.Longest)
				}
			})
		}
	}
}
