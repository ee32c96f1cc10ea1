package lock_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

func TestScriptFlushGoesUnnoticed(t *testing.T) {
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithTTL(long))
	var workers sync.WaitGroup
	done := make(chan struct{})
	var flushes atomic.Int32
	workers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, n := range f.Nodes {
				if _, err := n.Do("SCRIPT", "FLUSH"); err != nil {
					t.Error(err)
				}
			}
			flushes.Add(1)
		}
	})
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for j := 0; j < 100 || flushes.Load() < 10; j++ {
				k, err := l.TryLock(t.Context(), fmt.Sprintf("n%d-%d", i, j))
				if err != nil {
					t.Error(err)
					return
				}
				if err := k.Extend(t.Context()); err != nil {
					t.Error(err)
				}
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	close(done)
	workers.Wait()
	f.WantClean(t)
}

func TestKilledMastersAreDoneWithoutAndComeBack(t *testing.T) {
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithTTL(long))
	for _, n := range f.Nodes[:2] {
		fleet.Must(t, n.Kill())
	}
	k, err := l.TryLock(t.Context(), "two down")
	fleet.Must(t, err)
	unlock(t, k)

	fleet.Must(t, f.Nodes[2].Kill())
	before := time.Now()
	_, err = l.TryLock(t.Context(), "three down")
	wantIs(t, err, redlock.ErrNoQuorum)
	t.Logf("refused after %v: %v", time.Since(before), err)

	for _, n := range f.Nodes[:3] {
		fleet.Must(t, n.Start())
	}
	fleet.Eventually(t, "all nodes grant again", func() bool { return f.Grants(t, l) == 5 })
	f.WantClean(t)
}

func TestAHoldOutlivesTheRestartOfPersistentMasters(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	l := f.Locker(t, redlock.WithTTL(long))
	k := lock(t, l, "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	for _, n := range f.Nodes {
		fleet.Must(t, n.Restart())
	}
	fleet.Eventually(t, "Extend works", func() bool { return k.Extend(t.Context()) == nil })
	unlock(t, k)
	f.WantClean(t)
}

// Rolling restarts do not erode a hold: an emptied node is given the key again.
func TestAHoldIsRepairedOnANodeThatCameBackEmpty(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long))
	k := lock(t, l, "n")
	for _, n := range f.Nodes {
		fleet.Must(t, n.RestartEmpty())
		fleet.Eventually(t, "the node has the key again", func() bool {
			if err := k.Extend(t.Context()); errors.Is(err, redlock.ErrLost) {
				t.Fatal(err)
			}
			return fleet.Holder(t, n, "n") == k.Owner()
		})
	}
	unlock(t, k)
	f.WantClean(t)
}

// A Locker may be made before its masters are there.
func TestNewWithoutMasters(t *testing.T) {
	f := fleet.Start(t, 3)
	for _, n := range f.Nodes {
		fleet.Must(t, n.Kill())
	}
	l := f.Locker(t, redlock.WithTTL(long))
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)
	for _, n := range f.Nodes[:2] {
		fleet.Must(t, n.Start())
	}
	unlock(t, lock(t, l, "n"))
	fleet.Must(t, f.Nodes[2].Start())
	f.WantClean(t)
}

// A master that ends all its connections is well: no attempt fails for that, whatever of it was on its way.
func TestNoAttemptFailsWhenConnectionsAreKilled(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithNodeTimeout(5*time.Second))
	tries, failed := 0, 0
	for round := range 20 {
		var killing sync.WaitGroup
		for _, n := range f.Nodes {
			killing.Go(func() {
				time.Sleep(time.Duration(round) * time.Millisecond)
				if _, err := n.Do("CLIENT", "KILL", "TYPE", "normal"); err != nil {
					t.Error(err)
				}
			})
		}
		for range 100 {
			tries++
			k, err := l.TryLock(t.Context(), fmt.Sprint("try ", tries)) // what arrives late is on nobody's way
			if err == nil {
				_ = k.Unlock(t.Context())
			} else if failed++; failed == 1 {
				t.Logf("%+v", err)
			}
		}
		killing.Wait()
	}
	if failed > 0 {
		t.Errorf("%d of %d attempts failed", failed, tries)
	}
}
