package lock_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// ledger is the shared resource: a counter that loses updates and an order
// that breaks unless its users exclude each other. The atomics keep the race
// detector out of it: the lock under test is no synchronization that it knows.
type ledger struct {
	inside  atomic.Int32
	overlap atomic.Int32
	counter atomic.Int64

	mu      sync.Mutex // protects entries
	entries []entry    // in the order of the holds
}

// entry is one hold's work.
type entry struct {
	token      int64
	owner      string
	asked, got time.Time // when Lock was called and when it returned
	end        error     // what the hold said of itself after the work: nil, or why it ended
}

func (l *ledger) work(k *redlock.Lock, asked time.Time) {
	e := entry{token: k.Token(), owner: k.Owner(), asked: asked, got: time.Now()}
	if l.inside.Add(1) != 1 {
		l.overlap.Add(1)
	}
	seen := l.counter.Load()
	runtime.Gosched()
	time.Sleep(200 * time.Microsecond)
	l.counter.Store(seen + 1)
	e.end = k.Err()
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.mu.Unlock()
	l.inside.Add(-1)
}

func (l *ledger) check(t *testing.T, holds int64) {
	t.Helper()
	if got := l.overlap.Load(); got != 0 {
		fleet.Unsafe(t, "%d holds overlapped another", got)
	}
	if got := l.counter.Load(); got != holds {
		fleet.Unsafe(t, "the counter is %d after %d holds: updates were lost", got, holds)
	}
	for i, e := range l.entries {
		if i > 0 && e.token <= l.entries[i-1].token {
			fleet.Unsafe(t, "hold %d has a token that is no larger than that of the hold before it:\n%+v\n%+v",
				i, l.entries[i-1], e)
		}
	}
}

func TestHoldersExcludeEachOther(t *testing.T) {
	f := fleet.Start(t, 5)
	var book ledger
	var workers sync.WaitGroup
	const lockers, each, rounds = 3, 4, 15
	for range lockers {
		l := f.Locker(t)
		for range each {
			workers.Go(func() {
				for range rounds {
					asked := time.Now()
					k, err := l.Lock(within(t, 60*time.Second), "stock")
					if err != nil {
						t.Error(err)
						return
					}
					book.work(k, asked)
					if err := k.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	workers.Wait()
	book.check(t, lockers*each*rounds)
	f.WantClean(t)
}

// Two of five nodes are always in some kind of trouble. Nothing is forgotten
// here: a node that comes back empty is the guard's business, not the quorum's.
func TestHoldersExcludeEachOtherWhileNodesComeAndGo(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	var book ledger
	var holds, faults atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var workers sync.WaitGroup
	for range 3 {
		nw := f.Network(t)
		// The ledger believes in each hold to its Unlock: the TTL is longer than any machine stands still.
		l := nw.Locker(t, redlock.WithNodeTimeout(50*time.Millisecond))
		for range 3 {
			workers.Go(func() {
				for {
					asked := time.Now()
					k, err := l.Lock(ctx, "stock")
					if err != nil {
						return // ctx is over
					}
					book.work(k, asked)
					holds.Add(1)
					// An error is no wonder here: too few nodes may answer in time.
					_ = k.Unlock(ctx)
				}
			})
		}
		workers.Go(func() {
			seed := rand.Uint64()
			t.Logf("faults drawn from seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for ctx.Err() == nil {
				for _, i := range rng.Perm(len(nw.Proxies))[:2] {
					breakNode(t, rng, nw.Proxies[i], f, i)
					faults.Add(1)
				}
				time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond)
				for _, p := range nw.Proxies {
					if err := p.Heal(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
			}
		})
	}
	enough := func() bool { return holds.Load() >= 100 && faults.Load() >= 200 }
	for ctx.Err() == nil && !enough() {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	workers.Wait()
	t.Logf("%d holds, %d faults", holds.Load(), faults.Load())
	if !enough() {
		t.Errorf("%d holds and %d faults prove nothing", holds.Load(), faults.Load())
	}
	book.check(t, holds.Load())
	f.WantClean(t)
}

func breakNode(t *testing.T, rng *rand.Rand, p *faultproxy.Proxy, f fleet.Fleet, i int) {
	t.Helper()
	switch rng.IntN(8) {
	case 0:
		p.Hold(faultproxy.Up)
	case 1:
		p.Hold(faultproxy.Down)
	case 2:
		p.Drop(faultproxy.Up)
	case 3:
		p.Drop(faultproxy.Down)
	case 4:
		p.Delay(faultproxy.Up, 30*time.Millisecond)
	case 5:
		p.Reset()
	case 6:
		p.Refuse()
	case 7:
		if _, err := f.Nodes[i].Do("SCRIPT", "FLUSH"); err != nil {
			t.Error(err)
		}
	}
}

// rueidislock hung at 256 waiters on distinct keys.
func TestManyNamesAtOnce(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t)
	var workers sync.WaitGroup
	for i := range 512 {
		workers.Go(func() {
			name := "name" + string(rune('A'+i%16)) + string(rune('A'+i/16))
			for range 10 {
				k, err := l.Lock(within(t, 2*time.Minute), name)
				if err != nil {
					t.Error(err)
					return
				}
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	f.WantClean(t)
}

// node-redlock: with an even number of nodes and a split vote it never settled.
func TestEvenNumberOfNodesWithASplitVoteSettles(t *testing.T) {
	f := fleet.Start(t, 4)
	left, right := f.Network(t), f.Network(t)
	a, b := left.Locker(t, redlock.WithTTL(long)), right.Locker(t, redlock.WithTTL(long))
	for round := range 5 {
		// Each gets the votes of its own half before it reaches the other's.
		for i := range 2 {
			left.Proxies[2+i].Hold(faultproxy.Up)
			right.Proxies[i].Hold(faultproxy.Up)
		}
		var both sync.WaitGroup
		for _, l := range []*redlock.Locker{a, b} {
			both.Go(func() {
				k, err := l.Lock(within(t, time.Minute), "split")
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		fleet.Eventually(t, "both have two votes", func() bool {
			owners := map[string]int{}
			for _, n := range f.Nodes {
				owners[fleet.Holder(t, n, "split")]++
			}
			return len(owners) == 2 && owners[""] == 0
		})
		left.Heal(t)
		right.Heal(t)
		both.Wait()
		f.WantClean(t) // else the next round's faults would meet this one's stragglers
	}
}

// node-redlock: no release between tries, so that its own key blocked it.
func TestOwnKeysOfAFailedAttemptDoNotBlockTheNext(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long))
	for _, p := range nw.Proxies[2:] {
		p.Refuse()
	}
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)
	nw.Heal(t)
	k := lock(t, l, "n")
	unlock(t, k)
	f.WantClean(t)
}

// rueidislock: one foreign key of three blocked the lock.
func TestAForeignKeyOnAMinorityDoesNotBlock(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(long))
	fleet.Put(t, "n", "somebody", long, f.Nodes[0])
	k := lock(t, l, "n")
	unlock(t, k)
	if got := fleet.Holder(t, f.Nodes[0], "n"); got != "somebody" {
		t.Errorf("the foreign key is now %q", got)
	}
}

func TestTakenSaysByWhomAndForHowLong(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t)
	fleet.Put(t, "n", "somebody", long, f.Nodes[:2]...)
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrTaken)
	var quorum *redlock.QuorumError
	if !asQuorum(err, &quorum) {
		t.Fatalf("got %T, want a *QuorumError", err)
	}
	taken := 0
	for _, n := range quorum.Nodes {
		if n.Outcome == redlock.OutcomeTaken {
			taken++
			if n.Owner != "somebody" || n.Remaining <= 0 || n.Remaining > long {
				t.Errorf("got %q for %v", n.Owner, n.Remaining)
			}
		}
	}
	if taken != 2 {
		t.Errorf("got %d nodes taken, want 2: %v", taken, err)
	}
	if left := f.Leftovers(t); len(left) != 2 && !fleet.Soon(func() bool { return len(f.Leftovers(t)) == 2 }) {
		t.Errorf("got %q, want the two foreign keys alone", left)
	}
}
