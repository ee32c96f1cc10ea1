package holding_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// loss is how one partitioned hold ended, and who came after it.
type loss struct {
	until, told time.Time     // the end of validity, and when the holder was told
	timer       time.Duration // by how much a plain timer for that end was late
	next        time.Time     // when the successor had it
	early       int           // nodes on which the key had expired before the holder was told
	order       bool          // the successor's token is the larger one
}

// A holder that is cut off from all nodes is told by its own clock: in time, and
// before the keys expire, so before anybody else can hold.
//
// Overlaps, tokens and ends that come too early are always judged. When a timer tells is a bound: the TTL is such that
// the drift allowance, 22 ms, is more than the 20 ms that telling may take.
func TestAPartitionedHolderIsToldBeforeAnybodyElseHolds(t *testing.T) {
	fleet.ParallelUnlessJudged(t)
	const (
		ttl     = 2 * time.Second
		promise = 20 * time.Millisecond
	)
	rounds, each := fleet.Sized(1, 20), fleet.Sized(25, 50)
	f := fleet.StartSpec(t, 5, masters.Spec{})
	nw := f.Network(t)
	a := nw.Locker(t, redlock.WithTTL(ttl))
	b := f.Locker(t, redlock.WithTTL(ttl))
	for range rounds {
		fleet.Measure(t, func(m *fleet.Measurement) {
			var late, timers []time.Duration
			early, before := 0, 0
			for _, l := range partition(t, f, nw, a, b, each, ttl) {
				if l.next.Before(l.until) {
					fleet.Unsafe(t, "the successor held %v before the end of validity", l.until.Sub(l.next))
				}
				if !l.order {
					fleet.Unsafe(t, "the successor has the smaller token")
				}
				if l.told.Before(l.until) {
					t.Errorf("told %v too early", l.until.Sub(l.told))
				}
				late, timers = append(late, l.told.Sub(l.until)), append(timers, l.timer)
				if l.early >= 3 {
					early++
				}
				if l.next.Before(l.told) {
					before++
				}
			}
			slices.Sort(late)
			slices.Sort(timers)
			at := func(of []time.Duration, percent int) time.Duration {
				return of[min(len(of)-1, len(of)*percent/100)].Round(time.Microsecond)
			}
			m.Bound(at(late, 100) <= promise+at(timers, 100),
				"%d partitions: told after the end of validity: p50 %v, p99 %v, max %v; "+
					"plain timers for the same moments: p50 %v, p99 %v, max %v",
				len(late), at(late, 50), at(late, 99), at(late, 100), at(timers, 50), at(timers, 99), at(timers, 100))
			m.Bound(early+before == 0 || at(timers, 100) > promise/2,
				"told when the keys of a majority had expired: %d, when the successor held: %d", early, before)
		})
	}
}

// partition lets a hold some names, cuts it off, and lets b take over.
func partition(
	t *testing.T, f fleet.Fleet, nw fleet.Network, a, b *redlock.Locker, holds int, ttl time.Duration,
) []loss {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	name := func(i int) string { return fmt.Sprint("n", i) }
	held := make([]*redlock.Lock, holds)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			time.Sleep(rand.N(ttl / 3)) // so that they are not all renewed at once
			var err error
			if held[i], err = a.Lock(ctx, name(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	time.Sleep(ttl/3 + rand.N(ttl/3)) // some renewals
	nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up); p.Hold(faultproxy.Down) })
	time.Sleep(20 * time.Millisecond) // what has gone through arrives

	expiries := make([][]time.Time, holds)
	for _, n := range f.Nodes {
		conn := cases.Must(n.Dial(ctx, 5*time.Second))(t)
		for i := range held {
			cases.NoError(t, conn.Send("PTTL", name(i)))
		}
		cases.NoError(t, conn.Flush())
		for i := range held {
			left := cases.Must(redis.Int64(conn.Receive()))(t)
			// Read late, so the expiry is earlier: by no more than the round trip, and by the millisecond that Redis rounds up.
			expiries[i] = append(expiries[i], time.Now().Add(time.Duration(left)*time.Millisecond))
		}
		cases.NoError(t, conn.Close())
	}

	losses := make([]loss, holds)
	for i, k := range held {
		l := &losses[i]
		all.Go(func() {
			until := k.Deadline()
			time.Sleep(time.Until(until))
			l.timer = time.Since(until)
		})
		all.Go(func() {
			<-k.Done()
			l.told = time.Now()
			l.until = k.Deadline()
			for _, e := range expiries[i] {
				if e.Before(l.told) {
					l.early++
				}
			}
		})
		all.Go(func() {
			next, err := b.Lock(ctx, name(i))
			l.next = time.Now()
			if err != nil {
				t.Error(err)
				l.order = true // nobody came
				return
			}
			l.order = next.Token() > k.Token()
			_ = next.Unlock() // the next round is what counts
		})
	}
	all.Wait()
	nw.Heal(t)
	for _, k := range held {
		_ = k.Unlock() // lost
	}
	fleet.Eventually(t, "all nodes grant again", func() bool { return f.Grants(t, a) == 5 })
	return losses
}
