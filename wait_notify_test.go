package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/sim"
)

// A node may have closed the connection over which it tells of hand-overs, and the network have kept that to itself.
// Who waits longest would then be passed over on that node by everybody else: the simulation found it do so for ever.
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

// Who cannot be told of hand-overs on a node that is needed for a majority is passed over there, and keeps its votes
// elsewhere, having waited longest. It must not keep everybody else waiting with it.
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

// A listener's connection may be back before the node is known: it may be another one.
func TestAMessageOfANodeThatIsNotMetAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.newWaiter(acquireRequest{op: "lock", name: "job", key: "job"}, l.opts, l.tokens.time(l.opts.clock.now()))
		fl.nodes[1].Crash(false)
		settleNetwork()
		l.listeners.receive(1, w.owner+"  job", l.returnGrant)
		if got := w.notified.last[1].vote; got != voteAbstained {
			t.Errorf("got vote %d, want it to abstain", got)
		}
	})
}

// A node that came back empty may tell of a hand-over, as soon as it is known again: it has forgotten who held the
// lock.
func TestAMessageOfANodeThatAbstainsAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		l.listeners.listen(l.ctx, l.returnGrant)
		w := l.newWaiter(acquireRequest{op: "lock", name: "job", key: "job"}, l.opts, l.tokens.time(l.opts.clock.now()))
		fl.nodes[1].Crash(false)
		fl.nodes[1].Restart()
		time.Sleep(2 * time.Second) // both connections are back
		l.listeners.receive(1, w.owner+"  job", l.returnGrant)
		if got := w.notified.last[1]; got.vote != voteAbstained || errors.Is(got.err, errNotMet) {
			t.Errorf("got vote %d, %v, want it to abstain for its restart", got.vote, got.err)
		}
		l.listeners.receive(0, w.owner+"  job", l.returnGrant)
		if got := w.notified.last[0].vote; got != voteGranted {
			t.Errorf("the healthy node: got vote %d", got)
		}
		_ = l.Close()
	})
}

// A message that names a waiter is a vote for it; any other one is nothing.
func FuzzReceive(f *testing.F) {
	nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
	l, err := New([]string{"redis://a", "redis://b", "redis://c"}, WithDialer(nobody), WithRestartGuard(0),
		WithNodeTimeout(time.Millisecond))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	w := l.newWaiter(acquireRequest{op: "lock", name: "job", key: "job"}, l.opts, l.tokens.time(l.opts.clock.now()))
	for _, seed := range []string{
		"", "  ", w.owner + "  job", w.owner + " 1766620800172208 job", w.owner + " 1.7e15 a name",
		w.owner + " nan job", uuid.NewString() + "  job",
	} {
		f.Add(strings.Replace(seed, w.owner, "me", 1))
	}
	f.Fuzz(func(t *testing.T, message string) {
		w.mu.Lock()
		w.notified.last[1] = notification{}
		w.mu.Unlock()
		l.listeners.receive(1, strings.Replace(message, "me", w.owner, 1), l.returnGrant)
		w.mu.Lock()
		said := w.notified.last[1]
		w.mu.Unlock()
		switch {
		case !said.received:
		case !strings.HasPrefix(message, "me "):
			t.Errorf("%q: taken for a message to us", message)
		case said.vote == voteOutbid && (said.token < 0 || said.token >= 1<<53):
			t.Errorf("%q: outbid by %d, which is no token", message, said.token)
		case said.vote != voteGranted && said.vote != voteOutbid:
			t.Errorf("%q: vote %d", message, said.vote)
		}
	})
}
