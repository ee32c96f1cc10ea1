package guard_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

const (
	period = 4 * time.Second
	ttl    = 4 * time.Second
)

// restartEmpty kills masters, and starts them again without what they knew.
func restartEmpty(t *testing.T, nodes []*masters.Node) {
	t.Helper()
	var g errgroup.Group
	for _, n := range nodes {
		g.Go(n.RestartEmpty)
	}
	cases.NoError(t, g.Wait())
}

// With it, nobody gets the lock before the first hold is over, and who waits is told why.
func TestWithTheGuardItDoesNot(t *testing.T) {
	t.Parallel()
	fleet.Measure(t, func(m *fleet.Measurement) {
		f := fleet.StartSpec(t, 5, masters.Spec{})
		opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithoutRenewal()}
		a, b := f.Guarded(t, period, opts...), f.Guarded(t, period, opts...)
		first := cases.Must(a.Lock(t.Context(), "job"))(t) // waits for the masters, which have just started
		before := time.Now()
		restartEmpty(t, f.Nodes[:3])
		restarted := time.Now() // all of them: a container takes its time
		var who map[string]time.Time
		var asked, told time.Time
		for unseen := true; unseen; { // each restart of containers may take as long as what comes after it
			unseen = false
			fleet.Eventually(t, "three nodes have come back and abstain", func() bool {
				asked = time.Now()
				k, err := b.TryLock(t.Context(), "job")
				told = time.Now()
				if err == nil {
					if !first.Deadline().Before(time.Now()) {
						fleet.Unsafe(t, "granted while the first hold was valid")
					}
					// The machine was busy for the whole of the period, so nobody saw it: once more.
					cases.NoError(t, k.Unlock())
					before = time.Now()
					restartEmpty(t, f.Nodes[:3])
					restarted, unseen = time.Now(), true
					return true
				}
				who = abstainers(t, err)
				for _, n := range f.Nodes[:3] {
					if who[n.Addr()].IsZero() {
						return false // not connected yet
					}
				}
				fleet.WantIs(t, err, redlock.ErrNoQuorum)
				t.Log(err)
				return true
			})
		}
		for _, n := range f.Nodes[:3] {
			if until := who[n.Addr()]; !until.After(asked) || until.Sub(told) > period+time.Second {
				t.Errorf("%s: abstains until %v, as it said between %v and %v", n.Addr(), until, asked, told)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		second, err := b.Lock(ctx, "job")
		if err != nil {
			fleet.WantIs(t, err, context.DeadlineExceeded)
			second = cases.Must(b.Lock(t.Context(), "job"))(t)
		}
		waited, after := time.Since(before), time.Since(restarted)
		if waited < period {
			fleet.Unsafe(t, "granted %v after the restarts began, before the guard's period %v was over", waited, period)
		}
		if !first.Deadline().Before(time.Now()) {
			fleet.Unsafe(t, "granted while the first hold was valid")
		}
		if second.Token() <= first.Token() {
			fleet.Unsafe(t, "token %d after %d", second.Token(), first.Token())
		}
		// Two seconds are the most by which the uptimes that nodes tell are too low, and one is the
		// longest that who waits may sleep.
		m.Bound(after <= period+3*time.Second,
			"granted %v after the restarts had ended, the guard's period is %v", after, period)
	})
}

// Masters that have just been started count from the moment that the rule says: their
// uptime, less the second by which it may be wrong, reaches the period.
func TestColdStart(t *testing.T) {
	t.Parallel()
	fleet.Measure(t, func(m *fleet.Measurement) {
		f := fleet.StartSpec(t, 5, masters.Spec{})
		var l *redlock.Locker
		var abstaining map[string]time.Time
		// All are to abstain, so the period must be longer than a busy machine takes to start them.
		for period := period; ; period *= 2 {
			l = f.Guarded(t, period, redlock.WithTTL(ttl))
			fleet.Eventually(t, "all nodes are connected", func() bool {
				return !slices.ContainsFunc(l.Status(t.Context()), func(n redlock.NodeStatus) bool { return !n.Connected })
			})
			k, err := l.TryLock(t.Context(), "job")
			if err != nil {
				if abstaining = abstainers(t, err); len(abstaining) == 5 {
					break
				}
			}
			if period > 2*time.Minute {
				t.Fatalf("got %v, want five nodes that abstain", err)
			}
			if err == nil {
				cases.NoError(t, k.Unlock())
			}
			restartEmpty(t, f.Nodes)
		}
		// When the third of five nodes votes: with it there is a majority.
		until := slices.SortedFunc(maps.Values(abstaining), time.Time.Compare)[2]
		for {
			asked := time.Now()
			k, err := l.TryLock(t.Context(), "job")
			if err == nil {
				if asked.Before(until.Add(-time.Millisecond)) {
					fleet.Unsafe(t, "granted %v early", until.Sub(asked))
				}
				m.Bound(asked.Before(until.Add(500*time.Millisecond)),
					"granted %v after the third node's vote counts", asked.Sub(until))
				cases.NoError(t, k.Unlock())
				return
			}
			if asked.After(until.Add(time.Minute)) {
				t.Fatalf("%v late: %v", asked.Sub(until), err)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
}
