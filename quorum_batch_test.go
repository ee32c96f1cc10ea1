package redlock

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Locks that are acquired in one batch have each their own TTL.
func TestLocksInOneBatchKeepTheirOwnTTL(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		ttl := func(i int) time.Duration { return time.Duration(10+i%3) * time.Second }
		before := fl.nodes[0].Calls("evalsha")
		together(n, func(i int) { succeeds(t, errOf(l.TryLock(t.Context(), fmt.Sprint(i), WithTTL(ttl(i))))) })
		if calls := fl.nodes[0].Calls("evalsha") - before; calls == n {
			t.Error("no two locks were acquired in one batch: this proves nothing")
		}
		for i := range n {
			left, _ := fl.nodes[0].Do("PTTL", fmt.Sprint(i)).(int64)
			between(t, ttl(i)-time.Duration(left)*ms, 0, 500*ms, "what lock %d has no more of its TTL", i)
		}
	})
}

// Of the locks that are released in one batch, only those that were extended leave a larger token behind.
func TestReleasesInOneBatchLeaveTheirOwnTokens(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		var held []*Lock
		for i := range n {
			k := must(l.TryLock(t.Context(), fmt.Sprint(i)))(t)
			if i%3 == 1 {
				succeeds(t, k.Extend(t.Context()))
			}
			held = append(held, k)
		}
		before := fl.nodes[0].Calls("evalsha")
		together(len(held), func(i int) { succeeds(t, held[i].Unlock()) })
		if calls := fl.nodes[0].Calls("evalsha") - before; calls == n {
			t.Error("no two locks were released in one batch: this proves nothing")
		}
		for i, k := range held {
			want := fmt.Sprint(k.Token())
			if i%3 == 1 {
				want += ".5"
			}
			equals[any](t, fl.nodes[0].Do("ZSCORE", tokensName, fmt.Sprint(i)), want, "the token of lock %d", i)
		}
	})
}

// The value of a key that is no lock may be large. Nodes return it as the owner of the holder, and that must not end
// the connection.
func TestALargeForeignValueDoesNotEndTheConnection(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes.do("SET", "cache", long)
		for range 3 {
			fails(t, errOf(l.TryLock(t.Context(), "cache")), ErrTaken, "the name of the large key")
			succeeds(t, must(l.TryLock(t.Context(), "another"))(t).Unlock())
		}
	})
}

// Surveys of many large semaphores in one batch have the longest reply of all.
func TestManySurveysInOneReply(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		var all sync.WaitGroup
		for i := range sized(64, 16) {
			s := l.Semaphore(fmt.Sprint("s", i), 1000)
			s.slots.Contend(time.Now().Add(time.Hour)) // so that it begins with a survey
			all.Go(func() { succeeds(t, errOf(s.TryAcquire(t.Context()))) })
		}
		all.Wait()
	})
}
