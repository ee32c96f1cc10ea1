package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// redsync, RedLock.net, rueidis: one sick node blocked every call for seconds.
func TestASickNodeBlocksNobody(t *testing.T) {
	sick := map[string]func(fl *fleet){
		"paused":     func(fl *fleet) { fl.nodes[1].Pause() },
		"black hole": func(fl *fleet) { fl.net.Drop(link0("a", 1), sim.Both) },
		"answers lost": func(fl *fleet) {
			fl.net.Hold(link0("a", 1), sim.Down)
		},
		"refused": func(fl *fleet) { fl.nodes[1].Crash(false) },
		"slow": func(fl *fleet) {
			fl.net.SetDelay(link0("a", 1), sim.Both, sim.Delay{Min: time.Second, Max: 2 * time.Second})
		},
		"errors": func(fl *fleet) { fl.nodes[1].Fail("*", "OOM command not allowed when used memory > 'maxmemory'.", -1) },
	}
	for name, make := range sick {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				l := fl.locker("a")
				make(fl)
				for i := range sized(200, 60) {
					within(t, 20*ms, "a cycle", func() {
						k := must(l.Lock(t.Context(), fmt.Sprint("job", i)))(t)
						if err := k.Extend(t.Context()); err != nil {
							t.Error(err)
						}
						if err := k.Unlock(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				fl.net.Calm()
				fl.nodes[1].Recover()
				fl.nodes[1].Resume()
			})
		})
	}
}

func TestEveryCallReturnsWithinTheNodeTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNodeTimeout(100*ms))
		k := must(l.Lock(t.Context(), "held"))(t)
		for _, n := range fl.nodes {
			n.Pause()
		}
		// The first request to a silent node waits for it, those after that do not.
		for _, limit := range []time.Duration{100 * ms, 0} {
			within(t, limit, "TryLock", func() {
				if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
					t.Errorf("TryLock: got %v", err)
				}
			})
			within(t, limit, "Extend", func() {
				if err := k.Extend(t.Context()); !errors.Is(err, ErrNoQuorum) {
					t.Errorf("Extend: got %v", err)
				}
			})
		}
		within(t, 0, "Unlock", func() {
			if err := k.Unlock(t.Context()); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("Unlock: got %v", err)
			}
		})
		// What could not be confirmed is done as soon as the nodes can.
		for _, n := range fl.nodes {
			n.Resume()
		}
		settleNetwork()
		if got := fl.holding("held") + fl.holding("job"); got != 0 {
			t.Errorf("left on %d nodes", got)
		}
		if k, err := l.TryLock(t.Context(), "job"); err != nil {
			t.Errorf("after the nodes' return: %v", err)
		} else if err := k.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A second round, for the token, has what is left of the first one's time.
func TestTwoRoundsTakeOneNodeTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNodeTimeout(100*ms))
		ahead := l.tokens.time(l.opts.clock.now()) + (500 * ms).Microseconds()
		for i, n := range fl.nodes {
			n.Do("ZADD", "redlock:tokens", strconv.FormatInt(ahead, 10), "job")
			fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: 80 * ms, Max: 80 * ms})
		}
		within(t, 100*ms, "TryLock", func() {
			if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want ErrNoQuorum and no deadline of the caller's", err)
			}
		})
		settleNetwork()
		if got := fl.holding("job"); got != 0 {
			t.Errorf("left on %d nodes", got)
		}
		time.Sleep(200 * ms)
		within(t, 81*ms, "TryLock that knows the token", func() { must(l.TryLock(t.Context(), "job"))(t) })
	})
}

// A request asked after a silent node's return must not wait for the moment at
// which the node would have been given up.
func TestWatchdogIsSetBackForAnEarlierDeadline(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[0].Pause()
		_, _ = l.TryLock(t.Context(), "job")
		fl.nodes[0].Resume()
		settleNetwork()
		fl.nodes[0].Pause()
		within(t, 250*ms, "TryLock", func() { _, _ = l.TryLock(t.Context(), "job") })
		fl.nodes[0].Resume()
	})
}

func TestReleasesReachANodeThatWasAway(t *testing.T) {
	away := map[string][2]func(fl *fleet){
		"cut": {
			func(fl *fleet) { fl.net.Refuse(link0("a", 0)); fl.net.Cut(link0("a", 0)) },
			func(fl *fleet) { fl.net.Accept(link0("a", 0)) },
		},
		"reset": {
			func(fl *fleet) { fl.net.Refuse(link0("a", 0)); fl.net.Reset(link0("a", 0)) },
			func(fl *fleet) { fl.net.Accept(link0("a", 0)) },
		},
		"crashed, with its data": {
			func(fl *fleet) { fl.nodes[0].Crash(true) },
			func(fl *fleet) { fl.nodes[0].Restart() },
		},
		"black hole": {
			func(fl *fleet) { fl.net.Drop(link0("a", 0), sim.Both) },
			func(fl *fleet) { fl.net.Heal(link0("a", 0), sim.Both) },
		},
	}
	for name, f := range away {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				l := fl.locker("a", WithTTL(20*time.Second))
				k := must(l.Lock(t.Context(), "job"))(t)
				settleNetwork()
				f[0](fl)
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(300 * ms)
				if got := fl.nodes[0].Do("EXISTS", "job"); got != int64(1) {
					t.Error("the node was not away: this proves nothing")
				}
				f[1](fl)
				time.Sleep(5 * time.Second)
				if got := fl.nodes[0].Do("EXISTS", "job"); got != int64(0) {
					t.Error("the key is left")
				}
			})
		})
	}
}

func TestScriptFlush(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for i := range 50 {
			for _, n := range fl.nodes {
				if i%3 == 0 {
					n.Do("SCRIPT", "FLUSH")
				}
			}
			k := must(l.Lock(t.Context(), "job"))(t)
			if i%3 == 1 {
				fl.nodes[i%3].Do("SCRIPT", "FLUSH")
			}
			if err := k.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		settleNetwork()
		if got := fl.holding("job"); got != 0 {
			t.Errorf("left on %d nodes", got)
		}
	})
}

func TestANodeThatBecomesAReplicaIsLeft(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[0].Demote("n1:6379")
		k := must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		if got := fl.net.Open(link0("a", 0)); got > 1 {
			t.Errorf("%d connections", got)
		}
		if err := k.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for i, n := range fl.nodes {
			n.SetPassword("right")
			fl.urls[i] = "redis://someone:hunter2@" + n.Addr()
		}
		_, err := fl.locker("a").TryLock(t.Context(), "job")
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "WRONGPASS") || !strings.Contains(err.Error(), "n0:6379") {
			t.Errorf("got %v, want ErrNoQuorum that names the node and WRONGPASS", err)
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "someone") {
			t.Errorf("the error tells a secret: %v", err)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.net.Hold(sim.Link{}, sim.Both)
		results := make(chan error, 1<<13+100)
		for i := range cap(results) {
			go func() {
				_, err := l.TryLock(t.Context(), fmt.Sprint(i))
				results <- err
			}()
		}
		synctest.Wait()
		busy := len(results)
		for range busy {
			err := <-results
			var q *QuorumError
			if !errors.As(err, &q) || !errors.Is(q.Nodes[0], ErrNodeBusy) {
				t.Fatalf("got %v, want ErrNodeBusy", err)
			}
		}
		if busy < 50 || busy > 150 {
			t.Errorf("%d were refused, want about 100", busy)
		}
		fl.net.Release(sim.Link{}, sim.Both)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if left := len(fl.nodes[0].Keys()); left > 1<<13+2 { // our own two
			t.Errorf("%d keys", left)
		}
	})
}

// A bubble panics over a goroutine that is left when its test ends.
func TestNothingLeaks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[0].Crash(false)
		fl.net.Drop(link0("a", 1), sim.Both)
		for range 10 {
			k := must(l.Lock(t.Context(), "job"))(t)
			_ = k.Unlock(t.Context())
		}
	})
}

func TestNewDoesNotWaitForAMinority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Pause()
		fl.nodes[1].Crash(false)
		var l *Locker
		within(t, 250*ms, "New", func() { l = fl.locker("a") })
		k := must(l.Lock(t.Context(), "job"))(t)
		_ = k.Unlock(t.Context())
		fl.nodes[0].Resume()
	})
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for _, n := range fl.nodes {
			n.Crash(false)
		}
		within(t, 100*ms, "New", func() {
			l := fl.locker("a", WithRestartGuard(0))
			if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "refused") {
				t.Errorf("got %v, want ErrNoQuorum that says why", err)
			}
			for _, n := range fl.nodes {
				n.Restart()
			}
			k := must(l.Lock(t.Context(), "job"))(t)
			_ = k.Unlock(t.Context())
		})
	})
}

// A node that accepts connections and says nothing must not hold up Close, whatever is being set up just then.
func TestCloseDoesNotWaitForASilentNode(t *testing.T) {
	for _, timeout := range []time.Duration{20 * ms, 250 * ms, 2 * time.Second} {
		for after := range 12 {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				l := fl.locker("a", WithNodeTimeout(timeout))
				k := must(fl.locker("b").Lock(t.Context(), "job"))(t)
				ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
				defer cancel()
				if _, err := l.Lock(ctx, "job"); !errors.Is(err, ErrTaken) { // so that it listens
					t.Errorf("got %v, want ErrTaken", err)
				}
				fl.nodes[0].Pause()
				fl.net.Reset(sim.Link{Client: "a", Node: fl.nodes[0].Addr()})
				time.Sleep(time.Duration(after*after) * 10 * ms)
				within(t, 2*timeout, fmt.Sprintf("Close at a node timeout of %s, %d", timeout, after), func() { _ = l.Close() })
				fl.nodes[0].Resume()
				_ = k.Unlock(t.Context())
			})
		}
	}
}

// Where each of the many round trips of the first connection takes long, New gives up waiting for it, and it goes on.
func TestNewReturnsInTimeWhateverARoundTripTakes(t *testing.T) {
	for _, c := range []struct{ trip, timeout, limit time.Duration }{
		{900 * ms, 250 * ms, time.Second},
		{900 * ms, 500 * ms, 2 * time.Second},
		{200 * ms, 250 * ms, time.Second},
		{900 * ms, 2 * time.Second, 8 * time.Second},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: c.trip / 2, Max: c.trip / 2})
			var l *Locker
			within(t, c.limit+ms, fmt.Sprintf("New with round trips of %s and a node timeout of %s", c.trip, c.timeout), func() {
				l = fl.locker("a", WithNodeTimeout(c.timeout))
			})
			if c.trip > c.timeout {
				return
			}
			time.Sleep(20 * time.Second)
			k := must(l.TryLock(t.Context(), "job"))(t)
			_ = k.Unlock(t.Context())
		})
	}
}
func TestBadNodesAreRefusedWithoutTheirSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		nodes []string
		want  string // a part of the error
	}{
		{nil, "no nodes"},
		{[]string{""}, "node 1: not a URL"},
		{[]string{"localhost:6379"}, "not a URL"},
		{[]string{"redis://h:1", "h:" + secret + "@2"}, "node 2: not a URL"},
		{[]string{"redis://u:" + secret + "@h:99999"}, "port"},
		{[]string{"redis://u:" + secret + "@h:" + secret}, "not a URL"},
		{[]string{"redis://u:" + secret + "@"}, "no host"},
		{[]string{"redis://u:" + secret + "@h/" + secret}, "database"},
		{[]string{"redis://u:" + secret + "@h/0?timeout=" + secret}, "query"},
		{[]string{"http://u:" + secret + "@h"}, `scheme "http"`},
		{[]string{"unix://run/r.sock"}, "three slashes"},
		{[]string{"redis://u:%zz" + secret + "@h"}, "not a URL"},
		{[]string{"redis://h:1", "redis://h:2", "redis://u:" + secret + "@H:1/5"}, "nodes 1 and 3 are the same server h:1"},
		{make([]string, maxNodes+1), "at most 31"},
	} {
		l, err := New(c.nodes)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q: no error", c.nodes)
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %q, want ErrInvalid with %q", c.nodes, err, c.want)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error tells the secret: %v", c.nodes, err)
		}
	}
}
