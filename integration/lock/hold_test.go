package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// redsync, WithSetNXOnExtend: Extend succeeded after the lock had expired and another client held it.
func TestExtendAfterExpiryNeverSucceeds(t *testing.T) {
	f := fleet.Start(t, 5)
	a := f.Locker(t, redlock.WithTTL(200*time.Millisecond), redlock.WithoutRenewal())
	b := f.Locker(t, redlock.WithTTL(long))
	old := lock(t, a, "n")
	wantEnd(t, old, redlock.ErrLost)
	wantIs(t, old.Extend(t.Context()), redlock.ErrLost) // also where nobody else has come
	current := lock(t, b, "n")
	wantIs(t, old.Extend(t.Context()), redlock.ErrLost)
	wantIs(t, old.Unlock(t.Context()), redlock.ErrLost)
	fleet.Must(t, current.Err())
	// Not on all nodes, perhaps: the old key may still have been there on some.
	if got := f.Holders(t, "n", current.Owner()); got < 3 {
		t.Errorf("the new holder has %d nodes", got)
	}
	if current.Token() <= old.Token() {
		fleet.Unsafe(t, "token %d after %d", current.Token(), old.Token())
	}
	unlock(t, current)
	f.WantClean(t)
}

// As above, but by the holder's own clock the lock is still good: the nodes have
// given it to somebody else (a clock jump there, a DEL by hand).
func TestExtendOfAStolenLockNeverSucceeds(t *testing.T) {
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithTTL(long), redlock.WithoutRenewal())
	k := lock(t, l, "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 5 })
	fleet.Put(t, "n", "thief", long, f.Nodes[:3]...)
	wantIs(t, k.Extend(t.Context()), redlock.ErrLost)
	wantIs(t, k.Err(), redlock.ErrLost)
	wantIs(t, k.Extend(t.Context()), redlock.ErrLost)
	wantIs(t, k.Unlock(t.Context()), redlock.ErrLost)
	if got := f.Holders(t, "n", "thief"); got != 3 {
		t.Errorf("the new holder has %d nodes, want 3", got)
	}
}

// redsync: Extend brought the lock back after Unlock.
func TestExtendAfterUnlockBringsNothingBack(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long))
	k := lock(t, l, "n")
	unlock(t, k)
	wantIs(t, k.Extend(t.Context()), redlock.ErrUnlocked)
	f.WantClean(t)
}

func TestUnlockTwiceIsHarmless(t *testing.T) {
	f := fleet.Start(t, 3)
	a, b := f.Locker(t, redlock.WithTTL(long)), f.Locker(t, redlock.WithTTL(long))
	first := lock(t, a, "n")
	unlock(t, first)
	f.WantClean(t) // so that the second gets all nodes
	second := lock(t, b, "n")
	fleet.Eventually(t, "the second holder has all nodes", func() bool { return f.Holders(t, "n", second.Owner()) == 3 })
	unlock(t, first)
	unlock(t, first)
	time.Sleep(20 * time.Millisecond) // for what must not come
	if got := f.Holders(t, "n", second.Owner()); got != 3 {
		t.Errorf("the second holder has %d nodes, want 3", got)
	}
	unlock(t, second)
	f.WantClean(t)
}

// bsm/redislock: owners were compared up to the shorter one's length, so that worker-1 released worker-12's lock.
func TestAnOwnerThatIsAPrefixOfAnotherStealsNothing(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long), redlock.WithoutRenewal())
	for what, foreign := range map[string]func(string) string{
		"longer":  func(owner string) string { return owner + "2" },
		"shorter": func(owner string) string { return owner[:len(owner)-1] },
	} {
		k := lock(t, l, what)
		fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, what, k.Owner()) == 3 })
		other := foreign(k.Owner())
		fleet.Put(t, what, other, long, f.Nodes...)
		wantIs(t, k.Extend(t.Context()), redlock.ErrLost)
		_ = k.Unlock(t.Context()) // lost, as Extend said
		_, err := l.TryLock(t.Context(), what)
		wantIs(t, err, redlock.ErrTaken)
		if got := f.Holders(t, what, other); got != 3 {
			t.Errorf("%s: the other owner has %d nodes, want 3", what, got)
		}
	}
}

// node-redlock returned a lock that had expired 204 ms before.
func TestALockThatCameTooLateIsNotHeld(t *testing.T) {
	f := fleet.Start(t, 3)
	nw := f.Network(t)
	l := nw.Locker(t)
	nw.Each(func(p *faultproxy.Proxy) { p.Delay(faultproxy.Down, 300*time.Millisecond) })
	_, err := l.TryLock(t.Context(), "n", redlock.WithTTL(200*time.Millisecond))
	wantIs(t, err, redlock.ErrNoQuorum)
	_, err = l.TryLock(t.Context(), "n", redlock.WithTTL(320*time.Millisecond)) // valid for a moment, not worth having
	wantIs(t, err, redlock.ErrNoQuorum)
	f.WantClean(t)
}

// rueidislock: under a partition the holder's context ended 2.4 s after the key had expired. It ends when the holder's
// own clock says so, which is before: a bound is only when a timer tells.
func TestPartitionedHolderIsToldBeforeTheKeysExpire(t *testing.T) {
	t.Parallel()
	fleet.Measure(t, func(m *fleet.Measurement) {
		f := fleet.Start(t, 3)
		nw := f.Network(t)
		l := nw.Locker(t, redlock.WithTTL(3*time.Second), redlock.WithDrift(0.1, 10*time.Millisecond),
			redlock.WithNodeTimeout(time.Second))
		k := lock(t, l, "n")
		// None drops the request.
		fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		nw.Each(func(p *faultproxy.Proxy) { p.Drop(faultproxy.Up); p.Drop(faultproxy.Down) })
		until := k.Until()
		for _, n := range f.Nodes {
			asked := time.Now()
			left, err := redis.Int(n.Do("PTTL", "n"))
			fleet.Must(t, err)
			if time.Now().Add(time.Duration(left) * time.Millisecond).Before(until) {
				fleet.Unsafe(t, "at %s the key has %d ms left, asked at %v; the holder trusts it until %v",
					n.Addr(), left, asked, until)
			}
		}
		for time.Now().Before(k.Until()) {
			time.Sleep(time.Until(k.Until()))
		}
		// From now on the clock says it, if no timer has.
		wantIs(t, ctx.Err(), context.Canceled)
		wantIs(t, k.Err(), redlock.ErrLost)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("the holder is not told")
		}
		wantIs(t, context.Cause(ctx), redlock.ErrLost)
		for _, n := range f.Nodes {
			left, err := redis.Int(n.Do("PTTL", "n"))
			m.Bound(err == nil && left > 0,
				"at %s the key has %d ms left, %v, when the holder has been told", n.Addr(), left, err)
		}
	})
}

// node-redlock's "using" was not aborted 4 s after the lock had been stolen.
func TestDoEndsSoonAfterATheft(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	l := f.Locker(t, redlock.WithTTL(3*time.Second))
	err := l.Do(t.Context(), "n", func(ctx context.Context) error {
		fleet.Put(t, "n", "thief", long, f.Nodes[:3]...)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Minute):
			return errors.New("not told")
		}
	})
	wantIs(t, err, redlock.ErrLost)
}

func TestRenewalKeepsALockForManyTTLs(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	const ttl = 1500 * time.Millisecond
	l := f.Locker(t, redlock.WithTTL(ttl))
	// A machine that stands still for a TTL rightly loses it: then once more.
	fleet.Eventually(t, "a lock is kept for three TTLs", func() bool {
		k := lock(t, l, "n")
		for end := time.Now().Add(3 * ttl); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got, err := f.Holders(t, "n", k.Owner()), k.Err()
			if err != nil {
				t.Logf("lost: %v", k.Unlock(t.Context()))
				return false
			}
			if got < 3 {
				fleet.Unsafe(t, "the hold is on %d nodes", got)
				return false
			}
		}
		return k.Unlock(t.Context()) == nil
	})
	f.WantClean(t)
}

// ndyakov: one failed renewal deleted keys that were still valid.
func TestAHoldOutlivesAShortOutageOfTheMajority(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	failed := make(chan struct{}, 100)
	l := nw.Locker(t, redlock.WithTTL(12*time.Second), redlock.WithObserver(func(ev redlock.Event) {
		if ev.Kind == redlock.EventNotRenewed {
			failed <- struct{}{}
		}
	}))
	k := lock(t, l, "n")
	for _, p := range nw.Proxies[:3] {
		p.Refuse()
	}
	err := k.Extend(t.Context())
	wantIs(t, err, redlock.ErrNoQuorum)
	if errors.Is(err, redlock.ErrLost) {
		t.Errorf("valid, but also %v", redlock.ErrLost)
	}
	<-failed
	<-failed // a renewal, too, after a third of the TTL
	fleet.Must(t, k.Err())
	nw.Heal(t)
	fleet.Eventually(t, "Extend works again", func() bool { return k.Extend(t.Context()) == nil })
	unlock(t, k)
	f.WantClean(t)
}

// redsync: value and until are raced by a renewer. The race detector judges.
func TestAHoldMayBeUsedByManyAtOnce(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(300*time.Millisecond))
	k := lock(t, l, "n")
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 50 {
				// They fail once it is lost or unlocked; not the point here.
				_ = k.Extend(t.Context())
				_, _, _, _ = k.Until(), k.Err(), k.Owner(), k.Token()
				ctx, cancel := k.Context(t.Context())
				_ = ctx.Err()
				cancel()
			}
		})
	}
	users.Wait()
	for range 4 {
		users.Go(func() { _ = k.Unlock(t.Context()); <-k.Done() })
	}
	users.Wait()
	f.WantClean(t)
}

func TestDoUnlocksAndJoins(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long))
	boom := errors.New("boom")
	err := l.Do(t.Context(), "n", func(ctx context.Context) error {
		if _, err := f.Locker(t).TryLock(ctx, "n"); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("another Locker: got %v, want %v", err, redlock.ErrTaken)
		}
		return errors.Join(boom, l.Do(ctx, "n", func(context.Context) error { return nil }))
	})
	wantIs(t, err, boom)
	f.WantClean(t)
}

// The votes of the slower nodes are told of when the lock is held by those of the others, and handed over.
func TestATicketRightAfterAWaitKeepsAllNodes(t *testing.T) {
	f := fleet.Start(t, 5)
	a, b, c := f.Locker(t, redlock.WithTTL(long)), f.Locker(t, redlock.WithTTL(long)), f.Locker(t, redlock.WithTTL(long))
	for i := range 100 {
		name := fmt.Sprint("n", i)
		k := lock(t, a, name)
		fleet.Eventually(t, "the first one's lock stands on all nodes",
			func() bool { return f.Holders(t, name, k.Owner()) == len(f.Nodes) })
		tickets := make(chan string, 1)
		go func() {
			k, err := b.Lock(t.Context(), name)
			if err != nil {
				t.Error(err)
				close(tickets)
				return
			}
			text, err := k.Ticket()
			if err != nil {
				t.Error(err)
			}
			tickets <- k.Owner() + " " + text
		}()
		// A node passes over whoever it cannot tell: it is not the subject here.
		fleet.Eventually(t, "the other one stands in every queue, and can be told", func() bool {
			standing := 0
			for _, n := range f.Nodes {
				size, err := redis.Int(n.Do("ZCARD", "redlock:wait:"+name))
				told, err2 := redis.Strings(n.Do("PUBSUB", "CHANNELS", "redlock:wake:*"))
				if err == nil && err2 == nil && size == 1 && len(told) > 0 {
					standing++
				}
			}
			return standing == len(f.Nodes)
		})
		unlock(t, k)
		owner, ticket, _ := strings.Cut(<-tickets, " ")
		time.Sleep(10 * time.Millisecond) // for messages that release what they should not
		fleet.Eventually(t, "the lock that was handed over stands on all nodes",
			func() bool { return f.Holders(t, name, owner) == len(f.Nodes) })
		k, err := c.Adopt(t.Context(), ticket)
		fleet.Must(t, err)
		unlock(t, k)
	}
	f.WantClean(t)
}
