package lock_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

// Several clients try the same free name at the same moment, so that the votes split. Two of them never have it. How
// often nobody has, and how long the winner took, is only logged: that depends on the machine. The simulation judges
// it (TestTies).
func TestRacersNeverBothWin(t *testing.T) {
	rounds := 100
	if os.Getenv("REDLOCK_LONG") != "" {
		rounds = 1000
	}
	for _, racers := range []int{3, 8} {
		t.Run(fmt.Sprintf("%d fenced", racers), func(t *testing.T) { race(t, racers, rounds) })
		t.Run(fmt.Sprintf("%d plain", racers), func(t *testing.T) { race(t, racers, rounds, redlock.WithoutFencing()) })
	}
}

func race(t *testing.T, racers, rounds int, opts ...redlock.Option) {
	t.Helper()
	f := fleet.Start(t, 5)
	var lockers []*redlock.Locker
	for range racers {
		lockers = append(lockers, f.Locker(t, append(opts, redlock.WithTTL(long))...))
	}
	nobody := 0
	var won, lost []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("race %d", i) // what the losers of a round undo must not be in the way of the next
		var mu sync.Mutex                 // protects won, lost and holds
		var holds []*redlock.Lock
		start := make(chan struct{})
		var all sync.WaitGroup
		for _, l := range lockers {
			all.Go(func() {
				<-start
				asked := time.Now()
				k, err := l.TryLock(t.Context(), name)
				took := time.Since(asked)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, took)
					return
				}
				won, holds = append(won, took), append(holds, k)
			})
		}
		close(start)
		all.Wait()
		valid := slices.DeleteFunc(slices.Clone(holds), func(k *redlock.Lock) bool { return k.Err() != nil })
		if len(valid) > 1 {
			fleet.Unsafe(t, "%d holds at once: tokens %d and %d", len(valid), valid[0].Token(), valid[1].Token())
		}
		if len(holds) == 0 {
			nobody++
		}
		for _, k := range holds {
			unlock(t, k)
		}
	}
	t.Logf("%d racers, %d rounds: nobody won %d; winners p50 %v, p99 %v; losers p50 %v, p99 %v", racers, rounds, nobody,
		quantile(won, .5), quantile(won, .99), quantile(lost, .5), quantile(lost, .99))
	f.WantClean(t)
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond)
}
