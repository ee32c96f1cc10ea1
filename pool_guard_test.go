package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

const period = 30 * time.Second

// forgetMajority restarts three of five nodes without their data.
func forgetMajority(fl *fleet) {
	for _, n := range fl.nodes[:3] {
		n.Crash(false)
		n.Restart()
	}
}

// The hazard, and the guard against it.
func TestAMajorityThatForgetsDoesNotGrantTwice(t *testing.T) {
	for _, guard := range []time.Duration{0, period} {
		t.Run(guard.String(), func(t *testing.T) {
			modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
				opts = append(opts, WithRestartGuard(guard))
				first := must(fl.locker("a", append(opts, WithoutRenewal())...).Lock(t.Context(), "job"))(t)
				b := fl.locker("b", opts...)
				settleNetwork()
				forgetMajority(fl)
				time.Sleep(3 * time.Second)
				second, err := b.TryLock(t.Context(), "job")
				if guard == 0 {
					if err != nil || first.Err() != nil {
						t.Fatalf("no harm done without the guard: this proves nothing (%v)", err)
					}
					_ = second.Unlock(t.Context())
					return
				}
				if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "n1:6379 abstained: restarted ") ||
					!strings.Contains(err.Error(), "n0:6379") ||
					!strings.Contains(err.Error(), "without durable persistence; its vote counts in ") {
					t.Errorf("got %v, want ErrNoQuorum that says who abstains and for how long", err)
				}
				var q *QuorumError
				var why *AbstainError
				if !errors.As(err, &q) || !errors.As(q.Nodes[0], &why) {
					t.Fatalf("got %v, want an AbstainError", err)
				}
				// Nobody gets it while they abstain, and somebody does at once afterwards.
				ctx, cancel := context.WithTimeout(t.Context(), time.Until(why.Until)-time.Second)
				defer cancel()
				if _, err := b.Lock(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoQuorum) {
					t.Errorf("waiting: got %v, want DeadlineExceeded and ErrNoQuorum", err)
				}
				time.Sleep(time.Until(why.Until))
				if _, err := b.TryLock(t.Context(), "job"); err != nil {
					t.Errorf("after the guard's period: %v", err)
				}
			})
		})
	}
}

// The guard's period begins when the process starts, as far as INFO can prove it.
func TestColdStart(t *testing.T) {
	for up := range 40 {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			for _, n := range fl.nodes {
				n.SetUptime(time.Duration(up) * time.Second)
			}
			_, err := fl.locker("a").TryLock(t.Context(), "job")
			if usable := up >= 31; (err == nil) != usable {
				t.Errorf("up for %d s: got %v, want it usable: %v", up, err, usable)
			}
		})
	}
}

func TestReconnectingCostsNoWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for i, n := range fl.nodes {
			n.Demote("x:1")
			n.Promote() // it has been promoted: its uptime means nothing
			fl.net.Reset(link0("a", i))
		}
		time.Sleep(5 * time.Second)
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
			!strings.Contains(err.Error(), "promoted") {
			t.Errorf("promoted: got %v", err)
		}
		time.Sleep(period)
		for i := range fl.nodes {
			fl.net.Reset(link0("a", i))
		}
		time.Sleep(2 * time.Second)
		for _, client := range []string{"a", "b"} {
			if _, err := fl.locker(client).TryLock(t.Context(), "job "+client); err != nil {
				t.Errorf("%s, a period later: %v", client, err)
			}
		}
	})
}

func TestFlushIsNoticed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, n := range fl.nodes {
			n.Do("FLUSHALL")
		}
		late := fl.locker("late")              // knows of nothing, and must not hide it from the other
		time.Sleep(3*probeEvery + time.Second) // the one has noticed, and then the other
		for name, l := range map[string]*Locker{"a": l, "late": late} {
			settleNetwork() // the other's attempt is undone
			if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
				!strings.Contains(err.Error(), "lost its data") {
				t.Errorf("%s: got %v, want ErrNoQuorum that says why", name, err)
			}
		}
		time.Sleep(period + 2*probeEvery)
		if _, err := l.TryLock(t.Context(), "job"); err != nil {
			t.Error(err)
		}
	})
}

// makeDurable sets a node so that it answers only after the disk has what it answers.
func makeDurable(nodes ...*sim.Node) {
	for _, n := range nodes {
		n.SetConfig("appendonly", "yes")
		n.SetConfig("appendfsync", "always")
	}
}

// A record that came back with the data says that the node was durable when it was written, and no more.
func TestADurableNodesOldFileGrantsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		makeDurable(fl.nodes...)
		a, b := fl.locker("a", WithoutRenewal()), fl.locker("b")
		settleNetwork()
		var files []sim.Snapshot
		for _, n := range fl.nodes {
			n.SetConfig("appendonly", "no") // by somebody, at run time: the file stays as it is
			files = append(files, n.Snapshot())
		}
		first := must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for i, n := range fl.nodes {
			n.Crash(false)
			makeDurable(n) // the configuration file says so still
			n.RestartFrom(files[i])
		}
		time.Sleep(3 * time.Second)
		for name, l := range map[string]*Locker{"knew the nodes": b, "has just met them": fl.locker("c")} {
			if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
				!strings.Contains(err.Error(), "abstained: restarted ") {
				t.Errorf("who %s: got %v, want ErrNoQuorum that says who abstains (the first hold: %v)", name, err, first.Err())
			}
			settleNetwork()
		}
	})
}

// With WithDurableNodes, a node that is durable counts at once for who knew it before, and for nobody else.
func TestDurableNodesCountForThoseWhoKnewThem(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		makeDurable(fl.nodes...)
		knew, cautious := fl.locker("knew", WithDurableNodes()), fl.locker("cautious")
		k := must(knew.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for range 2 { // the second time it rests on what the first has left
			for _, n := range fl.nodes {
				n.Crash(true)
				n.Restart()
			}
			newcomer := fl.locker("new", WithDurableNodes()) // and may be the first to see to the records
			time.Sleep(2 * time.Second)
			if err := k.Extend(t.Context()); err != nil {
				t.Error(err)
			}
			if other, err := knew.TryLock(t.Context(), "another"); err != nil {
				t.Errorf("restarted with all data: %v", err)
			} else {
				_ = other.Unlock(t.Context())
			}
			for name, l := range map[string]*Locker{"does not know them": newcomer, "has not been told to": cautious} {
				settleNetwork()
				if _, err := l.TryLock(t.Context(), "one more"); !errors.Is(err, ErrNoQuorum) ||
					!strings.Contains(err.Error(), "nothing proves to this client") {
					t.Errorf("who %s: got %v", name, err)
				}
			}
			time.Sleep(period)
		}
		for _, n := range fl.nodes {
			n.Crash(false) // its disk is lost
			n.Restart()
		}
		time.Sleep(2 * time.Second)
		if _, err := knew.TryLock(t.Context(), "one more"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("restarted empty: got %v", err)
		}
	})
}

// A node starts with its clock an hour slow, which is then set right: its uptime grows by the hour. Who was there
// when that happened begins a new life for it, and tells those who come later.
func TestAClockThatIsSetRightMakesNoNodeOld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		there := fl.locker("there")
		settleNetwork()
		for _, n := range fl.nodes[1:] {
			n.SetUptime(24 * time.Hour)
		}
		n := fl.nodes[0]
		n.Crash(false)
		n.Step(-time.Hour)
		n.Restart()
		time.Sleep(3 * time.Second)
		n.Step(time.Hour)
		time.Sleep(2 * probeEvery) // it is noticed, some time
		fl.nodes[1].Crash(true)
		for name, l := range map[string]*Locker{"was there": there, "comes later": fl.locker("late")} {
			settleNetwork()
			_, err := l.TryLock(t.Context(), "job")
			if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "n0:6379 abstained: ") ||
				!strings.Contains(err.Error(), "clock was set forward") &&
					!strings.Contains(err.Error(), "its clock set forward") {
				t.Errorf("who %s: got %v, want n0 to abstain", name, err)
			}
		}
		time.Sleep(period)
		for name, l := range map[string]*Locker{"was there": there, "comes later": fl.locker("later")} {
			settleNetwork()
			if k, err := l.TryLock(t.Context(), "job"); err != nil {
				t.Errorf("who %s, after the guard's period: %v", name, err)
			} else {
				_ = k.Unlock(t.Context())
			}
		}
	})
}

func TestTTLsBeyondTheGuardAreRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		if _, err := l.TryLock(t.Context(), "job", WithTTL(31*time.Second)); !errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), "restart guard 30s") {
			t.Errorf("got %v", err)
		}
		if _, err := l.TryLock(t.Context(), "job", WithTTL(30*time.Second)); err != nil {
			t.Error(err)
		}
		if _, err := fl.locker("b", WithRestartGuard(0)).TryLock(t.Context(), "job2", WithTTL(50*time.Second)); err != nil {
			t.Error(err)
		}
	})
}

// Who extends a hold takes a restarted node's word that the lock is its own there, but not that of a node whose clock
// is wrong: what it says ends too early or too late.
func TestAnExtensionIsNotCountedWhereTheClockIsWrong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job", WithTTL(period), WithoutRenewal()))(t)
		settleNetwork()
		fl.nodes[1].Step(-3 * time.Second)
		time.Sleep(2 * probeEvery)
		fl.nodes[0].Crash(true)
		settleNetwork()
		if err := k.Extend(t.Context()); !errors.Is(err, ErrNoQuorum) ||
			!strings.Contains(err.Error(), "n1:6379 abstained: its clock is ") {
			t.Errorf("got %v, want ErrNoQuorum that says whose clock is wrong", err)
		}
		fl.nodes[0].Restart() // it has forgotten nothing, but may have
		time.Sleep(2 * time.Second)
		if err := k.Extend(t.Context()); err != nil {
			t.Errorf("with a restarted node that has the key: %v", err)
		}
	})
}

// While too few nodes are there to tell whose clock was set, nobody is asked about it without a pause.
func TestALeapThatCannotBeJudgedIsLeftForLater(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.locker("a")
		settleNetwork()
		for _, n := range fl.nodes[1:] {
			n.Crash(true)
		}
		fl.nodes[0].Step(time.Hour)
		before := fl.nodes[0].Calls("time")
		time.Sleep(time.Minute)
		if probes := fl.nodes[0].Calls("time") - before; probes > 60 {
			t.Errorf("its clock was read %d times in a minute", probes)
		}
	})
}

// It is the time of asking that counts: a vote that was given while the node abstained does not grow better on its way.
func TestAVoteThatWasAskedForTooEarlyDoesNotCount(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		fl.nodes[0].SetUptime(20 * time.Second)
		l := fl.locker("a")
		until := l.Nodes(t.Context())[0].AbstainsUntil
		fl.net.SetDelay(link0("a", 0), sim.Down, sim.Delay{Min: 100 * ms, Max: 101 * ms})
		time.Sleep(time.Until(until) - 50*ms)
		time.AfterFunc(75*ms, func() { // a probe finds that the period is over, and our answer is on its way still
			l.nodes[0].guard.SetClock(0, false, 0)
		})
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
			!strings.Contains(err.Error(), "abstained") {
			t.Errorf("asked before, answered afterwards: got %v", err)
		}
		if _, err := l.TryLock(t.Context(), "job"); err != nil {
			t.Errorf("asked afterwards: %v", err)
		}
	})
}

// Clients that meet a node right after its restart and long after it compute its age to within two seconds of each
// other. That must not look to the one as if the node had been emptied.
func TestANewcomerCostsNoVotes(t *testing.T) {
	for fraction := time.Duration(0); fraction < time.Second; fraction += sized(50*ms, 250*ms) {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			a := fl.locker("a")
			for _, n := range fl.nodes {
				n.Crash(true)
				n.Restart()
				time.Sleep(time.Minute)
			}
			time.Sleep(time.Hour + fraction)
			b := fl.locker("b")
			for range 20 {
				time.Sleep(2 * time.Second)
				for _, l := range []*Locker{a, b} {
					must(0, must(l.TryLock(t.Context(), "job"))(t).Unlock(t.Context()))(t)
				}
			}
		})
	}
}

func TestUnfitNodesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(fl *fleet)
		opts  []Option
		want  string // "": accepted
	}{
		{"replica", func(fl *fleet) { fl.nodes[0].Demote("n1:6379") }, nil, "it is a replica of n1:6379"},
		{"evicts", func(fl *fleet) {
			fl.nodes[0].SetConfig("maxmemory", "1000000000")
			fl.nodes[0].SetConfig("maxmemory-policy", "volatile-lru")
		}, nil, "CONFIG SET maxmemory-policy noeviction"},
		{"evicts, and may", func(fl *fleet) {
			fl.nodes[0].SetConfig("maxmemory", "1000000000")
			fl.nodes[0].SetConfig("maxmemory-policy", "volatile-lru")
		}, []Option{WithEvictionAllowed()}, ""},
		{"limited, but does not evict", func(fl *fleet) { fl.nodes[0].SetConfig("maxmemory", "1000000000") }, nil, ""},
		{"a policy without a limit", func(fl *fleet) { fl.nodes[0].SetConfig("maxmemory-policy", "allkeys-lru") }, nil, ""},
		{"loading", func(fl *fleet) { fl.nodes[0].SetLoading(true) }, nil, "LOADING"},
		{"no INFO", func(fl *fleet) { fl.nodes[0].Deny("info") }, nil, "+info"},
		{"no CONFIG", func(fl *fleet) { fl.nodes[0].Deny("config") }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, fl *fleet) {
				c.spoil(fl)
				_, err := fl.locker("a", c.opts...).TryLock(t.Context(), "job")
				if c.want == "" && err != nil ||
					c.want != "" && (!errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		})
	}
}

func TestWithoutNodeInfo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for _, n := range fl.nodes {
			n.Deny("info")
		}
		l := fl.locker("a", WithoutNodeInfo())
		other := fl.locker("b", WithoutNodeInfo())
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
			!strings.Contains(err.Error(), "INFO is refused") {
			t.Errorf("first met: got %v", err)
		}
		time.Sleep(period + time.Second)
		for i := range fl.nodes {
			fl.net.Reset(link0("a", i))
		}
		time.Sleep(2 * time.Second)
		k := must(l.TryLock(t.Context(), "job"))(t) // a network fault costs no wait
		_ = k.Unlock(t.Context())
		_ = must(other.TryLock(t.Context(), "job2"))(t)
		forgetAll := func() {
			for _, n := range fl.nodes {
				n.Crash(true) // with an old file, say
				n.Restart()
			}
		}
		forgetAll()
		time.Sleep(3 * time.Second)
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("restarted: got %v", err)
		}
	})
}

func TestOneServerUnderTwoNames(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.net.Attach(fl.nodes[0])
		dial := fl.net.Dialer("a")
		alias := WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, strings.Replace(address, "alias", "n0", 1))
		})
		urls := []string{fl.urls[0], "redis://alias:6379", fl.urls[2]}
		l, err := New(urls, alias)
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), "alias:6379") ||
			!strings.Contains(fmt.Sprint(err), "n0:6379") {
			t.Errorf("got %v, want ErrInvalid that names both", err)
		}
	})
}

func TestAWrongClockDoesNotVote(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[1].Step(3 * time.Second)
		time.Sleep(2 * probeEvery)
		fl.nodes[0].Crash(false)
		_, err := l.TryLock(t.Context(), "job")
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "its clock is ") {
			t.Errorf("got %v", err)
		}
		settleNetwork()
		fl.nodes[1].Step(-3 * time.Second)
		time.Sleep(period) // it was set forward before, and what it forgot by that has ended, too
		if _, err := l.TryLock(t.Context(), "job"); err != nil {
			t.Errorf("set right again: %v", err)
		}
	})
}
