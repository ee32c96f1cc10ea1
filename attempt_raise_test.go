package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/token"
)

func TestNodesTimeIgnoresTheWallClock(t *testing.T) {
	start := time.Now()
	now := instant{local: start, boot: time.Hour}
	tk := tokens{token.New(3, 2, start.UnixMicro(), 0), now}
	for node, off := range []time.Duration{-2 * time.Second, 0, 40 * time.Minute} {
		tk.Measured(node, start.Add(off).UnixMicro(), tk.micros(now), tk.micros(now))
	}
	later := instant{local: start.Round(0).Add(-time.Hour), boot: time.Hour + time.Second}
	equals(t, tk.time(later), start.Add(time.Second).UnixMicro(), "wall clock set back by an hour")
}

// A later hold has a larger token, even if the nodes have dropped the earlier token and all clocks were set back since.
func TestNewTokensAreLargerThanDroppedOnes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		k := must(a.Lock(t.Context(), "job"))(t)
		dropped := k.Token()
		succeeds(t, k.Unlock())
		time.Sleep(3 * time.Minute) // what an idle client had them keep within the retention lives for 90 s from then on
		for _, n := range fl.nodes {
			if n.Do("ZSCORE", tokensName, "job") != nil {
				t.Fatal("the token has not been dropped: this proves nothing")
			}
			n.Step(-time.Hour)
		}
		time.Sleep(2 * probeEvery)
		for range 3 { // each Locker must continue above the others' tokens
			for _, l := range []*Locker{b, fl.locker("c"), a} {
				k := must(l.TryLock(t.Context(), "job"))(t)
				grows(t, k.Token(), dropped)
				dropped = k.Token()
				_ = k.Unlock()
				settleNetwork()
			}
		}
		time.Sleep(time.Hour)
		k = must(b.TryLock(t.Context(), "job"))(t) // by now the time has caught up
		grows(t, k.Token(), dropped)
	})
}

// Clients that live too briefly for a check leave no tokens behind, and still no later token is smaller.
func TestShortLivedClientsLeaveNoTokens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var last int64
		for i := range 300 {
			l := fl.locker("a")
			k := must(l.Lock(t.Context(), fmt.Sprint("file:", i)))(t)
			last = max(last, k.Token())
			succeeds(t, k.Unlock())
			_ = l.Close()
			time.Sleep(10 * ms)
		}
		for _, n := range fl.nodes {
			equals[any](t, n.Do("ZCARD", tokensName), int64(301), "tokens within the retention, and a member that is none")
		}
		time.Sleep(time.Minute)
		for _, n := range fl.nodes {
			equals[any](t, n.Do("ZCARD", tokensName), int64(0), "tokens after a minute's pause")
			n.Step(-time.Hour)
		}
		l := fl.locker("b")
		for _, name := range []string{"file:299", "file:0"} {
			if k := must(l.Lock(t.Context(), name))(t); k.Token() <= last {
				t.Errorf("%s: token %d after %d", name, k.Token(), last)
			}
		}
	})
}

// Also on nodes that have no token yet.
func TestAFirstClientThatIsBriefLeavesNoToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, name := range []string{"x", "y", "z"} {
			succeeds(t, must(l.Lock(t.Context(), name))(t).Unlock())
		}
		_ = l.Close()
		time.Sleep(time.Minute)
		for i, n := range fl.nodes {
			equals[any](t, n.Do("EXISTS", tokensName), int64(0), "node %d: tokens left", i)
		}
	})
}

// Also on a node that is connected late, when the others were just told.
func TestANodeThatIsConnectedLateKeepsNoToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.net.Refuse(link0("a", 2))
		l := fl.locker("a")
		fl.mend("a", 2)
		for begun := time.Now(); ; time.Sleep(ms) {
			if up, _ := l.nodes[2].conn.State(); up {
				break
			} else if time.Since(begun) > 500*ms {
				t.Fatal("not within the second in which nothing is trimmed: this proves nothing")
			}
		}
		succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		settleNetwork()
		if fl.nodes[2].Do("ZSCORE", tokensName, "job") == nil {
			t.Fatal("node 2 knows no token: this proves nothing")
		}
		_ = l.Close()
		time.Sleep(time.Minute)
		equals[any](t, fl.nodes[2].Do("EXISTS", tokensName), int64(0), "tokens left")
	})
}

// Clocks that were set back make tokens go on as a count. What expires then is noted, too.
func TestTokensThatCountGrowWhenTheirSetHasExpired(t *testing.T) {
	for _, killed := range []bool{false, true} { // it notes nothing at its end
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			var last int64
			for round := range 4 {
				client := string(rune('a' + round))
				l := fl.locker(client)
				for range 5 {
					k := must(l.Lock(t.Context(), "job"))(t)
					grows(t, k.Token(), last)
					last = k.Token()
					succeeds(t, k.Unlock())
					time.Sleep(50 * ms)
				}
				if killed {
					fl.cutAll(client)
				}
				_ = l.Close()
				time.Sleep(2 * time.Minute)
				fl.nodes.step(-15 * time.Minute)
				time.Sleep(time.Second)
			}
		})
	}
}

// A client whose reading of the nodes' time is older than a step back proposes what is ahead of their clocks.
func TestTokensAheadOfTheClocksGrowWhenTheirSetHasExpired(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Second, 70 * time.Second, 10 * time.Minute} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			a := fl.locker("a")
			time.Sleep(2 * time.Second)
			fl.nodes.step(-back)
			k := must(a.Lock(t.Context(), "job"))(t)
			succeeds(t, k.Unlock())
			_ = a.Close()
			time.Sleep(2 * time.Minute)
			later, err := fl.locker("b").Lock(t.Context(), "job")
			if err == nil && later.Token() <= k.Token() || err != nil && !errors.Is(err, ErrNoQuorum) {
				t.Errorf("clocks set back by %s: %v, token %v after %d", back, err, later, k.Token())
			}
		})
	}
}

// A set of tokens that is in use lives on, also where hand-overs alone propose tokens.
func TestTokensInUseAreKeptForTheRetention(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		holder := must(a.Lock(t.Context(), "job"))(t)
		next := async(func() *Lock { return must(b.Lock(t.Context(), "job"))(t) })
		time.Sleep(50 * time.Second)
		succeeds(t, holder.Unlock())
		handed := <-next
		_, _ = a.Close(), b.Close()
		time.Sleep(40 * time.Second) // the first acquires are 90 s ago
		for _, n := range fl.nodes {
			equals[any](t, n.Do("ZSCORE", tokensName, "job"), fmt.Sprint(handed.Token()), "the token of 40 s ago")
		}
	})
}

// A client that holds a lock may hand it over at any moment, with a token that must then be kept for the retention,
// although nobody has asked the nodes for anything for a long time.
func TestASetOfTokensIsRenewedForAHold(t *testing.T) {
	const ttl, held = 58 * time.Second, 50 * time.Second
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(ttl), withGuard(0), withRetention(time.Minute), WithoutRenewal())
		k := must(l.Lock(t.Context(), "job"))(t)
		time.Sleep(held)
		for _, n := range fl.nodes {
			between(t, n.Do("PTTL", tokensName).(int64), 60_000, 600_000, "after %s of a hold: the set's life in ms", held)
		}
		succeeds(t, k.Unlock())
	})
}

// So is what a client wrote between two of its checks, however long it was idle before.
func TestASetOfTokensIsRenewedAfterAHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		time.Sleep(3 * time.Minute)
		succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		time.Sleep(probeEvery*3/2 + time.Second)
		for _, n := range fl.nodes {
			between(t, n.Do("PTTL", tokensName).(int64), 60_000, 600_000, "after the next check: the set's life in ms")
		}
	})
}

// A node that is emptied under a client has no set of tokens that could expire. What the client adds then ends, too,
// even if it closes at once and no other client comes.
func TestASetOfTokensExpiresOnAnEmptiedNode(t *testing.T) {
	for what, add := range map[string]func(t *testing.T, l *Locker, n *sim.Node){
		"lock": func(t *testing.T, l *Locker, n *sim.Node) {
			succeeds(t, must(l.TryLock(t.Context(), "other"))(t).Unlock())
			n.Do("FLUSHALL")
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
		},
		"unlock": func(t *testing.T, l *Locker, n *sim.Node) {
			k := must(l.TryLock(t.Context(), "job"))(t)
			succeeds(t, k.Extend(t.Context()))
			n.Do("FLUSHALL")
			succeeds(t, k.Unlock())
		},
		"extend": func(t *testing.T, l *Locker, n *sim.Node) {
			k := must(l.TryLock(t.Context(), "job"))(t)
			n.Do("FLUSHALL")
			succeeds(t, k.Extend(t.Context()))
		},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			add(t, l, fl.nodes[0])
			_ = l.Close()
			settleNetwork()
			if fl.nodes[0].Do("ZCARD", tokensName) == int64(0) {
				t.Errorf("%s: no set, so this proves nothing", what)
			}
			if lives := fl.nodes[0].Do("PTTL", tokensName); lives.(int64) < 0 {
				t.Errorf("%s: the set stays for ever (%v)", what, lives)
			}
		})
	}
}

// A client that knows a single clock, which is ahead, does not have its node drop tokens by that when it closes.
func TestAClientThatKnowsOneClockDropsNothingAtClose(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		n, b := fl.nodes[0], fl.locker("b")
		succeeds(t, must(b.Lock(t.Context(), "job"))(t).Unlock())
		time.Sleep(3*probeEvery/2 + time.Second) // with its check, b has the set of tokens live longer
		_ = b.Close()
		n.Step(50 * time.Second)
		fl.cut("a", 1, 2)
		a := fl.locker("a")
		fails(t, errOf(a.TryLock(t.Context(), "other")), ErrNoQuorum)
		if n.Do("ZSCORE", tokensName, "job") == nil {
			t.Error("the token has expired, so this proves nothing")
		}
		_ = a.Close()
		settleNetwork()
		if n.Do("ZSCORE", tokensName, "job") == nil {
			t.Errorf("a token of %v ago was dropped", 3*probeEvery/2)
		}
	})
}

// A client spares the node what another one has just written, unless the set has got a larger token than was noted, or
// lives too briefly by now.
func TestASetOfTokensIsRenewed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		n := fl.nodes[0]
		const floor = "redlock:floor"
		call := func() (later float64, lives any) {
			now := time.Now().UnixMicro()
			n.Do("EVAL", trim.Source, "3", floor, tokensName, "none", fmt.Sprint(now), "60000000", "80000", "")
			words := strings.Fields(fmt.Sprint(n.Do("GET", floor)))
			later, _ = strconv.ParseFloat(words[1], 64)
			return later, n.Do("PTTL", tokensName)
		}
		token := float64(time.Now().UnixMicro())
		n.Do("ZADD", tokensName, fmt.Sprintf("%.0f", token), "x")
		call()
		time.Sleep(2 * time.Second)
		if _, lives := call(); lives != int64(78000) {
			t.Errorf("the set was renewed after 2 s, and lives for %v ms", lives)
		}
		n.Do("ZADD", tokensName, fmt.Sprintf("%.0f", token+60e6), "y")
		if later, _ := call(); later <= token+60e6 {
			t.Errorf("%.0f is noted, and the set has %.0f", later, token+60e6)
		}
		time.Sleep(5 * time.Second)
		if _, lives := call(); lives != int64(80000) {
			t.Errorf("the set lives for %v ms, want 80000", lives)
		}
	})
}

// One node's clock is an hour slow all the time, and b reads only that clock and one other. The median of two clocks is
// the slower one, but tokens must not follow it. No data is lost.
func TestTheSlowerOfTwoClocksIsNotTheTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Step(-time.Hour)
		a := fl.locker("a")
		settleNetwork()
		fl.net.Refuse(link0("a", 0)) // it would keep the token for an hour, by its own clock
		fl.net.Reset(link0("a", 0))
		k := must(a.Lock(t.Context(), "job"))(t)
		last := k.Token()
		succeeds(t, k.Unlock())
		fl.net.Refuse(link0("b", 2))
		b := fl.locker("b")
		for range 100 { // b tries again only after node 1 has dropped the token
			if k, err := b.TryLock(t.Context(), "job"); err == nil {
				grows(t, k.Token(), last)
				last = k.Token()
				_ = k.Unlock()
			} else if !errors.Is(err, ErrNoQuorum) {
				t.Fatal(err)
			}
			dropped := func() bool { return fl.nodes[1].Do("ZSCORE", tokensName, "job") == nil }
			if time.Sleep(time.Second); !dropped() {
				time.Sleep(30 * time.Second)
				for !dropped() {
					time.Sleep(25 * ms)
				}
			}
		}
		fl.mend("b", 2)
		time.Sleep(4 * time.Second) // b's next attempt
		k = must(b.TryLock(t.Context(), "job"))(t)
		grows(t, k.Token(), last)
	})
}

// A node whose clock is behind keeps tokens longer, by an hour at most.
func TestANodesClockDelaysDropping(t *testing.T) {
	for behind, want := range map[time.Duration]time.Duration{
		0: time.Minute, 10 * time.Minute: 11 * time.Minute, 24 * time.Hour: time.Hour + time.Minute,
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
			fl.nodes[0].Step(-behind)
			kept := func(node int) bool { return fl.nodes[node].Do("ZSCORE", tokensName, "job") != nil }
			time.Sleep(want - time.Second)
			if !kept(0) {
				t.Errorf("clock %v behind: dropped within %v", behind, want)
			}
			const seldom = idleTrim * probeEvery * 3 / 2 // how often an idle client trims, at least
			time.Sleep(seldom)
			if kept(0) || kept(1) {
				t.Errorf("clock %v behind: kept after %v", behind, want+seldom)
			}
		})
	}
}

// A client that knows a single clock, which is a day ahead, proposes tokens of the next day. They must not raise the
// floor, which all later tokens must exceed.
func TestAFloorDoesNotFollowASingleClock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Step(24 * time.Hour)
		for i := 1; i < 3; i++ {
			fl.net.Refuse(link0("a", i))
		}
		a := fl.locker("a")
		fails(t, errOf(a.TryLock(t.Context(), "other")), ErrNoQuorum)
		time.Sleep(2 * time.Minute)
		for i := 1; i < 3; i++ {
			fl.mend("a", i)
		}
		time.Sleep(time.Minute)
		k := must(a.TryLock(t.Context(), "job"))(t)
		if ahead := k.Token() - a.tokens.time(a.opts.clock.now()); ahead > token.MaxAhead.Microseconds() {
			t.Errorf("the token is %d µs ahead of the time", ahead)
		}
		_ = k.Unlock()
		_ = a.Close()
		fl.nodes[0].Crash(false)
		fl.nodes[0].Step(-24 * time.Hour)
		fl.nodes[0].Restart()
		time.Sleep(10 * time.Minute)
		succeeds(t, must(fl.locker("b").TryLock(t.Context(), "job"))(t).Unlock())
	})
}

// If only two clocks are known, how far they differ matters only for tokens.
func TestTwoClocksMatterToTokensAlone(t *testing.T) {
	for what, down := range map[string]int{"two nodes": -1, "two of three": 2} {
		nodes := 3
		if down < 0 {
			nodes = 2
		}
		bubble(t, nodes, func(t *testing.T, fl *fleet) {
			fl.nodes[0].Step(40 * time.Second)
			if down >= 0 {
				fl.nodes[down].Crash(true)
			}
			if k, err := fl.locker("a", WithoutFencing()).TryLock(t.Context(), "job"); err != nil {
				t.Errorf("%s, without tokens: %v", what, err)
			} else {
				_ = k.Unlock()
			}
			fails(t, errOf(fl.locker("b").TryLock(t.Context(), "job")), ErrNoQuorum, what, "with tokens")
		})
	}
}

// One of five nodes lies about its tokens: it has dropped, or knows, what no clock has shown. Nobody follows it, and
// what it said is gone with it.
func TestOneNodesTokensMoveNobody(t *testing.T) {
	const tenYears = "2082240000000000" // and more
	for what, lie := range map[string]func(n *sim.Node){
		"a floor at the end":     func(n *sim.Node) { n.Do("SET", "redlock:floor", "9007199254740990") },
		"a floor beyond it":      func(n *sim.Node) { n.Do("SET", "redlock:floor", "9007199254740993") },
		"a floor ten years on":   func(n *sim.Node) { n.Do("SET", "redlock:floor", tenYears) },
		"a token ten years on":   func(n *sim.Node) { n.Do("ZADD", tokensName, tenYears, "job") },
		"a token at the end":     func(n *sim.Node) { n.Do("ZADD", tokensName, "9007199254740991", "job") },
		"a token beyond it":      func(n *sim.Node) { n.Do("ZADD", tokensName, "1e300", "job") },
		"a token without an end": func(n *sim.Node) { n.Do("ZADD", tokensName, "inf", "job") },
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			liar, last := fl.nodes[0], int64(0)
			look := func(_ context.Context, k *Lock) error {
				grows(t, k.Token(), last)
				last = k.Token()
				if ahead := time.UnixMicro(last).Sub(fl.nodes[1].Now()); ahead > token.MaxAhead {
					t.Errorf("%s: the token is %v ahead of the time", what, ahead)
				}
				return nil
			}
			works := func(when string, lockers ...*Locker) {
				t.Helper()
				for i := range 24 {
					ask := lockers[i%len(lockers)].Lock
					if i%2 == 0 {
						ask = lockers[i%len(lockers)].TryLock
					}
					rival := fl.nodes[1+i%4] // which has a token of another client, so that ours is raised
					rival.Do("ZADD", tokensName, "GT", fmt.Sprint(rival.Now().UnixMicro()+1000), "job")
					k, err := ask(expiring(t, time.Minute), "job")
					handedOver := async(func() error {
						if i%3 > 0 {
							return nil
						}
						return lockers[(i+1)%len(lockers)].Do(expiring(t, time.Minute), "job", look)
					})
					if err != nil {
						t.Fatalf("%s, %s: %v", what, when, err)
					}
					_ = look(t.Context(), k)
					time.Sleep(500 * ms)
					succeeds(t, k.Unlock())
					succeeds(t, <-handedOver, what, when)
				}
			}
			lie(liar)
			works("while it lies", a, b, fl.locker("c"))
			if found := a.Status(t.Context())[0].Findings; len(found) != 1 || found[0].Code != "token-ahead" {
				t.Errorf("%s: found %v", what, found)
			}
			liar.Do("DEL", "redlock:floor")
			liar.Do("ZREM", tokensName, "job")
			time.Sleep(2 * time.Minute) // the next full probe
			works("afterwards", a, b, fl.locker("d"))
			if found := a.Status(t.Context())[0].Findings; len(found) != 0 {
				t.Errorf("%s, afterwards: found %v", what, found)
			}
			fl.clean()
		})
	}
}

// Two nodes of three have dropped a token, and all clocks were set back. A client that reaches one of them, and the
// third, does not know whether that one lies: so it does not believe it, and has no vote of it.
func TestANodeHasNoVoteBelowItsFloor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.cut("a", 2)
		a := fl.locker("a")
		k := must(a.Lock(t.Context(), "job"))(t)
		dropped := k.Token()
		succeeds(t, k.Unlock())
		_ = a.Close()
		time.Sleep(3 * time.Minute)
		fl.nodes.step(-time.Hour)
		fl.cut("b", 1)
		b := fl.locker("b")
		failsSaying(t, errOf(b.TryLock(t.Context(), "job")), ErrNoQuorum, "n0:6379 failed: has dropped a token that is 5")
		found := b.Status(t.Context())[0].Findings
		if len(found) == 0 || found[0].Code != "token-ahead" || found[0].Severity != finding.Unavailable {
			t.Errorf("found %v", found)
		}
		fl.mend("b", 1)
		time.Sleep(10 * time.Second)
		k = must(b.TryLock(t.Context(), "job"))(t)
		grows(t, k.Token(), dropped)
	})
}

// A client that waits with an old token is handed the lock after one that had a larger one. Whoever drops that one
// meanwhile, the later hold's is larger.
func TestWhoeverDropsATokenALaterOneIsLarger(t *testing.T) {
	for who, drops := range map[string]func(fl *fleet){
		"a client with a shorter retention": func(fl *fleet) { _ = fl.locker("other").Close() },
		"one that knows of no longer one": func(fl *fleet) {
			now := fmt.Sprint(fl.nodes[0].Now().UnixMicro())
			fl.nodes.do("EVAL", trim.Source, "3", "redlock:floor", tokensName, "none", now, "60000000", "60000", "")
		},
		"nobody: their set has expired": func(fl *fleet) { fl.nodes.do("DEL", tokensName) },
	} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			long := WithMaxTTL(10 * time.Minute)
			k, w := must(fl.locker("a", long).Lock(t.Context(), "job"))(t), fl.locker("w", long)
			next := async(func() *Lock { return must(w.Lock(t.Context(), "job"))(t) })
			time.Sleep(5 * time.Second)
			larger := fl.nodes[0].Now().UnixMicro() // of a client that did not wait, and crashed
			fl.nodes.do("ZADD", tokensName, fmt.Sprint(larger), "job")
			time.Sleep(100 * time.Second)
			drops(fl)
			succeeds(t, k.Unlock())
			if got := (<-next).Token(); got <= larger {
				t.Errorf("%s: token %d after %d", who, got, larger)
			}
		})
	}
}

// Tokens stay for the longest retention of all clients, until a minute and its TTL after that was confirmed last. A
// client that only looks has none dropped.
func TestTheLongestRetentionCounts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		long := fl.locker("long", WithMaxTTL(10*time.Minute), WithTTL(time.Minute))
		k := must(long.Lock(t.Context(), "job"))(t)
		succeeds(t, k.Unlock())
		trims := func(want int, when string) {
			t.Helper()
			short := fl.locker("short")
			use(t, short)
			_ = short.Close()
			settleNetwork()
			equals(t, fl.knowing("job", k.Token()), want, "%s: nodes that know the token", when)
		}
		time.Sleep(15 * time.Minute)
		trims(3, "within the retention")
		_ = long.Close()
		time.Sleep(time.Minute)
		trims(3, "while a lock of that client may be left")
		time.Sleep(2 * time.Minute)
		looks := must(NewInspector(fl.urls, dialing(fl.net.Dialer("looks"))))(t)
		for range 30 {
			_, _ = looks.Inspect(t.Context(), "job")
			fl.net.Reset(sim.Link{Client: "looks"})
			time.Sleep(time.Second)
		}
		succeeds(t, looks.Close())
		equals(t, fl.knowing("job", k.Token()), 3, "nodes that know the token after somebody looked")
		_ = fl.locker("brief").Close() // which tells no settings, so the others' are as they were
		settleNetwork()
		equals(t, fl.knowing("job", k.Token()), 0, "nodes that know the token long after")
	})
}

// Where no larger token is possible on most nodes, nobody is told that all is well.
func TestTokensThatHaveComeToAnEndAreFound(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[:2].do("SET", "redlock:floor", "9007199254740992")
		l := fl.locker("a")
		failsSaying(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, "a node has dropped a token that is")
		looks := must(NewInspector(fl.urls, dialing(fl.net.Dialer("looks"))))(t) // which has no node trim
		defer looks.Close()
		settleNetwork()
		for _, st := range slices.Concat(l.Status(t.Context())[:2], looks.Status(t.Context())[:2]) {
			if len(st.Findings) != 1 || st.Findings[0].Severity != finding.Unavailable {
				t.Errorf("found %v", st.Findings)
			}
		}
		fl.nodes.do("DEL", "redlock:floor")
		time.Sleep(2 * time.Minute)
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
	})
}

// The node that answers first, and always knows a token that is a little larger, stops nobody.
func TestTheNearestNodeDoesNotRaiseTokensForEver(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		bubble(t, nodes, func(t *testing.T, fl *fleet) {
			l, near := fl.locker("a"), 10*time.Microsecond
			fl.net.SetDelay(sim.Link{Node: fl.nodes[0].Addr()}, sim.Both, sim.Delay{Min: near, Max: near + 1})
			fl.nodes[0].Alter(func(c sim.Command) (any, bool, time.Duration) {
				for _, arg := range c.Args {
					if proposed, err := strconv.ParseInt(arg, 10, 64); err == nil && slices.Contains(c.Args, "job") && len(arg) == 16 {
						return []any{[]any{int64(2), strconv.FormatInt(proposed+1, 10)}}, true, 0
					}
				}
				return nil, false, 0
			})
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock(), fmt.Sprint(nodes, " nodes"))
			held := must(l.TryLock(t.Context(), "job"))(t)
			time.AfterFunc(time.Second, func() { _ = held.Unlock() })
			waited := must(l.Lock(t.Context(), "job", WithMaxWait(5*time.Second)))(t)
			succeeds(t, waited.Unlock(), fmt.Sprint(nodes, " nodes, waited for"))
			if sent := fl.nodes[1].Calls("evalsha"); sent > 60 {
				t.Errorf("%d nodes: %d scripts", nodes, sent)
			}
		})
	}
}
