package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// A node may have closed the connection over which it tells of hand-overs, and the network have kept that to itself. Who waits
// longest would then be passed over on that node by everybody else: the simulation found it do so for ever.
func TestADeadSubscriptionIsReplacedWhileSomebodyWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		must(fl.locker("b").Lock(t.Context(), "job"))(t)
		l := fl.locker("a")
		go func() { _, _ = l.Lock(t.Context(), "job") }()
		time.Sleep(100 * ms)
		n := fl.nodes[1]
		reached := func() any { return n.Do("PUBLISH", l.listeners.channel, "") }
		if reached() != int64(1) {
			t.Fatal("nobody listens")
		}
		fl.net.Drop(link0("a", 1), sim.Both)
		n.Crash(true)
		n.Restart()
		fl.net.Heal(link0("a", 1), sim.Both)
		if reached() != int64(0) {
			t.Fatal("the connection has been replaced before anybody could notice")
		}
		time.Sleep(2*l.opts.connectTimeout() + 100*ms)
		if reached() != int64(1) {
			t.Error("the waiter still cannot be told")
		}
		_ = l.Close()
	})
}

// While nobody waits it does not matter, and costs nothing; healthy connections are kept.
func TestAHealthySubscriptionIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		held := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		l := fl.locker("a")
		waiting := make(chan *Lock, 1)
		go func() { waiting <- must(l.Lock(t.Context(), "job"))(t) }()
		time.Sleep(10 * time.Second)
		n := fl.nodes[0]
		pings := n.Calls("ping")
		if subscribed := n.Calls("subscribe"); subscribed != 1 || pings < 8 || pings > 11 {
			t.Errorf("%d subscriptions and %d pings in 10 s of waiting, want 1 and about 10", subscribed, pings)
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		<-waiting
		settleNetwork()
		pings = n.Calls("ping")
		time.Sleep(10 * time.Second)
		if more := n.Calls("ping") - pings; more > 1 {
			t.Errorf("%d pings although nobody waits", more)
		}
	})
}

// Who cannot be told of hand-overs on a node that is needed for a majority is passed over there, and keeps its votes elsewhere,
// having waited longest. It must not keep everybody else waiting with it.
func TestAWaiterThatOneNodeCannotTellBlocksNobody(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[2].Crash(false)
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Max: 60 * ms})
		held := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		dial, dials := fl.net.Dialer("deaf"), 0
		deaf := fl.locker("deaf", WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == fl.nodes[1].Addr() {
				if dials++; dials > 1 {
					return nil, errors.New("one connection for each client")
				}
			}
			return dial(ctx, network, address)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if k, err := deaf.Lock(ctx, "job"); err == nil {
				_ = k.Unlock(ctx)
			}
		})
		time.Sleep(50 * ms)
		var turns atomic.Int64
		for i := range 8 {
			l := fl.locker(fmt.Sprint(i), WithTTL(2*time.Second))
			running.Go(func() {
				for ctx.Err() == nil {
					k, err := l.Lock(ctx, "job")
					if err != nil {
						return
					}
					turns.Add(1)
					time.Sleep(10 * ms)
					_ = k.Unlock(ctx)
				}
			})
		}
		time.Sleep(50 * ms)
		_ = held.Unlock(t.Context())
		time.Sleep(time.Minute)
		if n := turns.Load(); n < 60 {
			t.Errorf("%d turns in a minute, of which each takes about a tenth of a second", n)
		}
		cancel()
		running.Wait()
	})
}
