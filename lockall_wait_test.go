package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

func TestLockAllWaits(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		opts = append(opts, WithTTL(time.Second))
		l := fl.locker("a", append(opts, withBackoff(never), WithoutRenewal())...)
		// Names at the beginning, in the middle and at the end are taken, and are released in another order.
		others := fl.locker("others", opts...)
		taken := map[string]*Lock{}
		for _, name := range []string{"a0", "a4", "a9"} {
			taken[name] = must(others.Lock(t.Context(), name))(t)
		}
		var k *Lock
		var waiting sync.WaitGroup
		waiting.Go(func() { k = must(l.LockAll(t.Context(), ten))(t) })
		time.Sleep(5 * time.Second)
		for _, name := range []string{"a9", "a0", "a4"} {
			if k != nil {
				t.Fatalf("got all names while %s was taken", name)
			}
			succeeds(t, taken[name].Unlock())
			time.Sleep(10 * time.Second) // the names acquired so far are kept for longer than a TTL
			settleNetwork()
		}
		waiting.Wait()
		if k == nil || !errors.Is(k.Err(), ErrLost) {
			t.Fatal("want a hold without renewal, which has ended after its TTL")
		}
		fl.nothingLeft()
	})
}

// After a wait, the hold has a full TTL, which begins with the last step, and one owner and one token for all names.
func TestLockAllHasAFullTTLAfterAWait(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		holder := must(fl.locker("holder", opts...).Lock(t.Context(), "a4"))(t)
		l := fl.locker("a", opts...)
		time.AfterFunc(25*time.Second, func() { _ = holder.Unlock() })
		k := must(l.LockAll(t.Context(), ten))(t)
		between(t, time.Until(k.Deadline()), 9800*ms, 10*time.Second, "validity")
		if k.Token() != 0 && k.Token() <= holder.Token() {
			t.Errorf("token %d after %d", k.Token(), holder.Token())
		}
		settleNetwork()
		for _, name := range ten {
			for i, n := range fl.nodes {
				equals[any](t, n.Do("GET", name), k.Owner(), "the owner of %s on node %d", name, i)
			}
		}
		succeeds(t, k.Unlock())
		fl.clean()
	})
}

// Without renewal, and beyond the maximum of the hold that it wants, a call keeps the names that it has while it waits
// for the others.
func TestLockAllKeepsItsNames(t *testing.T) {
	for _, opt := range []LockOption{WithoutRenewal(), WithMaxHold(12 * time.Second)} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			holder := must(b.Lock(t.Context(), "other"))(t)
			k := async(func() *Lock { return must(a.LockAll(t.Context(), []string{"job", "other"}, opt))(t) })
			for range 4 {
				time.Sleep(5 * time.Second)
				fails(t, errOf(b.TryLock(t.Context(), "job")), ErrTaken)
			}
			succeeds(t, holder.Unlock())
			succeeds(t, (<-k).Unlock())
			fl.clean()
		})
	}
}

func TestCancelledLockAllLeavesNothing(t *testing.T) {
	for what, end := range map[string]func(l *Locker, cancel context.CancelFunc){
		"cancelled": func(_ *Locker, cancel context.CancelFunc) { cancel() },
		"closed":    func(l *Locker, _ context.CancelFunc) { _ = l.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
				holder := must(fl.locker("holder", opts...).Lock(t.Context(), "a7"))(t)
				l := fl.locker("a", opts...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				failed := async(func() error { return errOf(l.LockAll(ctx, ten)) })
				time.Sleep(time.Second)
				if fl.holding("a6") != 3 || fl.holding("a8") != 0 {
					t.Errorf("a6 is held on %d nodes and a8 on %d, want all names before the taken one and none behind it",
						fl.holding("a6"), fl.holding("a8"))
				}
				end(l, cancel)
				err := <-failed
				var q *QuorumError
				if !errors.Is(err, ErrTaken) || !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) ||
					!errors.As(err, &q) || q.Name != strings.Join(ten, ", ") ||
					!says(err, " a7 taken by ") || !says(err, " ("+holder.Owner()+"), ") {
					t.Errorf("got %v, want the owner of a7", err)
				}
				settleNetwork()
				equals(t, len(fl.leftovers()), 3, "left, of a7 only: %v", fl.leftovers())
			})
		})
	}
}

// Of calls that are stopped or cut off while they wait, one may have names already: each costs a lease, as a waiter for
// one name does.
func TestAStoppedLockAllCostsALease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		const stopped = 3
		holder := must(fl.locker("holder").Lock(t.Context(), "other"))(t)
		wait := func(client string) <-chan *Lock {
			l := fl.locker(client)
			return async(func() *Lock { k, _ := calls["LockAll"](t.Context(), l); return k })
		}
		for i := range stopped {
			wait(fmt.Sprint(i))
			time.Sleep(50 * ms)
		}
		got := wait("a")
		time.Sleep(5 * time.Second)
		fl.isHeld("job", 3, "by the first")
		for i := range stopped {
			fl.net.Drop(sim.Link{Client: fmt.Sprint(i)}, sim.Both)
		}
		succeeds(t, holder.Unlock())
		within(t, stopped*time.Second+750*ms, "the hand-over", func() { succeeds(t, (<-got).Unlock()) })
		fl.net.Calm()
	})
}

func TestLockAllWhereTheDriftLeavesNothingOfALease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("holder").Lock(t.Context(), "other"))(t)
		l := fl.locker("a", WithDrift(0.01, time.Second))
		time.AfterFunc(5*time.Second, func() { _ = holder.Unlock() })
		within(t, 5100*ms, "the wait", func() {
			succeeds(t, must(calls["LockAll"](expiring(t, time.Minute), l))(t).Unlock())
		})
	})
}

// A name that was acquired may be lost before the last one is acquired, by nodes that are emptied or by their clocks.
func TestLockAllWaitsAgainForALostName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("holder").Lock(t.Context(), "a7"))(t)
		l := fl.locker("a")
		var k *Lock
		var waiting sync.WaitGroup
		waiting.Go(func() { k = must(l.LockAll(t.Context(), ten))(t) })
		time.Sleep(time.Second)
		fl.nodes.do("SET", "a2", "thief", "PX", "20000")
		time.Sleep(5 * time.Second)
		succeeds(t, holder.Unlock())
		time.Sleep(5 * time.Second)
		if k != nil {
			t.Error("got all names while a thief had one")
		}
		within(t, 12*time.Second, "the end of the wait", waiting.Wait)
		settleNetwork()
		if k == nil || fl.holding("a2") != 3 || k.Err() != nil {
			t.Error("want a hold of all names after the thief's TTL")
		}
		succeeds(t, k.Unlock())
		fl.clean()
	})
}

// A call may end only after Close has stopped waiting for it, here in a back-off that takes its time. What it has by
// then is nobody's, so it is released all the same, as long as there is a connection.
func TestNamesOfACallThatOutlastsCloseAreReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		must(fl.locker("holder").Lock(t.Context(), "b"))(t)
		var slow atomic.Bool
		begun := make(chan struct{})
		l := fl.locker("a", withBackoff(func(int) time.Duration {
			if slow.CompareAndSwap(true, false) {
				close(begun)
				time.Sleep(350 * ms)
			}
			return 10 * ms
		}))
		ended := async(func() error { return errOf(l.LockAll(t.Context(), []string{"a", "b"})) })
		time.Sleep(time.Second)
		fl.isHeld("a", 3)
		slow.Store(true)
		<-begun
		fl.nodes[2].Pause()
		must(l.TryLock(t.Context(), "c"))(t) // Close waits for the answer of the last node
		_ = l.Close()
		fails(t, <-ended, ErrClosed)
		equals[any](t, fl.nodes[0].Do("GET", "a"), nil, "the owner of the first name")
		fl.nodes[2].Resume()
	})
}
