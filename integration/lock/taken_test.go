package lock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// rueidislock: one foreign key of three blocked the lock.
func TestAForeignKeyOnAMinorityDoesNotBlock(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(fleet.Long))
	fleet.Put(t, "n", "somebody", fleet.Long, f.Nodes[0])
	k := fleet.Lock(t, l, "n")
	fleet.Must(t, k.Unlock())
	if got := fleet.Holder(t, f.Nodes[0], "n"); got != "somebody" {
		t.Errorf("the foreign key is now %q", got)
	}
}

// node-redlock: no release between tries, so that its own key blocked it.
func TestOwnKeysOfAFailedAttemptDoNotBlockTheNext(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(fleet.Long))
	for _, p := range nw.Proxies[2:] {
		p.Refuse()
	}
	_, err := l.TryLock(t.Context(), "n")
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
	nw.Heal(t)
	k := fleet.Lock(t, l, "n")
	fleet.Must(t, k.Unlock())
	f.WantClean(t)
}

// bsm/redislock: owners were compared up to the shorter one's length, so that worker-1 released worker-12's lock.
func TestAnOwnerThatIsAPrefixOfAnotherStealsNothing(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(fleet.Long), redlock.WithoutRenewal())
	for what, foreign := range map[string]func(string) string{
		"longer":  func(owner string) string { return owner + "2" },
		"shorter": func(owner string) string { return owner[:len(owner)-1] },
	} {
		k := fleet.Lock(t, l, what)
		fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, what, k.Owner()) == 3 })
		other := foreign(k.Owner())
		fleet.Put(t, what, other, fleet.Long, f.Nodes...)
		fleet.WantIs(t, k.Extend(t.Context()), redlock.ErrLost)
		_ = k.Unlock() // lost, as Extend said
		_, err := l.TryLock(t.Context(), what)
		fleet.WantIs(t, err, redlock.ErrTaken)
		if got := f.Holders(t, what, other); got != 3 {
			t.Errorf("%s: the other owner has %d nodes, want 3", what, got)
		}
	}
}

func TestTakenIsNotUnreachable(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t)
	fleet.Put(t, "n", "somebody", fleet.Long, f.Nodes...)
	_, err := l.TryLock(t.Context(), "n")
	fleet.WantIs(t, err, redlock.ErrTaken)
	if errors.Is(err, redlock.ErrNoQuorum) {
		t.Errorf("taken, but also %v", redlock.ErrNoQuorum)
	}
	for _, p := range nw.Proxies[:3] {
		p.Refuse()
	}
	_, err = l.TryLock(t.Context(), "m")
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
	if errors.Is(err, redlock.ErrTaken) {
		t.Errorf("unreachable, but also %v", redlock.ErrTaken)
	}
	// Taken wherever one can look, and too few to look at: nobody knows.
	_, err = l.TryLock(t.Context(), "n")
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
}

// One node was never ours and two are silent now: the other two confirm, and
// nobody can say that a majority has been lost.
func TestAMinorityThatNeverGrantedDoesNotMakeAHoldLost(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(fleet.Long), redlock.WithNodeTimeout(400*time.Millisecond), redlock.WithoutRenewal())
	fleet.Put(t, "n", "somebody", fleet.Long, f.Nodes[2])
	// With so short a node timeout, a node that the machine keeps from answering is not asked, and three grants are
	// enough: then once more.
	var k *redlock.Lock
	fleet.Eventually(t, "the other nodes have granted", func() bool {
		k = fleet.Lock(t, l, "n")
		if f.Holders(t, "n", k.Owner()) == 4 {
			return true
		}
		_ = k.Unlock()
		return false
	})
	for _, p := range nw.Proxies[:2] {
		p.Hold(faultproxy.Up)
	}
	for what, err := range map[string]error{
		"Extend": k.Extend(t.Context()), "Err": k.Err(), "Unlock": k.Unlock(),
	} {
		if what != "Err" && !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("%s: got %v, want %v", what, err, redlock.ErrNoQuorum)
		}
		if errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrTaken) {
			t.Errorf("%s says that somebody else has the lock: %v", what, err)
		}
	}
}
