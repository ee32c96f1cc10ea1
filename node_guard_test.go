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
	"github.com/quorumlock/redlock/internal/token"
)

// period is the default restart guard.
const period = 30 * time.Second

// forgetMajority restarts three of five nodes without their data.
func forgetMajority(fl *fleet) {
	fl.nodes[:3].crash(false)
	fl.nodes[:3].restart()
}

// Without the restart guard, a majority that forgets a lock grants it twice. With the guard it does not.
func TestAMajorityThatForgetsDoesNotGrantTwice(t *testing.T) {
	for _, guard := range []time.Duration{0, period} {
		t.Run(guard.String(), func(t *testing.T) {
			modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
				opts = append(opts, withGuard(guard))
				first := must(fl.locker("a", append(opts, WithoutRenewal())...).Lock(t.Context(), "job"))(t)
				b := fl.locker("b", opts...)
				settleNetwork()
				forgetMajority(fl)
				time.Sleep(3 * time.Second)
				second, err := b.TryLock(t.Context(), "job")
				if guard == 0 {
					if err != nil || first.Err() != nil {
						t.Fatalf("not granted twice without the guard: this proves nothing (%v)", err)
					}
					_ = second.Unlock()
					return
				}
				failsSaying(t, err, ErrNoQuorum,
					" abstained: restarted ", "n0:6379", "without durable persistence; its vote counts in ")
				var q *QuorumError
				if !errors.As(err, &q) || !errors.Is(q.Nodes[0], ErrNodeAbstains) {
					t.Fatalf("got %v, want ErrNodeAbstains", err)
				}
				// No client gets the lock while the nodes abstain; one does right after that.
				until := q.Nodes[0].AbstainsUntil
				ctx := expiring(t, time.Until(until)-time.Second)
				failsAll(t, errOf(b.Lock(ctx, "job")), context.DeadlineExceeded, ErrNoQuorum)
				time.Sleep(time.Until(until))
				succeeds(t, errOf(b.TryLock(t.Context(), "job")), "after the guard's period")
			})
		})
	}
}

// Where nodes were started while their clocks were ahead, INFO's uptime is negative and no age. The first client that
// meets them waits for the guard; those after it do not, and put nobody out.
func TestANegativeUptimeIsNoAge(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.setUptime(-time.Hour)
		first := fl.locker("first")
		_, err := first.TryLock(t.Context(), "job")
		failsSaying(t, err, ErrNoQuorum, "its clock was ahead when it started")
		time.Sleep(period)
		for i := range 10 {
			for _, l := range []*Locker{first, fl.locker(fmt.Sprint("other", i))} {
				if k, err := l.TryLock(t.Context(), "job"); err != nil {
					t.Errorf("%v after it was met first: %v", period+time.Duration(i)*7*time.Second, err)
				} else {
					_ = k.Unlock()
				}
			}
			time.Sleep(7 * time.Second)
		}
		if got := first.Status(t.Context())[0].Findings; len(got) != 1 || got[0].Code != "uptime" {
			t.Errorf("findings: %v", got)
		}
	})
}

// All clocks were an hour ahead, and are right again. Clients that were at work go on. For a name that has a token from
// then there is a way out, which keeps tokens in order: each node's finding tells it.
func TestTokensThatAreAheadHaveAWayOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		step := func(by time.Duration) {
			fl.nodes.step(by)
		}
		step(time.Hour)
		worked := fl.locker("worked")
		before := must(worked.Lock(t.Context(), "job"))(t)
		_ = before.Unlock()
		step(-time.Hour)
		time.Sleep(2 * period)
		l := fl.locker("later")
		_, err := l.TryLock(t.Context(), "job")
		failsSaying(t, err, ErrNoQuorum, "a token of this name that is 59m", "doctor")
		for i, st := range l.Status(t.Context()) {
			var remedy []any
			for _, f := range st.Findings {
				if f.Code == "token-ahead" {
					command, _, _ := strings.Cut(f.Remedy, ",")
					for word := range strings.FieldsSeq(command) {
						remedy = append(remedy, word)
					}
				}
			}
			if len(remedy) != 3 {
				t.Fatalf("%s: findings %v", st.Addr, st.Findings)
			}
			fl.nodes[i].Do(remedy...)
		}
		time.Sleep(longestPause + time.Second) // the next probe
		last := before.Token()
		for _, l := range []*Locker{l, worked, fl.locker("new")} {
			k := must(l.TryLock(t.Context(), "job"))(t)
			if k.Token() <= last {
				t.Errorf("got token %d after %d", k.Token(), last)
			}
			last = k.Token()
			_ = k.Unlock()
		}
	})
}

func TestFlushIsNoticed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes.do("FLUSHALL")
		late := fl.locker("late")              // it has seen no earlier data, and must not hide the loss from a
		time.Sleep(3*probeEvery + time.Second) // a has noticed, and then late
		for _, l := range []*Locker{l, late} {
			settleNetwork() // the other Locker's attempt is undone
			failsSaying(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, "lost its data")
		}
		time.Sleep(period + 2*probeEvery)
		succeeds(t, errOf(l.TryLock(t.Context(), "job")))
	})
}

// An administrator makes a majority evict while clients run. Their next probes notice, whichever of the two settings
// comes last, and also where CONFIG is refused.
func TestEvictionThatIsSwitchedOnIsNoticed(t *testing.T) {
	const window = 3*probeEvery/2 + time.Second
	limit, none := [2]string{"maxmemory", "1000000000"}, [2]string{"maxmemory", "0"}
	evict, keep := [2]string{"maxmemory-policy", "volatile-ttl"}, [2]string{"maxmemory-policy", "noeviction"}
	for name, c := range map[string]struct {
		first, then, back [2]string // settings and their values
		secret            bool      // CONFIG is refused
	}{
		"policy":         {limit, evict, keep, false},
		"limit":          {evict, limit, none, false},
		"policy, secret": {limit, evict, keep, true},
		"limit, secret":  {evict, limit, none, true},
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			set := func(to [2]string) {
				for _, n := range fl.nodes[:2] {
					n.SetConfig(to[0], to[1])
				}
			}
			set(c.first)
			for _, n := range fl.nodes {
				if c.secret {
					n.Deny("config")
				}
			}
			l := fl.locker("a")
			try := func() error {
				k, err := l.TryLock(t.Context(), "job")
				if err == nil {
					err = k.Unlock()
				}
				return err
			}
			late := 0
			for round := range sized(20, 10) {
				time.Sleep(time.Minute + time.Duration(round)*1300*ms) // in all phases of the schedule
				if err := try(); err != nil {
					t.Fatalf("round %d, before: %v", round, err)
				}
				set(c.then)
				time.Sleep(window)
				if err := try(); err == nil {
					late++
				} else if !errors.Is(err, ErrNoQuorum) || !says(err, "may evict locks") {
					t.Errorf("round %d: got %v", round, err)
				}
				set(c.back)
			}
			if late > 0 {
				t.Errorf("in %d rounds a lock was granted %v later", late, window)
			}
		})
	}
}

// makeDurable configures nodes to flush every change to disk before they answer.
func makeDurable(nodes ...*sim.Node) {
	for _, n := range nodes {
		n.SetConfig("appendonly", "yes")
		n.SetConfig("appendfsync", "always")
	}
}

// A record that is loaded from a node's file proves only that the node was durable when the record was written.
func TestADurableNodeStartedFromAnOldFileAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		makeDurable(fl.nodes...)
		a, b := fl.locker("a", WithoutRenewal()), fl.locker("b")
		settleNetwork()
		var files []sim.Snapshot
		for _, n := range fl.nodes {
			n.SetConfig("appendonly", "no") // at run time: from now on the file does not change
			files = append(files, n.Snapshot())
		}
		first := must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for i, n := range fl.nodes {
			n.Crash(false)
			makeDurable(n) // as the configuration file still says
			n.RestartFrom(files[i])
		}
		time.Sleep(3 * time.Second)
		for name, l := range map[string]*Locker{"that knew the nodes": b, "that is new": fl.locker("c")} {
			if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) ||
				!says(err, "abstained: restarted ") {
				t.Errorf("a Locker %s: got %v, want ErrNoQuorum with abstentions (the first hold: %v)", name, err, first.Err())
			}
			settleNetwork()
		}
	})
}

// A node starts with its clock an hour slow, which is then corrected, so its uptime grows by an hour. A client that
// sees that happen begins a new incarnation of the node, and the node's record tells clients that connect later.
func TestACorrectedClockDoesNotAddToTheUptime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		there := fl.locker("there")
		settleNetwork()
		fl.nodes[1:].setUptime(24 * time.Hour)
		n := fl.nodes[0]
		n.Crash(false)
		n.Step(-time.Hour)
		n.Restart()
		time.Sleep(3 * time.Second)
		n.Step(time.Hour)
		time.Sleep(2 * probeEvery) // a probe notices it
		fl.nodes[1].Crash(true)
		for name, l := range map[string]*Locker{"was there": there, "comes later": fl.locker("late")} {
			settleNetwork()
			_, err := l.TryLock(t.Context(), "job")
			if !errors.Is(err, ErrNoQuorum) || !says(err, "n0:6379 abstained: ") ||
				!says(err, "clock was set forward") &&
					!says(err, "its clock set forward") {
				t.Errorf("a Locker that %s: got %v, want n0 to abstain", name, err)
			}
		}
		time.Sleep(period)
		for name, l := range map[string]*Locker{"was there": there, "comes later": fl.locker("later")} {
			settleNetwork()
			if k, err := l.TryLock(t.Context(), "job"); err != nil {
				t.Errorf("a Locker that %s, after the guard's period: %v", name, err)
			} else {
				_ = k.Unlock()
			}
		}
	})
}

// An extension counts on a restarted node that still has the key, but not on a node whose clock is wrong: there the key
// expires too early or too late.
func TestAnExtensionIsNotCountedWhereTheClockIsWrong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job", WithTTL(period), WithoutRenewal()))(t)
		settleNetwork()
		fl.nodes[1].Step(-3 * time.Second)
		time.Sleep(2 * probeEvery)
		fl.nodes[0].Crash(true)
		settleNetwork()
		failsSaying(t, k.Extend(t.Context()), ErrNoQuorum, "n1:6379 abstained: its clock is ")
		fl.nodes[0].Restart() // it has forgotten nothing, but no client can know that
		time.Sleep(2 * time.Second)
		succeeds(t, k.Extend(t.Context()), "with a restarted node that has the key")
	})
}

// While too few nodes are connected to tell whose clock was set, the client does not probe without a pause.
func TestAnUndecidedClockLeapCausesNoBusyProbing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.locker("a")
		settleNetwork()
		fl.nodes[1:].crash(true)
		fl.nodes[0].Step(time.Hour)
		before := fl.nodes[0].Calls("time")
		time.Sleep(time.Minute)
		between(t, fl.nodes[0].Calls("time")-before, 0, 60, "how often its clock was read in a minute")
	})
}

// One node's clock that leaps whenever it is read, forward or to and fro, does not have all nodes probed all the time.
func TestAClockThatLeapsWithEachReadingCausesNoBusyProbing(t *testing.T) {
	for what, step := range map[string]func(reading int) time.Duration{
		"forward":    func(int) time.Duration { return 2 * time.Second },
		"to and fro": func(reading int) time.Duration { return time.Duration(1-reading%2*2) * time.Hour },
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			settleNetwork()
			reading, ahead := 0, time.Until(fl.nodes[1].Now())
			fl.nodes[0].Alter(func(c sim.Command) (reply any, other bool, late time.Duration) {
				if !strings.EqualFold(c.Args[0], "time") || reading == 1000 {
					return nil, false, 0
				}
				micros := time.Now().Add(ahead).UnixMicro()
				reading++
				ahead += step(reading)
				return []any{fmt.Sprint(micros / 1e6), fmt.Sprint(micros % 1e6)}, true, 0
			})
			before := fl.nodes[1].Calls("time")
			time.Sleep(time.Minute)
			between(t, fl.nodes[1].Calls("time")-before, 0, 60, "%s: how often another clock was read in a minute", what)
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
		})
	}
}

// One node that says it is others, and is met before them, has one of them refused at most: New goes on with the rest.
func TestANodeThatClaimsToBeOthersHasOneRefused(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[4].Alter(func(c sim.Command) (reply any, other bool, late time.Duration) {
			if len(c.Args) < 2 || !strings.EqualFold(c.Args[0], "info") {
				return nil, false, 0
			}
			as := fl.nodes[0]
			if c.Args[1] == "replication" {
				as = fl.nodes[1]
			}
			return as.Do("INFO", c.Args[1]), true, 0
		})
		for i := range 4 {
			fl.net.SetDelay(link0("a", i), sim.Both, sim.Delay{Min: 5 * ms, Max: 6 * ms})
		}
		l, refused := fl.locker("a"), 0
		for _, st := range l.Status(t.Context()) {
			if errors.Is(st.Err, ErrNodeRefused) {
				refused++
			}
		}
		equals(t, refused, 1, "nodes that are refused")
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
	})
}

// The time of the request decides: a vote does not count if the abstention ends while the answer is in flight.
func TestAVoteRequestedWhileAbstainingDoesNotCount(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		fl.nodes[0].SetUptime(20 * time.Second)
		l := fl.locker("a")
		until := l.Status(t.Context())[0].AbstainsUntil
		fl.net.SetDelay(link0("a", 0), sim.Down, sim.Delay{Min: 100 * ms, Max: 101 * ms})
		time.Sleep(time.Until(until) - 50*ms)
		time.AfterFunc(75*ms, func() { // a probe finds that the period is over while our answer is in flight
			l.nodes[0].guard.SetClock(token.Offset{}, 0)
		})
		failsSaying(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, "abstained")
		succeeds(t, errOf(l.TryLock(t.Context(), "job")), "sent after the end")
	})
}

func TestOneServerUnderTwoNames(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.net.Attach(fl.nodes[0])
		dial := fl.net.Dialer("a")
		alias := dialing(func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, strings.Replace(address, "alias", "n0", 1))
		})
		urls := []string{fl.urls[0], "redis://alias:6379", fl.urls[2]}
		l, err := New(urls, alias)
		if err == nil {
			_ = l.Close()
		}
		failsSaying(t, err, ErrInvalid, "alias:6379", "n0:6379")
	})
}
