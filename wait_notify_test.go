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

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
)

// withoutRESP3 makes all nodes ignorant of HELLO, so that each Locker needs a second connection to wait.
func (fl *fleet) withoutRESP3() {
	for _, n := range fl.nodes {
		n.Disable("hello")
	}
}

// eitherWay runs f with nodes that speak RESP3, and with nodes that do not.
func eitherWay(t *testing.T, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	bubble(t, 3, f)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.withoutRESP3()
		f(t, fl)
	})
}

// Whoever waits has one connection to each node, or two if the node does not speak RESP3. Either way it is notified.
func TestWaitingOverOneConnection(t *testing.T) {
	for _, connections := range []int{1, 2} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			if connections == 2 {
				fl.withoutRESP3()
			}
			held := must(fl.locker("b").Lock(t.Context(), "job"))(t)
			l := fl.locker("a", withBackoff(never))
			waiting := async(func() *Lock { return must(l.Lock(t.Context(), "job"))(t) })
			settleNetwork()
			for i, n := range fl.nodes {
				equals(t, fl.net.Open(link0("a", i)), connections, "connections to %s", n.Addr())
			}
			_ = held.Unlock()
			within(t, 20*ms, "the hand-over", func() { <-waiting })
			_ = l.Close()
		})
	}
}

// The node has closed the connection of a subscription, but the close never reached the client. The node would then
// skip the oldest waiter at each release: in the simulation it did so for ever.
func TestDeadSubscriptionIsReplacedWhileWaiting(t *testing.T) {
	eitherWay(t, func(t *testing.T, fl *fleet) {
		must(fl.locker("b").Lock(t.Context(), "job"))(t)
		l := fl.locker("a")
		go func() { _, _ = l.Lock(t.Context(), "job") }()
		time.Sleep(100 * ms)
		n := fl.nodes[1]
		reached := func() any { return n.Do("PUBLISH", l.listeners.channel, "") }
		equals[any](t, reached(), int64(1), "subscriptions of the waiter")
		fl.net.Drop(link0("a", 1), sim.Both)
		n.Crash(true)
		n.Restart()
		fl.net.Heal(link0("a", 1), sim.Both)
		equals[any](t, reached(), int64(0), "subscriptions before the client could notice")
		time.Sleep(2*l.opts.connectTimeout() + 100*ms)
		equals[any](t, reached(), int64(1), "the waiter still has no subscription")
		_ = l.Close()
	})
}

// A node that is needed for a majority cannot notify the oldest waiter, so it skips that waiter, which keeps its votes
// on the other nodes. It must not block all other waiters.
func TestWaiterThatOneNodeCannotNotifyBlocksNobody(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[2].Crash(false)
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Max: 60 * ms})
		held := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		fl.withoutRESP3()
		dial, dials := fl.net.Dialer("deaf"), 0
		deaf := fl.locker("deaf", dialing(func(ctx context.Context, network, address string) (net.Conn, error) {
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
				_ = k.Unlock()
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
					_ = k.Unlock()
				}
			})
		}
		time.Sleep(50 * ms)
		_ = held.Unlock()
		time.Sleep(time.Minute)
		if n := turns.Load(); n < 60 {
			t.Errorf("%d turns in a minute, want at least 60: each takes about 0.1 s", n)
		}
		cancel()
		running.Wait()
	})
}

// heard returns where the listeners put what is said to a new owner, and that owner.
func (l *Locker) heard() (owner string, said *quorum.Answer) {
	id := uuid.New()
	said = &quorum.Answer{Vote: quorum.VoteKinds}
	l.listeners.expect(id, listener{key: "job", notify: func(n notice) { *said = n.Answer }})
	return id.String(), said
}

// The subscription may be back before the handshake on the main connection: it may lead to another node.
func TestNotificationBeforeTheHandshakeAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		owner, said := l.heard()
		fl.nodes[1].Crash(false)
		settleNetwork()
		l.listeners.receive(notice{node: 1, inOrder: true}, owner+"  job")
		equals(t, said.Vote, quorum.Abstained, "vote")
	})
}

// A node that came back empty may send a notification once the handshake is done: it has lost the holder's vote, so its
// grant must not count.
func TestNotificationOfAnAbstainingNodeAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		l.listeners.listen(l.ctx)
		owner, said := l.heard()
		fl.nodes[1].Crash(false)
		fl.nodes[1].Restart()
		time.Sleep(2 * time.Second) // both connections are back
		l.listeners.receive(notice{node: 1, inOrder: true}, owner+"  job")
		if said.Vote != quorum.Abstained || errors.Is(said.Err, errNoHandshake) {
			t.Errorf("got vote %d, %v, want an abstention because of the restart", said.Vote, said.Err)
		}
		l.listeners.receive(notice{node: 0, inOrder: true}, owner+"  job")
		equals(t, said.Vote, quorum.Granted, "the healthy node's vote")
		_ = l.Close()
	})
}

// Anybody who may publish can send what nodes send. Nobody gets a hold by what is about another lock, or loses one by
// what the nodes do not confirm.
func TestForgedMessagesAreNoVotes(t *testing.T) {
	for name, lock := range some("Lock", "without tokens", "RLock") {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			k := must(a.Lock(t.Context(), "job"))(t)
			got := async(func() *Lock { return must(lock(t.Context(), b))(t) })
			time.Sleep(time.Second)
			var owner string
			b.listeners.mu.Lock()
			for id := range b.listeners.of {
				owner = id.String()
			}
			b.listeners.mu.Unlock()
			word := map[bool]string{true: protocol.ReaderToken}
			for _, message := range []string{
				owner + " " + word[name == "RLock"] + " other", owner + " " + word[name != "RLock"] + " job",
				owner + " nan job", owner + " x job", owner + " job",
			} {
				fl.nodes.do("PUBLISH", b.listeners.channel, message)
			}
			time.Sleep(time.Second)
			fl.nodes.do("PUBLISH", b.listeners.channel, owner+" revoked job") // or a hold by the others would be denied
			for range 2 * maxRevocations {
				fl.nodes.do("PUBLISH", a.listeners.channel, k.Owner()+" revoked job")
			}
			time.Sleep(time.Second)
			succeeds(t, k.Err(), name)
			select {
			case held := <-got:
				t.Fatalf("%s: got %v beside %v", name, held, k)
			default:
			}
			succeeds(t, k.Unlock())
			succeeds(t, (<-got).Unlock())
			fl.clean()
		})
	}
}

// Only a message that names a waiter and its lock counts as a vote for it.
func FuzzReceive(f *testing.F) {
	noHost := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no such host") }
	l, err := New([]string{"redis://a", "redis://b", "redis://c"}, dialing(noHost), withGuard(0),
		WithNodeTimeout(time.Millisecond))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	owner, said := l.heard()
	for _, seed := range []string{
		"", "  ", "me  job", "me 1766620800172208 job", "me 1.7e15 a name", "me nan job", "me next job",
		uuid.NewString() + "  job",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		said.Vote = quorum.VoteKinds
		l.listeners.receive(notice{node: 1, inOrder: true}, strings.Replace(message, "me", owner, 1))
		switch {
		case said.Vote == quorum.VoteKinds:
		case !strings.HasPrefix(message, "me ") || !strings.HasSuffix(message, " job"):
			t.Errorf("%q: counted for a waiter that it does not name, or for another lock", message)
		case said.Vote == quorum.Outbid && (said.Token < 0 || said.Token >= 1<<53):
			t.Errorf("%q: outbid by %d, which is not a token", message, said.Token)
		case said.Vote == quorum.Taken && message == "me next job":
		case said.Vote != quorum.Granted && said.Vote != quorum.Outbid:
			t.Errorf("%q: vote %d", message, said.Vote)
		}
	})
}
