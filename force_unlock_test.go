package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A holder that is alive loses its lock, does not get it back by renewing it, and the next one has the larger token.
func TestForceUnlock(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": nil, "without tokens": {WithoutFencing()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				a, b, admin := fl.locker("a"), fl.locker("b"), fl.locker("admin")
				stuck := must(a.Lock(t.Context(), "job", opts...))(t)
				settleNetwork()
				if err := admin.ForceUnlock(t.Context(), "job", stuck.Owner()); err != nil {
					t.Fatal(err)
				}
				if n := fl.holding("job"); n != 0 {
					t.Errorf("right after it: %d nodes have the lock", n)
				}
				select {
				case <-stuck.Done():
				case <-time.After(10 * time.Second): // of virtual time: the TTL
					t.Error("the holder does not notice within its TTL")
				}
				if err := stuck.Err(); !errors.Is(err, ErrLost) {
					t.Errorf("the holder is told %v, want ErrLost", err)
				}
				settleNetwork()
				if n := fl.holding("job"); n != 0 {
					t.Errorf("the holder got it back on %d nodes", n)
				}
				next := must(b.TryLock(t.Context(), "job", opts...))(t)
				if name == "fenced" && next.Token() <= stuck.Token() {
					t.Errorf("the next token is %d after %d", next.Token(), stuck.Token())
				}

				// Late, by somebody who still sees the first owner: the next holder loses nothing.
				if err := admin.ForceUnlock(t.Context(), "job", stuck.Owner()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if err := next.Err(); err != nil {
					t.Errorf("the next holder: %v", err)
				}
			})
		})
	}
}

// Each of two holds goes on being renewed if the other is revoked, and the lock of a queue goes to the oldest waiter.
func TestForceUnlockHandsOver(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		stuck, other := must(a.Lock(t.Context(), "job"))(t), must(a.Lock(t.Context(), "other"))(t)
		got := make(chan *Lock)
		go func() {
			k, _ := b.Lock(t.Context(), "job")
			got <- k
		}()
		time.Sleep(time.Second)
		if err := fl.locker("admin").ForceUnlock(t.Context(), "job", stuck.Owner()); err != nil {
			t.Fatal(err)
		}
		within(t, 100*time.Millisecond, "handing over", func() {
			if k := <-got; k == nil || k.Token() <= stuck.Token() {
				t.Errorf("the waiter got %v after %v", k, stuck)
			}
		})
		time.Sleep(time.Minute)
		if err := other.Err(); err != nil {
			t.Errorf("another hold of the same process: %v", err)
		}
	})
}

func TestForceUnlockOfAReader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		prices, admin := fl.locker("a").RWMutex("prices"), fl.locker("admin")
		stuck, other := must(prices.RLock(t.Context()))(t), must(fl.locker("c").RWMutex("prices").RLock(t.Context()))(t)
		settleNetwork()
		if err := admin.ForceUnlock(t.Context(), "prices", stuck.Owner()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if err := stuck.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("the reader is told %v, want ErrLost", err)
		}
		if err := other.Err(); err != nil {
			t.Errorf("the other reader: %v", err)
		}
		if i := must(admin.Inspect(t.Context(), "prices"))(t); len(i.Readers) != 1 || i.Readers[0] != other.Owner() {
			t.Errorf("readers: got %v, want %s alone", i.Readers, other.Owner())
		}
	})
}

// One of several names: the hold of all of them ends, and leaves nothing.
func TestForceUnlockOfOneOfSeveral(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		all := must(fl.locker("a").LockAll(t.Context(), []string{"x", "y", "z"}))(t)
		if err := fl.locker("admin").ForceUnlock(t.Context(), "y", all.Owner()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := all.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		for _, key := range []string{"x", "y", "z"} {
			if n := fl.holding(key); n != 0 {
				t.Errorf("%d nodes have %s", n, key)
			}
		}
	})
}

// The holder reaches one of the nodes that have revoked it, and those that have not. It must not get back, one node
// after the other, what was taken from it.
func TestARevokedHoldIsNotRepaired(t *testing.T) {
	for name, lock := range map[string]func(*Locker) (*Lock, error){
		"exclusive":      func(l *Locker) (*Lock, error) { return l.Lock(context.Background(), "job") },
		"without tokens": func(l *Locker) (*Lock, error) { return l.Lock(context.Background(), "job", WithoutFencing()) },
		"read":           func(l *Locker) (*Lock, error) { return l.RWMutex("job").RLock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				stuck, admin := must(lock(fl.locker("a")))(t), fl.locker("admin")
				settleNetwork()
				fl.unreachable("admin", 3)
				fl.unreachable("admin", 4)
				if err := admin.ForceUnlock(t.Context(), "job", stuck.Owner()); err != nil {
					t.Fatal(err)
				}
				fl.unreachable("a", 1)
				fl.unreachable("a", 2)
				time.Sleep(10 * time.Second)
				if err := stuck.Err(); !errors.Is(err, ErrLost) {
					t.Errorf("a TTL later: got %v, want ErrLost", err)
				}
			})
		})
	}
}

// Two of five nodes are out of reach: they keep the lock, and that is no hold. Three are: nothing is certain.
func TestForceUnlockWithNodesOutOfReach(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		stuck, admin := must(fl.locker("a").Lock(t.Context(), "job"))(t), fl.locker("admin")
		settleNetwork()
		for i := range 2 {
			fl.unreachable("admin", i)
		}
		if err := admin.ForceUnlock(t.Context(), "job", stuck.Owner()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := stuck.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("with three of five: %v, want ErrLost", err)
		}
		fl.unreachable("admin", 2)
		var q *QuorumError
		err := admin.ForceUnlock(t.Context(), "job", stuck.Owner())
		if !errors.As(err, &q) || !errors.Is(err, ErrNoQuorum) || q.Granted != 2 ||
			!strings.HasPrefix(err.Error(), "redlock: force-unlock job: no quorum: 2 of 5 voted, ") {
			t.Errorf("with two of five: got %v", err)
		}
	})
}

func TestForceUnlockRefusesNonsense(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, c := range [][2]string{
			{"", "x"}, {"redlock:node", "x"}, {"job", ""}, {"job", "readers"}, {"job", strings.Repeat("x", 129)},
		} {
			if err := l.ForceUnlock(t.Context(), c[0], c[1]); !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: got %v, want ErrInvalid", c, err)
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.ForceUnlock(done, "job", "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("ctx is done: got %v", err)
		}
		_ = l.Close()
		synctest.Wait()
		if err := l.ForceUnlock(t.Context(), "job", "x"); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: got %v", err)
		}
	})
}
