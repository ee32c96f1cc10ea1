package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

const (
	period = 4 * time.Second
	ttl    = 4 * time.Second
)

// forget kills three of five masters, and starts them again without what they knew.
func forget(t *testing.T, f fleet.Fleet) {
	t.Helper()
	var g errgroup.Group
	for _, n := range f.Nodes[:3] {
		g.Go(n.RestartEmpty)
	}
	fleet.Must(t, g.Wait())
}

// The hazard: without the guard, two hold one lock.
func TestWithoutTheGuardAMajorityThatForgetsGrantsTwice(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	opts := []redlock.Option{redlock.WithRestartGuard(0), redlock.WithTTL(20 * time.Second), redlock.WithoutRenewal()}
	a, b := f.Locker(t, opts...), f.Locker(t, opts...)
	first, err := a.Lock(t.Context(), "job")
	fleet.Must(t, err)
	forget(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	second, err := b.Lock(ctx, "job")
	if err != nil || first.Err() != nil {
		t.Fatalf("no harm was done (%v, %v): this proves nothing", err, first.Err())
	}
	t.Logf("two hold it: tokens %d and %d", first.Token(), second.Token())
}

// With it, nobody gets the lock before the first hold is over, and who waits is told why.
func TestWithTheGuardItDoesNot(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	opts := []redlock.Option{redlock.WithRestartGuard(period), redlock.WithTTL(ttl), redlock.WithoutRenewal()}
	a, b := f.Locker(t, opts...), f.Locker(t, opts...)
	first, err := a.Lock(t.Context(), "job") // waits for the masters, which have just started
	fleet.Must(t, err)
	before := time.Now()
	forget(t, f)
	restarted := time.Now() // all of them: a container takes its time
	fleet.Eventually(t, "all nodes are connected", func() bool {
		for _, n := range b.Nodes(t.Context()) {
			if !n.Connected {
				return false
			}
		}
		return true
	})
	_, err = b.TryLock(t.Context(), "job")
	who := abstainers(t, err)
	if !errors.Is(err, redlock.ErrNoQuorum) || len(who) != 3 {
		t.Errorf("got %v, want ErrNoQuorum with three nodes that abstain", err)
	}
	for _, n := range f.Nodes[:3] {
		if why := who[n.Addr()]; why == nil || why.Remaining <= 0 || why.Remaining > period+time.Second {
			t.Errorf("%s: got %+v", n.Addr(), why)
		}
	}
	t.Log(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err = b.Lock(ctx, "job"); !errors.Is(err, redlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: got %v, want ErrNoQuorum and DeadlineExceeded", err)
	}
	second, err := b.Lock(t.Context(), "job")
	fleet.Must(t, err)
	// Two seconds are the most by which the uptimes that nodes tell are too low, and one is the
	// longest that who waits may sleep.
	if waited := time.Since(before); waited < period || time.Since(restarted) > period+3*time.Second {
		t.Errorf("granted %v after the restarts began and %v after they had ended, want the guard's period %v and at most three seconds",
			waited, time.Since(restarted), period)
	}
	if !first.Until().Before(time.Now()) {
		t.Error("while the first hold was valid")
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
}

// Masters that have just been started count from the moment that the rule says: their
// uptime, less the second by which it may be wrong, reaches the period.
func TestColdStart(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	l := f.Locker(t, redlock.WithRestartGuard(period), redlock.WithTTL(ttl))
	_, err := l.TryLock(t.Context(), "job")
	who := abstainers(t, err)
	if len(who) != 5 {
		t.Fatalf("got %v, want five nodes that abstain", err)
	}
	var until time.Time // of the third
	for _, st := range l.Nodes(t.Context()) {
		later := 0
		for _, other := range l.Nodes(t.Context()) {
			if other.AbstainsUntil.After(st.AbstainsUntil) {
				later++
			}
		}
		if later <= 2 && (until.IsZero() || st.AbstainsUntil.Before(until)) {
			until = st.AbstainsUntil
		}
	}
	for {
		asked := time.Now()
		k, err := l.TryLock(t.Context(), "job")
		if err == nil {
			fleet.Must(t, k.Unlock(t.Context()))
			if asked.Before(until.Add(-time.Millisecond)) {
				t.Errorf("granted %v early", until.Sub(asked))
			}
			break
		}
		if asked.After(until.Add(500 * time.Millisecond)) {
			t.Fatalf("%v late: %v", asked.Sub(until), err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A hold that is renewed outlives the restart of every node, one after the other.
func TestARollingRestartKeepsAHold(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	l := f.Locker(t, redlock.WithRestartGuard(period), redlock.WithTTL(ttl))
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	// Three are enough for the hold. Two may have abstained still, and get it with the first renewal.
	fleet.Eventually(t, "all nodes have the key", func() bool { return f.Holders(t, "job", k.Owner()) == len(f.Nodes) })
	for _, n := range f.Nodes {
		fleet.Must(t, n.RestartEmpty())
		fleet.Eventually(t, "the node has the key again", func() bool {
			fleet.Must(t, k.Err())
			return fleet.Holder(t, n, "job") == k.Owner()
		})
		time.Sleep(ttl / 2) // a renewal later its vote counts for the hold, if not for others
		if err := k.Err(); err != nil {
			t.Fatal(err)
		}
	}
	fleet.Must(t, k.Unlock(t.Context()))
}

func TestDurableMastersCountAtOnce(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	l := f.Locker(t, redlock.WithRestartGuard(period), redlock.WithTTL(ttl))
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
	for _, n := range f.Nodes {
		fleet.Must(t, n.Restart())
	}
	back := time.Now()
	k, err = l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
	if took := time.Since(back); took > period/2 {
		t.Errorf("usable %v after the restart", took)
	}
	for _, n := range f.Nodes {
		fleet.Must(t, n.RestartEmpty())
	}
	fleet.Eventually(t, "nodes that lost their disk abstain", func() bool {
		_, err := l.TryLock(t.Context(), "job")
		return err != nil && len(abstainers(t, err)) >= 2
	})
}

func TestFlushAllIsNoticed(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{})
	l := f.Locker(t, redlock.WithRestartGuard(period), redlock.WithTTL(ttl))
	_, err := l.Lock(t.Context(), "job", redlock.WithoutRenewal())
	fleet.Must(t, err)
	_, err = f.Nodes[0].Do("FLUSHALL")
	fleet.Must(t, err)
	if st := l.Nodes(t.Context())[0]; st.AbstainsUntil.IsZero() {
		t.Errorf("got %+v, want a node that abstains", st)
	}
}

func TestAPromotedReplicaAbstains(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 2, masters.Spec{})
	l := fleet.Locker(t, []string{f.Nodes[0].URL()}, redlock.WithRestartGuard(period), redlock.WithTTL(ttl))
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
	host, port := split(t, f.Nodes[1].Addr())
	_, err = f.Nodes[0].Do("REPLICAOF", host, port)
	fleet.Must(t, err)
	fleet.Eventually(t, "a replica is refused", func() bool {
		_, err := l.TryLock(t.Context(), "job")
		return err != nil && contains(err, "it is a replica of")
	})
	_, err = f.Nodes[0].Do("REPLICAOF", "NO", "ONE")
	fleet.Must(t, err)
	fleet.Eventually(t, "a promoted one abstains", func() bool {
		_, err := l.TryLock(t.Context(), "job")
		return err != nil && contains(err, "promoted replica")
	})
	k, err = l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
}
