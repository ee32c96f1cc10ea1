package redlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/endpoint"
)

// readyIn returns what Ready returns, and after how much virtual time.
func readyIn(t *testing.T, l *Locker, limit time.Duration) (time.Duration, error) {
	t.Helper()
	ctx := expiring(t, limit)
	begun := time.Now()
	err := l.Ready(ctx)
	return time.Since(begun), err
}

// wantParts checks the outcome of each node in Ready's error.
func wantParts(t *testing.T, err error, want ...string) *QuorumError {
	t.Helper()
	var q *QuorumError
	if !errors.As(err, &q) || !errors.Is(err, ErrNoQuorum) || q.Op != "ready" || q.Name != "" ||
		len(q.Nodes) != len(want) {
		t.Fatalf("got %#v, want a *QuorumError about %d nodes", err, len(want))
	}
	votes := 0
	for i, n := range q.Nodes {
		if n.Outcome != want[i] || (n.Err == nil) != (want[i] == outcomeVotes) {
			t.Errorf("node %d: got %v, want %s", i, n, want[i])
		}
		if n.Outcome == outcomeVotes {
			votes++
		}
	}
	if q.Granted != votes || q.Need != len(want)/2+1 {
		t.Errorf("got %d of %d, want %d", q.Granted, q.Need, votes)
	}
	return q
}

// Ready goes by the present state: if a majority votes, it is nil at once, even if ctx is done already.
func TestReady(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		ended := cancelled(t)
		for range 3 {
			succeeds(t, l.Ready(ended))
		}
		fl.nodes[0].Crash(false)
		fl.nodes[3].Crash(false)
		settleNetwork()
		if took, err := readyIn(t, l, time.Hour); err != nil || took > 0 {
			t.Errorf("three of five: got %v after %s", err, took)
		}
		fl.nodes[4].Crash(false)
		settleNetwork()
		err := l.Ready(ended)
		q := wantParts(t, err, outcomeFailed, outcomeVotes, outcomeVotes, outcomeFailed, outcomeFailed)
		const text = "redlock: ready: no quorum: 2 of 5 voted, n0:6379 n3:6379 n4:6379 unreachable; context canceled"
		if !errors.Is(err, context.Canceled) || !errors.Is(q.Nodes[0].Err, ErrNodeDown) ||
			err.Error() != text {
			t.Errorf("got %v, want %s", err, text)
		}
	})
}

// After a cold start, Ready returns at the moment at which the third node's vote counts.
func TestReadyAwaitsTheEndOfAbstentions(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		for i, n := range fl.nodes {
			n.SetUptime(time.Duration(1+2*i) * time.Second) // they count after 30, 28, 26, 24 and 22 s
		}
		l := fl.locker("a")
		early, err := readyIn(t, l, 10*time.Second)
		if early != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %s, want DeadlineExceeded after 10s", err, early)
		}
		of := func(i int) *NodeError {
			q := wantParts(t, err, outcomeAbstained, outcomeAbstained, outcomeAbstained, outcomeAbstained, outcomeAbstained)
			fails(t, q.Nodes[i].Err, ErrNodeAbstains)
			return &q.Nodes[i]
		}
		third := of(2).AbstainsUntil
		if left := time.Until(third); left < 10*time.Second || left > 20*time.Second {
			t.Errorf("got %s until %s", left, third)
		}
		if _, err := readyIn(t, l, time.Hour); err != nil || !time.Now().Equal(third) {
			t.Errorf("got %v at %s, want nil at %s", err, time.Now(), third)
		}
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
	})
}

// A client that has seen the nodes start counts their votes up to a second before one that comes then. So Ready and
// Nodes wait for what that one counts, and the votes do not wait for Ready.
func TestReadyMeansThatANewClientIsReady(t *testing.T) {
	late := time.Duration(0)
	for i := range 50 {
		fraction, met := time.Duration(i%10)*100*ms, time.Duration(i/10)*350*ms
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			time.Sleep(fraction)
			fl.nodes.setUptime(0)
			time.Sleep(met)
			l := fl.locker("old")
			within(t, period+ms, "the votes for the Locker that was there", func() {
				succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
			})
			took, err := readyIn(t, l, time.Minute)
			if err != nil || took > time.Second {
				t.Fatalf("Ready: got %v after another %s", err, took)
			}
			late = max(late, took)
			counted := l.readiness(l.opts.clock.local(), (*node).forNew).votes // a majority; the others may follow later
			for i, n := range l.Status(t.Context()) {
				if counted.Has(i) && (n.Err != nil || !n.AbstainsUntil.IsZero()) {
					t.Errorf("ready, and %s is said to abstain until %s: %v", n.Addr, n.AbstainsUntil, n.Err)
				}
			}
			succeeds(t, must(fl.locker("new").TryLock(t.Context(), "job"))(t).Unlock())
		})
	}
	between(t, late, 900*ms, time.Second, "by how much Ready was later than the votes, at most")
}

// Where a client that comes now would not count a node at once, whenever that is, Ready answers for its own Locker.
func TestReadyWhereEachClientDatesTheNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.deny("info")
		l := fl.locker("a", WithNodeConfig(NodeConfig{AllowNoInfo: true}))
		if took, err := readyIn(t, l, time.Minute); err != nil || took > period || took < period-10*ms {
			t.Errorf("INFO is refused: got %v after %s, want nil after %s", err, took, period)
		}
	})
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		makeDurable(fl.nodes...)
		l := fl.locker("a", WithNodeConfig(NodeConfig{TrustDisk: true}))
		succeeds(t, l.Ready(t.Context()))
		for _, n := range fl.nodes {
			n.Crash(true)
			n.Restart()
		}
		time.Sleep(2 * time.Second)
		if took, err := readyIn(t, l, time.Minute); err != nil || took > 0 {
			t.Errorf("restarted with their data: got %v after %s", err, took)
		}
	})
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.setUptime(0)
		if took, err := readyIn(t, fl.locker("a", withGuard(0)), time.Minute); err != nil || took > 0 {
			t.Errorf("without a guard: got %v after %s", err, took)
		}
	})
}

// Ready wakes up when a node comes back, and when one whose clock was wrong counts again: no request is needed.
func TestReadyAwaitsNodes(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend func(fl *fleet)
		limit       time.Duration // until the client notices that by itself
		want        string
	}{
		"down": {
			func(fl *fleet) { fl.nodes[0].Crash(false); fl.nodes[1].Crash(false) },
			func(fl *fleet) { fl.nodes[1].Restart() }, 1100 * ms, outcomeFailed,
		},
		"loading": {
			func(fl *fleet) {
				for _, n := range fl.nodes[:2] {
					n.SetLoading(true)
					fl.net.Reset(link0("a", 0))
					fl.net.Reset(link0("a", 1))
				}
			},
			func(fl *fleet) { fl.nodes[1].SetLoading(false) }, 1100 * ms, outcomeFailed,
		},
		"silent": {
			func(fl *fleet) { fl.nodes[0].Pause(); fl.nodes[1].Pause(); time.Sleep(20 * time.Second) },
			func(fl *fleet) { fl.nodes[0].Resume(); fl.nodes[1].Resume() }, 1100 * ms, outcomeFailed,
		},
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", withGuard(0))
			c.spoil(fl)
			settleNetwork()
			if took, err := readyIn(t, l, 5*time.Second); took != 5*time.Second {
				t.Errorf("got %v after %s", err, took)
			} else {
				wantParts(t, err, c.want, c.want, outcomeVotes)
			}
			ready := make(chan error, 1)
			ctx := expiring(t, time.Minute)
			go func() { ready <- l.Ready(ctx) }()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			c.mend(fl)
			within(t, c.limit, "Ready, after a node is well again", func() { succeeds(t, <-ready) })
		})
	}
}

// If nodes are refused until somebody changes something, there is nothing to wait for; unless the others suffice.
func TestReadyDoesNotWaitInVain(t *testing.T) {
	evict := func(n interface{ SetConfig(name, value string) }) {
		n.SetConfig("maxmemory", "1000000000")
		n.SetConfig("maxmemory-policy", "volatile-lru")
	}
	for name, c := range map[string]struct {
		spoil   func(fl *fleet)
		atOnce  bool
		refused int
	}{
		"replicas": {func(fl *fleet) { fl.nodes[0].Demote("x:1"); fl.nodes[1].Demote("x:1") }, true, 2},
		"evict":    {func(fl *fleet) { evict(fl.nodes[0]); evict(fl.nodes[1]) }, true, 2},
		"no right": {func(fl *fleet) { fl.nodes[0].Deny("time"); fl.nodes[1].Deny("time") }, true, 2},
		"password": {func(fl *fleet) { fl.nodes[0].SetPassword("x"); fl.nodes[1].SetPassword("x") }, true, 2},
		"one of each": {func(fl *fleet) {
			fl.nodes[0].Demote("x:1")
			evict(fl.nodes[1])
		}, true, 2},
		"one refused, one down": {func(fl *fleet) { evict(fl.nodes[0]); fl.nodes[1].Crash(false) }, false, 1},
		"loading":               {func(fl *fleet) { fl.nodes[0].SetLoading(true); fl.nodes[1].SetLoading(true) }, false, 0},
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			c.spoil(fl)
			l := fl.locker("a")
			took, err := readyIn(t, l, time.Minute)
			if c.atOnce != (took == 0) || c.atOnce == errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v after %s", err, took)
			}
			refused := 0
			for _, n := range wantParts(t, err, outcomeFailed, outcomeFailed, outcomeVotes).Nodes {
				var reply *ReplyError
				if errors.Is(n.Err, ErrNodeRefused) || errors.As(n.Err, &reply) && reply.Code != "LOADING" {
					refused++
				}
			}
			equals(t, refused, c.refused, "refused nodes: %v", err)
		})
	}
	bubble(t, 3, func(t *testing.T, fl *fleet) { // two addresses of one server, which turns out later
		dial, attached := fl.net.Dialer("a"), atomic.Bool{}
		twins := []string{fl.urls[0], "redis://n7:6379", "redis://n8:6379"}
		l := must(New(twins, dialing(func(ctx context.Context, network, address string) (net.Conn, error) {
			if !attached.Load() && !strings.HasPrefix(address, "n0") {
				return nil, errors.New("not yet")
			}
			return dial(ctx, network, fl.nodes[0].Addr())
		})))(t)
		defer l.Close()
		attached.Store(true)
		took, err := readyIn(t, l, time.Minute)
		if took > 2*time.Second {
			t.Errorf("got %v after %s", err, took)
		}
		wantParts(t, err, outcomeVotes, outcomeFailed, outcomeFailed)
	})
}

// What a function decides at each connect may be another thing the next time: Ready waits for it.
func TestCertificatesThatMayChangeDoNotLast(t *testing.T) {
	get := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
	verify := func(tls.ConnectionState) error { return nil }
	peer := func([][]byte, [][]*x509.Certificate) error { return nil }
	const theirs, ours, noTLS = endpoint.Certificate, endpoint.OurCertificate, endpoint.NoTLS
	for _, c := range []struct {
		name  string
		tls   *tls.Config
		kind  endpoint.MismatchKind
		lasts bool
	}{
		{"the system's roots", nil, theirs, true},
		{"no certificate", nil, ours, true},
		{"fixed roots", &tls.Config{}, theirs, true},
		{"a fixed certificate", &tls.Config{}, ours, true},
		{"roots that change", &tls.Config{VerifyConnection: verify}, theirs, false},
		{"rules that change", &tls.Config{VerifyPeerCertificate: peer}, theirs, false},
		{"a certificate that changes", &tls.Config{GetClientCertificate: get}, ours, false},
		{"another's certificate changes", &tls.Config{GetClientCertificate: get}, theirs, true},
		{"other roots change", &tls.Config{VerifyConnection: verify}, ours, true},
		{"no TLS", &tls.Config{VerifyConnection: verify, GetClientCertificate: get}, noTLS, true},
	} {
		down := fmt.Errorf("%w: %w", ErrNodeDown, endpoint.MismatchError{Kind: c.kind})
		equals(t, lasting(down, &options{node: NodeConfig{TLS: c.tls}}), c.lasts, "%s: lasts", c.name)
	}
}

func TestReadyAndClose(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[:2].crash(false)
		l := fl.locker("a")
		waiting := async(func() error { return l.Ready(t.Context()) })
		time.Sleep(time.Second)
		within(t, 250*ms, "Close", func() { _ = l.Close() })
		for _, err := range []error{<-waiting, l.Ready(t.Context())} {
			fails(t, err, ErrClosed)
		}
	})
}

// counted counts the looks at a context: Ready takes one for each look at the nodes.
type counted struct {
	context.Context
	looks atomic.Int32
}

func (c *counted) Err() error {
	c.looks.Add(1)
	return c.Context.Err()
}

// Ready looks at the nodes when something may have changed, and not now and then. In 20 s each of three nodes is probed
// four times at most, and each probe may change the states of all.
func TestReadyDoesNotPoll(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.setUptime(0)
		l := fl.locker("a")
		ctx := expiring(t, 20*time.Second)
		c := &counted{Context: ctx}
		fails(t, l.Ready(c), context.DeadlineExceeded)
		between(t, c.looks.Load(), 0, 3*4*4+5, "looks at the nodes")
	})
}

// A caller that tries again at once while no majority is connected is held: until there is one, and no longer.
func TestACallerWithoutAMajorityIsHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", withGuard(0))
		for range 3 {
			fl.nodes[:2].crash(false)
			settleNetwork()
			calls := 0
			for begun := time.Now(); calls < 1000 && time.Since(begun) < 5*time.Second; calls++ {
				fails(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum)
			}
			between(t, calls, 0, 41, "calls in 5 s, of one in half of a node timeout")
			fl.nodes[1].Restart()
			var up time.Time
			got := make(chan time.Time)
			go func() {
				for {
					if k, err := l.TryLock(t.Context(), "job"); err == nil {
						got <- time.Now()
						_ = k.Unlock()
						return
					}
				}
			}()
			for !l.peers.enough.Load() {
				time.Sleep(ms)
			}
			up = time.Now()
			if late := (<-got).Sub(up); late > 20*ms {
				t.Errorf("the caller was held for %s although a majority was connected", late)
			}
			fl.nodes[0].Restart()
			time.Sleep(5 * time.Second)
		}
	})
}
