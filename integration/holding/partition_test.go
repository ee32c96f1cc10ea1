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
	"github.com/quorumlock/redlock/integration/faultproxy"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// loss is how one partitioned hold ended, and who came after it.
type loss struct {
	until, told time.Time // the end of validity, and when the holder was told
	next        time.Time // when the successor had it
	early       int       // nodes on which the key had expired before the holder was told
	order       bool      // the successor's token is the larger one
}

// A holder that is cut off from all nodes is told by its own clock: in time, and
// before the keys expire, so before anybody else can hold.
//
// The TTL is such that the drift allowance, 22 ms, is more than the 20 ms that
// telling may take: with shorter ones, a late timer comes after the expiry.
func TestAPartitionedHolderIsToldBeforeAnybodyElseHolds(t *testing.T) {
	const (
		ttl     = 2 * time.Second
		promise = 20 * time.Millisecond
	)
	rounds, each := sized(2, 20), sized(25, 50)
	f := fleet.StartSpec(t, 5, masters.Spec{})
	nw := f.Network(t)
	a := nw.Locker(t, redlock.WithTTL(ttl))
	b := f.Locker(t, redlock.WithTTL(ttl))
	var losses []loss
	var gaps []time.Duration
	for range rounds {
		stop := pulse()
		losses = append(losses, partition(t, f, nw, a, b, each, ttl)...)
		gaps = append(gaps, stop())
	}

	var late []time.Duration
	slow, early, overlaps, disorder := 0, 0, 0, 0
	for _, l := range losses {
		late = append(late, l.told.Sub(l.until))
		if l.told.Sub(l.until) > promise {
			slow++
		}
		if l.early >= 3 {
			early++
		}
		if l.next.Before(l.told) {
			overlaps++
		}
		if !l.order {
			disorder++
		}
	}
	slices.Sort(late)
	at := func(percent int) time.Duration {
		return late[min(len(late)-1, len(late)*percent/100)].Round(time.Microsecond)
	}
	t.Logf("%d partitions: told after the end of validity: p50 %v, p99 %v, max %v; after %s: %d; after the keys of a majority had expired: %d; successors that held before: %d; with a smaller token: %d; longest time that this process was not let run: %v",
		len(losses), at(50), at(99), at(100), promise, slow, early, overlaps, disorder, slices.Max(gaps).Round(time.Microsecond))
	if len(losses) != rounds*each {
		t.Errorf("%d partitions, want %d", len(losses), rounds*each)
	}
	if late[0] < 0 {
		t.Errorf("told %v too early", -late[0])
	}
	if overlaps+disorder > 0 {
		t.Error("holds overlap, or tokens are not in order")
	}
	// A machine that does not let the holder run cannot be told anything. Then
	// it does no work either, and Err and the token are what counts.
	if slow+early > 0 && slices.Max(gaps) < promise/4 {
		t.Error("told too late")
	}
}

// partition lets a hold some names, cuts it off, and lets b take over.
func partition(t *testing.T, f fleet.Fleet, nw fleet.Network, a, b *redlock.Locker, holds int, ttl time.Duration) []loss {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
		conn, err := n.Dial(ctx, 5*time.Second)
		fleet.Must(t, err)
		for i := range held {
			fleet.Must(t, conn.Send("PTTL", name(i)))
		}
		fleet.Must(t, conn.Flush())
		for i := range held {
			left, err := redis.Int64(conn.Receive())
			fleet.Must(t, err)
			// Read late, so the expiry is earlier: by no more than the round
			// trip, and by the millisecond that Redis rounds up.
			expiries[i] = append(expiries[i], time.Now().Add(time.Duration(left)*time.Millisecond))
		}
		fleet.Must(t, conn.Close())
	}

	losses := make([]loss, holds)
	for i, k := range held {
		l := &losses[i]
		all.Go(func() {
			<-k.Done()
			l.told = time.Now()
			l.until = k.Until()
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
				return
			}
			l.order = next.Token() > k.Token()
			_ = next.Unlock(ctx) // the next round is what counts
		})
	}
	all.Wait()
	nw.Heal(t)
	for _, k := range held {
		_ = k.Unlock(ctx) // lost
	}
	fleet.Eventually(t, "all nodes grant again", func() bool { return f.Grants(t, a) == 5 })
	return losses
}

// pulse notes by how much a timer is late at most until it is stopped.
func pulse() (stop func() time.Duration) {
	done, worst := make(chan struct{}), make(chan time.Duration)
	go func() { // until stop
		const beat = time.Millisecond
		var most time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-time.After(beat):
				most = max(most, time.Since(last)-beat)
			case <-done:
				worst <- most
				return
			}
		}
	}()
	return func() time.Duration { close(done); return <-worst }
}
