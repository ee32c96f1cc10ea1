package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/slots"
)

// semaphores returns n Semaphores, each of its own Locker.
func (fl *fleet) semaphores(n, permits int) []*Semaphore {
	all := make([]*Semaphore, n)
	for i := range all {
		all[i] = fl.locker(fmt.Sprintf("c%d", i)).Semaphore("gpu", permits)
	}
	return all
}

func TestAsManyHoldersAsPermits(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		for _, permits := range []int{1, 2, 5} {
			bubble(t, nodes, func(t *testing.T, fl *fleet) {
				all := fl.semaphores(permits+1, permits)
				var held []*Lock
				slots := make(map[string]bool)
				for _, s := range all[:permits] {
					k := must(s.TryAcquire(t.Context()))(t)
					held, slots[k.Name()] = append(held, k), true
				}
				equals(t, len(slots), permits, "the permits are the slots %v", slots)
				_, err := all[permits].TryAcquire(t.Context())
				var q *QuorumError
				if !errors.Is(err, ErrTaken) || !errors.As(err, &q) || q.Name != "gpu" || len(q.Nodes) != nodes {
					t.Errorf("got %v, want ErrTaken of gpu", err)
				}
				succeeds(t, held[0].Unlock())
				settleNetwork()
				k := must(all[permits].TryAcquire(t.Context()))(t)
				if k.Name() != held[0].Name() || k.Token() <= held[0].Token() {
					t.Errorf("got %s token %d, want %s and more than %d", k.Name(), k.Token(), held[0].Name(), held[0].Token())
				}
				for _, h := range append(held[1:], k) {
					_ = h.Unlock()
				}
				fl.clean()
			})
		}
	}
}

func TestPermitsWhenClientsDisagreeOnTheirNumber(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		two, three := fl.locker("a").Semaphore("gpu", 2), fl.locker("b").Semaphore("gpu", 3)
		for range 3 {
			must(three.TryAcquire(t.Context()))(t)
		}
		fails(t, errOf(two.TryAcquire(t.Context())), ErrTaken, "no more holders than the largest number")
	})
}

func TestSemaphoreArgumentsAreValidated(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, s := range []*Semaphore{
			l.Semaphore("gpu", 0), l.Semaphore("gpu", -1), l.Semaphore("gpu", maxPermits+1), l.Semaphore("", 1),
			l.Semaphore("redlock:x", 1), l.Semaphore(strings.Repeat("x", maxName+1), 1),
		} {
			fails(t, errOf(s.Acquire(t.Context())), ErrInvalid, "Acquire", s.name)
			fails(t, errOf(s.TryAcquire(t.Context())), ErrInvalid, "TryAcquire", s.name)
		}
		// A user's lock cannot be a slot.
		fails(t, errOf(l.TryLock(t.Context(), "redlock:permit:gpu:0")), ErrInvalid, "Lock of a slot")
		_ = must(l.TryLock(t.Context(), "gpu"))(t)
		_ = must(l.Semaphore("gpu", 1).TryAcquire(t.Context()))(t) // is independent of the lock
		_ = must(l.Semaphore("gpu:1", 1).TryAcquire(t.Context()))(t)
	})
}

// Waiters get a slot in the order in which they began to wait.
func TestAcquireIsWokenInOrder(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		const permits, waiters = 1, 8
		all := fl.semaphores(permits+waiters, permits)
		held := make(chan *Lock, permits)
		for _, s := range all[:permits] {
			held <- must(s.Acquire(t.Context()))(t)
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, s := range all[permits:] {
			wg.Go(func() {
				k := must(s.Acquire(t.Context()))(t)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				held <- k
			})
			time.Sleep(300 * time.Millisecond)
		}
		for range waiters {
			_ = (<-held).Unlock()
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("permits were given in the order %v", order)
		}
	})
}

// A waiter in one slot's queue finds within a back-off that another slot has become free.
func TestWaiterTakesAnySlotThatBecomesFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		const permits = 4
		all := fl.semaphores(permits+1, permits)
		for round := range 4 * permits {
			var held []*Lock
			for _, s := range all[:permits] {
				held = append(held, must(s.Acquire(t.Context()))(t))
			}
			got := make(chan *Lock)
			go func() { k, _ := all[permits].Acquire(t.Context()); got <- k }()
			time.Sleep(1700 * time.Millisecond)
			begun := time.Now()
			_ = held[round%permits].Unlock()
			k := <-got
			equals(t, all[permits].slots.Guess(time.Now()), slots.None, "what it guesses while others want permits, too")
			between(t, time.Since(begun), 0, 300*ms, "how long slot %s was free", held[round%permits].Name())
			for _, h := range append(held, k) {
				_ = h.Unlock()
			}
			settleNetwork()
		}
	})
}

func TestPermitIsALock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		s := fl.locker("a").Semaphore("gpu", 2)
		k := must(s.Acquire(t.Context()))(t)
		time.Sleep(time.Minute) // renewed
		succeeds(t, k.Err(), "after a minute")
		second := must(s.Acquire(newContext(t.Context(), k)))(t) // no re-entrance: two holders are two permits
		if second.Name() == k.Name() {
			t.Errorf("both hold %s", k.Name())
		}
		other := fl.locker("b")
		if i, err := other.Inspect(t.Context(), k.Name()); err != nil || i.Owner != k.Owner() {
			t.Errorf("Inspect of the slot: got %q, %v, want the owner %q", i.Owner, err, k.Owner())
		}
		adopted := must(other.Adopt(t.Context(), must(k.Ticket())(t)))(t)
		if adopted.Name() != k.Name() || adopted.Token() <= k.Token() {
			t.Errorf("got %s token %d, want %s and a larger token than %d", adopted.Name(), adopted.Token(), k.Name(), k.Token())
		}
		for _, n := range fl.nodes {
			n.Do("DEL", second.Name())
			n.Do("SET", second.Name(), "somebody else")
		}
		<-second.Done()
		fails(t, second.Err(), ErrLost)
		synctest.Wait()
	})
}

// Three of four slots are held for long, and many take turns at the last. Nobody waits much longer than it would if
// whoever came first were served first, although most of them begin to wait for a slot that does not change hands.
func TestLongHoldsOfSomeSlotsDelayNobody(t *testing.T) {
	for _, kept := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			const permits, clients = 4, 24
			stays := fl.locker("stays").Semaphore("gpu", permits)
			var long []*Lock
			for range permits - 1 {
				long = append(long, must(stays.Acquire(t.Context()))(t))
			}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var mu sync.Mutex
			var waits []time.Duration
			for i := range clients {
				l := fl.locker(fmt.Sprint("c", i))
				s := l.Semaphore("gpu", permits)
				wg.Go(func() {
					for ctx.Err() == nil {
						if !kept {
							s = l.Semaphore("gpu", permits)
						}
						begun := time.Now()
						k, err := s.Acquire(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						waits = append(waits, time.Since(begun))
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						_ = k.Unlock()
					}
				})
			}
			time.Sleep(sized(4*time.Second, 2*time.Second))
			stop()
			wg.Wait()
			for _, k := range long {
				_ = k.Unlock()
			}
			slices.Sort(waits)
			n := len(waits)
			t.Logf("%d turns; waits: half %v, 99 %% %v, the longest %v", n, waits[n/2], waits[n*99/100], waits[n-1])
			between(t, waits[n-1], 0, time.Second, "the longest wait")
		})
	}
}

// A caller that gets the slot for which it waits at the moment at which it takes another one keeps one of them.
func TestAWaiterThatGetsTwoSlotsKeepsOne(t *testing.T) {
	for range 5 {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			s, c1 := fl.semaphores(2, 2), sim.Link{Client: "c1"}
			queued, other := must(s[0].TryAcquire(t.Context()))(t), must(s[0].TryAcquire(t.Context()))(t)
			fl.net.SetDelay(c1, sim.Both, sim.Delay{Min: 10 * ms, Max: 10*ms + 1})
			got := async(func() *Lock {
				return must(s[1].Acquire(t.Context(), withBackoff(func(int) time.Duration { return 100 * ms })))(t)
			})
			time.Sleep(80 * ms)
			if fl.holding("redlock:wait:"+queued.Name()) == 0 {
				queued, other = other, queued
			}
			succeeds(t, other.Unlock())
			time.Sleep(85 * ms) // a survey is answered, and an attempt at the other slot is on its way
			fl.net.Hold(c1, sim.Down)
			succeeds(t, queued.Unlock())
			time.Sleep(20 * ms)
			fl.net.Release(c1, sim.Down) // the hand-over, and behind it the answer
			time.Sleep(5 * ms)
			equals(t, fl.holding(queued.Name())+fl.holding(other.Name()), 2*3, "nodes on which slots are taken")
			succeeds(t, (<-got).Unlock())
			time.Sleep(50 * ms)
			fl.clean()
		})
	}
}
