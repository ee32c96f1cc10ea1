package lock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// A server that does not know SCRIPT gets the source of a script with the first call of it.
func TestServersWithoutScript(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--rename-command", "SCRIPT", ""}})
	k := fleet.Lock(t, f.Locker(t, redlock.WithTTL(fleet.Long)), "n")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	fleet.Must(t, k.Unlock())
}

func TestAHoldOutlivesTheRestartOfPersistentMasters(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	l := f.Locker(t, redlock.WithTTL(fleet.Long))
	k := fleet.Lock(t, l, "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	for _, n := range f.Nodes {
		fleet.Must(t, n.Restart())
	}
	fleet.Eventually(t, "Extend works", func() bool { return k.Extend(t.Context()) == nil })
	fleet.Must(t, k.Unlock())
	f.WantClean(t)
}

// A master that ends all its connections is well: no attempt fails for that, whatever of it was on its way.
func TestNoAttemptFailsWhenConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	l := f.Locker(t)
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
				_ = k.Unlock()
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

// redsync: value and until are raced by a renewer. The race detector judges.
func TestAHoldMayBeUsedByManyAtOnce(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(300*time.Millisecond))
	k := fleet.Lock(t, l, "n")
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 50 {
				// They fail once it is lost or unlocked; not the point here.
				_ = k.Extend(t.Context())
				_, _, _, _ = k.Deadline(), k.Err(), k.Owner(), k.Token()
				ctx, cancel := k.Context(t.Context())
				_ = ctx.Err()
				cancel()
			}
		})
	}
	users.Wait()
	for range 4 {
		users.Go(func() { _ = k.Unlock(); <-k.Done() })
	}
	users.Wait()
	f.WantClean(t)
}
