package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// redsync: errors.Is(err, context.DeadlineExceeded) was false when the deadline ended the wait.
func TestDeadlineExceededMeansTheCallersDeadline(t *testing.T) {
	f := fleet.Start(t, 3)
	nw := f.Network(t)
	k := lock(t, f.Locker(t, redlock.WithTTL(long)), "n")
	patient := nw.Locker(t, redlock.WithTTL(long))
	for patience := 100 * time.Millisecond; ; patience *= 2 { // until the nodes have said in time that it is taken
		_, err := patient.Lock(within(t, patience), "n")
		wantIs(t, err, context.DeadlineExceeded)
		if errors.Is(err, redlock.ErrTaken) {
			break
		}
		if patience > 20*time.Second {
			t.Fatalf("after %v: got %v, want %v", patience, err, redlock.ErrTaken)
		}
	}
	unlock(t, k)

	l := nw.Locker(t, redlock.WithTTL(long), redlock.WithNodeTimeout(50*time.Millisecond))
	nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) })
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a node's timeout passes for the caller's deadline: %v", err)
	}
	_, err = l.TryLock(within(t, time.Hour), "n")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a node's timeout passes for the caller's deadline: %v", err)
	}
	_, err = l.Lock(within(t, 200*time.Millisecond), "n")
	wantIs(t, err, context.DeadlineExceeded)
	wantIs(t, err, redlock.ErrNoQuorum)
}

func TestTakenIsNotUnreachable(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t)
	fleet.Put(t, "n", "somebody", long, f.Nodes...)
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrTaken)
	if errors.Is(err, redlock.ErrNoQuorum) {
		t.Errorf("taken, but also %v", redlock.ErrNoQuorum)
	}
	for _, p := range nw.Proxies[:3] {
		p.Refuse()
	}
	_, err = l.TryLock(t.Context(), "m")
	wantIs(t, err, redlock.ErrNoQuorum)
	if errors.Is(err, redlock.ErrTaken) {
		t.Errorf("unreachable, but also %v", redlock.ErrTaken)
	}
	// Taken wherever one can look, and too few to look at: nobody knows.
	_, err = l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)
}

// ndyakov: Unlock with one node down unwrapped to "lost".
func TestUnlockWithNodesDown(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long))
	k := lock(t, l, "n")
	nw.Proxies[0].Refuse()
	nw.Proxies[1].Hold(faultproxy.Up)
	fleet.Must(t, k.Unlock(t.Context()))

	nw.Heal(t)
	fleet.Eventually(t, "all nodes grant", func() bool { return f.Grants(t, l) == 5 })
	k = lock(t, l, "n")
	for _, p := range nw.Proxies[:3] {
		p.Refuse()
	}
	err := k.Unlock(t.Context())
	wantIs(t, err, redlock.ErrNoQuorum)
	if errors.Is(err, redlock.ErrLost) {
		t.Errorf("a hold that was valid to the end counts as lost: %v", err)
	}
	nw.Heal(t)
	f.WantClean(t) // the release was only late
}

// One node was never ours and two are silent now: the other two confirm, and
// nobody can say that a majority has been lost.
func TestAMinorityThatNeverGrantedDoesNotMakeAHoldLost(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long), redlock.WithNodeTimeout(400*time.Millisecond), redlock.WithoutRenewal())
	fleet.Put(t, "n", "somebody", long, f.Nodes[2])
	// With so short a node timeout, a node that the machine keeps from answering is not asked, and three grants are
	// enough: then once more.
	var k *redlock.Lock
	fleet.Eventually(t, "the other nodes have granted", func() bool {
		k = lock(t, l, "n")
		if f.Holders(t, "n", k.Owner()) == 4 {
			return true
		}
		_ = k.Unlock(t.Context())
		return false
	})
	for _, p := range nw.Proxies[:2] {
		p.Hold(faultproxy.Up)
	}
	for what, err := range map[string]error{
		"Extend": k.Extend(t.Context()), "Err": k.Err(), "Unlock": k.Unlock(t.Context()),
	} {
		if what != "Err" && !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("%s: got %v, want %v", what, err, redlock.ErrNoQuorum)
		}
		if errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrTaken) {
			t.Errorf("%s says that somebody else has the lock: %v", what, err)
		}
	}
}

func TestUnlockWorksWithADeadContext(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long))
	k := lock(t, l, "n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fleet.Must(t, k.Unlock(ctx))
	f.WantClean(t)
}

func TestBadArgumentsAreRefusedAtOnce(t *testing.T) {
	f := fleet.Start(t, 3)
	url := f.Nodes[0].URL()
	for what, nodes := range map[string][]string{
		"no nodes":        {},
		"no URL":          {"127.0.0.1:6379x"},
		"empty":           {""},
		"unknown scheme":  {"http://127.0.0.1:6379"},
		"no database":     {"redis://127.0.0.1:6379/zero"},
		"the same twice":  {url, f.Nodes[1].URL(), url},
		"the same, db 1":  {url, url + "/1"},
		"port too large":  {"redis://127.0.0.1:66666"},
		"socket, no path": {"unix://"},
	} {
		l, err := redlock.New(nodes)
		if !errors.Is(err, redlock.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", what, err, redlock.ErrInvalid)
		}
		if err == nil {
			fleet.Must(t, l.Close())
		}
	}
	l := f.Locker(t)
	// bsm/redislock: a TTL below 1 ms "succeeded" with no key.
	withTTL := func(ttl time.Duration) func() error {
		return func() error { _, err := l.TryLock(t.Context(), "n", redlock.WithTTL(ttl)); return err }
	}
	for what, try := range map[string]func() error{
		"TTL 0":       withTTL(0),
		"TTL 0.9ms":   withTTL(900 * time.Microsecond),
		"TTL < 0":     withTTL(-time.Second),
		"no name":     func() error { _, err := l.TryLock(t.Context(), ""); return err },
		"our own key": func() error { _, err := l.TryLock(t.Context(), "redlock:tokens"); return err },
		"misplaced":   func() error { _, err := l.TryLock(t.Context(), "n", redlock.WithNodeTimeout(1)); return err },
	} {
		if err := try(); !errors.Is(err, redlock.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", what, err, redlock.ErrInvalid)
		}
	}
	f.WantClean(t)
}

func TestAKeyOfAnotherTypeIsAClearError(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t)
	for _, n := range f.Nodes {
		if _, err := n.Do("LPUSH", "n", "x"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.TryLock(t.Context(), "n")
	if err == nil {
		t.Fatal("a list passes for a lock")
	}
	t.Log(err)
	// Nor for those that wait: the second finds the first in the queue before it.
	var waiting sync.WaitGroup
	for range 2 {
		other := f.Locker(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waiting.Go(func() {
			if _, err := other.Lock(ctx, "n"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting for a list: got %v, want %v", err, context.DeadlineExceeded)
			}
		})
		time.Sleep(100 * time.Millisecond)
	}
	waiting.Wait()
	for _, n := range f.Nodes {
		if kind, err := n.Do("TYPE", "n"); err != nil || kind != "list" {
			t.Errorf("the list is now %v, %v", kind, err)
		}
	}
}

// A server that does not know SCRIPT gets the source of a script with the first call of it.
func TestServersWithoutScript(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--rename-command", "SCRIPT", ""}})
	k := lock(t, f.Locker(t, redlock.WithTTL(long)), "n")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	unlock(t, k)
}
