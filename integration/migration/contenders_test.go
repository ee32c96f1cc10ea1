package migration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

// Three clients with both lists want one free name after the other at the same moment. Each may get a majority of one
// list; who gives way is clear at once, for each kind of change.
func TestContendersWithBothLists(t *testing.T) {
	const limit, names = 200 * time.Millisecond, 250
	for what, l := range map[string]lists{
		"one of three is replaced": during([]int{0, 1, 2}, []int{0, 1, 3}),
		"one of five is replaced":  during([]int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 5}),
		"all three are replaced":   during([]int{0, 1, 2}, []int{3, 4, 5}),
		"three to five":            during([]int{0, 1, 2}, []int{0, 1, 2, 3, 4}),
	} {
		t.Run(what, func(t *testing.T) {
			fleet.Measure(t, func(m *fleet.Measurement) {
				of, to := urlsOf(fleet.Start(t, 6), l)
				var lockers []*redlock.Locker
				for range 3 {
					lockers = append(lockers, fleet.Locker(t, of, redlock.WithMigration(to)))
				}
				var mu sync.Mutex // protects longest and late
				var longest time.Duration
				late := 0
				var streams sync.WaitGroup
				for stream := range 4 {
					streams.Go(func() {
						for i := range names {
							contend(t, lockers, fmt.Sprintf("name:%d:%d", stream, i), func(waited time.Duration) {
								mu.Lock()
								defer mu.Unlock()
								longest = max(longest, waited)
								if waited > limit {
									late++
								}
							})
						}
					})
				}
				streams.Wait()
				m.Bound(late == 0, "of %d waits for names that were free, %d took more than %v, the longest %v",
					4*names*len(lockers), late, limit, longest)
			})
		})
	}
}

// contend has all Lockers lock the name at once, and says how long each waited.
func contend(t *testing.T, lockers []*redlock.Locker, name string, waited func(time.Duration)) {
	t.Helper()
	var all sync.WaitGroup
	var inside atomic.Int32
	for _, l := range lockers {
		all.Go(func() {
			begun := time.Now()
			err := l.Do(t.Context(), name, func(context.Context) error {
				waited(time.Since(begun))
				if inside.Add(1) > 1 {
					fleet.Unsafe(t, "two have %s", name)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				return nil
			}, redlock.WithMaxWait(30*time.Second))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
