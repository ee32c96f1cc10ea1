package lock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// The library's promises about time, with masters that are sick: make bounds alone judges them, without the race
// detector.

const (
	nodeTimeout = 250 * time.Millisecond
	// A timer fires late and a goroutine wakes late on a busy machine; a
	// timeout that is not enforced costs seconds, not this.
	slack = 100 * time.Millisecond
)

// cycles locks and unlocks distinct names from some goroutines for a while. It returns how long each cycle that began
// after the settling time took, sorted. A cycle that found too few nodes in time is a missed bound; any other failure
// is one of the test.
func cycles(t *testing.T, m *fleet.Measurement, l *redlock.Locker, settle, measure time.Duration) []time.Duration {
	t.Helper()
	const goroutines = 16
	begin := time.Now()
	took := make([][]time.Duration, goroutines)
	var late atomic.Int64
	var workers errgroup.Group
	for g := range goroutines {
		workers.Go(func() error {
			ctx, name := context.Background(), fmt.Sprintf("n%d", g)
			for {
				start := time.Now()
				if start.Sub(begin) > settle+measure {
					return nil
				}
				k, err := l.TryLock(ctx, name)
				if err == nil {
					err = k.Unlock()
				}
				if errors.Is(err, redlock.ErrNoQuorum) {
					late.Add(1)
					continue
				}
				if err != nil {
					return err
				}
				if start.Sub(begin) > settle {
					took[g] = append(took[g], time.Since(start))
				}
			}
		})
	}
	cases.NoError(t, workers.Wait())
	all := append(slices.Concat(took...), 0) // never none
	slices.Sort(all)
	found, missed := len(all)-1, int(late.Load())
	m.Bound(missed == 0 && found >= goroutines, "%d cycles of %d found a majority in time", found, found+missed)
	return all
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// redsync: one of three nodes frozen, and TryLock still blocked after 15 s.
func TestOneFrozenMasterCostsNothingAfterItsFirstTimeout(t *testing.T) {
	fleet.OnlyBounds(t)
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithNodeTimeout(nodeTimeout))
	fleet.Measure(t, func(m *fleet.Measurement) {
		healthy := cycles(t, m, l, 100*time.Millisecond, time.Second)
		cases.NoError(t, f.Nodes[0].Pause())
		frozen := cycles(t, m, l, nodeTimeout+100*time.Millisecond, 2*time.Second)
		cases.NoError(t, f.Nodes[0].Resume())
		// 5 ms is the promise. On a busy machine all masters together do not keep it either.
		limit := max(5*time.Millisecond, 2*p99(healthy))
		m.Bound(p99(frozen) <= limit,
			"p99 of %d cycles with all masters: %v; of %d with one frozen: %v (the longest: %v), want %v at most",
			len(healthy), p99(healthy), len(frozen), p99(frozen), frozen[len(frozen)-1], limit)
	})
	f.WantClean(t) // what the frozen master was told is undone as well
}

// Each operation returns within the node timeout: with one master frozen it
// succeeds, with three it says that there is no quorum.
func TestEveryOperationReturnsWithinTheNodeTimeout(t *testing.T) {
	fleet.OnlyBounds(t)
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithNodeTimeout(nodeTimeout), redlock.WithTTL(20*time.Second))
	for _, frozen := range []int{1, 3} {
		for name, do := range map[string]func(*redlock.Lock) error{
			"TryLock": func(*redlock.Lock) error { _, err := l.TryLock(t.Context(), rand.Text()); return err },
			"Extend":  func(k *redlock.Lock) error { return k.Extend(t.Context()) },
			"Unlock":  func(k *redlock.Lock) error { return k.Unlock() },
		} {
			fleet.Measure(t, func(m *fleet.Measurement) {
				fleet.Eventually(t, "all nodes grant", func() bool { return f.Grants(t, l) == 5 })
				held := cases.Must(l.Lock(t.Context(), rand.Text()))(t)
				fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, held.Name(), held.Owner()) == 5 })
				// The operation meets masters that have just been frozen, before the library has found out.
				each(t, f.Nodes[:frozen], (*masters.Node).Pause)
				start := time.Now()
				err := do(held)
				took := time.Since(start)
				each(t, f.Nodes[:frozen], (*masters.Node).Resume)
				m.Bound(took <= nodeTimeout+slack,
					"%d of 5 frozen: %s returned after %v, the node timeout is %v", frozen, name, took, nodeTimeout)
				switch {
				case frozen == 3 && !errors.Is(err, redlock.ErrNoQuorum):
					t.Errorf("three frozen: %s: got %v, want %v", name, err, redlock.ErrNoQuorum)
				case frozen == 1 && errors.Is(err, redlock.ErrNoQuorum):
					m.Bound(false, "one frozen: %s: %v", name, err) // the others were late as well
				case frozen == 1:
					cases.NoError(t, err)
				}
			})
		}
	}
}

func TestTwoRefusingMastersCostNothing(t *testing.T) {
	fleet.OnlyBounds(t)
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithNodeTimeout(nodeTimeout))
	fleet.Measure(t, func(m *fleet.Measurement) {
		rate := func() float64 {
			const measure = 300 * time.Millisecond
			return float64(len(cycles(t, m, l, 50*time.Millisecond, measure))) / measure.Seconds()
		}
		var healthy, refused []float64
		for range 5 { // interleaved, so that both meet the same machine
			fleet.Eventually(t, "all nodes grant", func() bool { return f.Grants(t, l) == 5 })
			all := rate()
			each(t, f.Nodes[:2], (*masters.Node).Kill)
			fleet.Eventually(t, "the rest grants", func() bool {
				k, err := l.TryLock(t.Context(), "three of five")
				return err == nil && k.Unlock() == nil
			})
			rest := rate()
			each(t, f.Nodes[:2], (*masters.Node).Start)
			healthy, refused = append(healthy, all), append(refused, rest)
		}
		slices.Sort(healthy)
		slices.Sort(refused)
		slowdown := healthy[2] / refused[2]
		m.Bound(slowdown <= 1.5,
			"medians: %.0f cycles/s with all masters, %.0f with two of five refusing: a slowdown of %.2f, want 1.5 at most",
			healthy[2], refused[2], slowdown)
	})
}

func each(t *testing.T, nodes []*masters.Node, do func(*masters.Node) error) {
	t.Helper()
	for _, n := range nodes {
		cases.NoError(t, do(n))
	}
}
