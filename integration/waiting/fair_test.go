package waiting_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// A Locker whose first answers came late has an idea of the nodes' time that is
// behind the others'. That must not make it first in every queue.
func TestAClockThatIsBehindGetsNoMoreTurns(t *testing.T) {
	fleet.OnlyBounds(t)
	f := fleet.Start(t, 5)
	fleet.Measure(t, func(m *fleet.Measurement) {
		nw := f.Network(t)
		nw.Each(func(p *faultproxy.Proxy) { p.Delay(faultproxy.Down, 60*time.Millisecond) })
		lockers := []*redlock.Locker{nw.Locker(t)}
		nw.Heal(t)
		for range contenders - 1 {
			lockers = append(lockers, f.Locker(t))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		turns := make([]int, len(lockers))
		var all sync.WaitGroup
		for i, l := range lockers {
			all.Go(func() {
				for {
					k, err := l.Lock(ctx, name)
					if err != nil {
						return // ctx is over
					}
					turns[i]++
					time.Sleep(time.Millisecond)
					_ = k.Unlock()
				}
			})
		}
		all.Wait()
		most := slices.Max(turns[1:])
		m.Bound(turns[0] <= most*3/2, "turns of the one whose clock is behind, and of the others: %d", turns)
		if most == 0 {
			t.Error("the others got no turn at all")
		}
	})
}
