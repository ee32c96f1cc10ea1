package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Waiters ask a node that has forgotten the lock before the holder does.
func TestRollingRestartKeepsAHold(t *testing.T) {
	for name, lock := range some(sized([]string{"Lock", "without tokens", "RLock"}, []string{"Lock"})...) {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			time.Sleep(15 * time.Second) // until the votes of all nodes count
			opts := []Option{withGuard(10 * time.Second), WithTTL(9 * time.Second), withRetention(5 * time.Minute)}
			k := must(lock(t.Context(), fl.locker("a", opts...)))(t)
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			for _, client := range []string{"b", "c"} {
				l := fl.locker(client, opts...)
				waiting.Go(func() { fails(t, errOf(l.Lock(ctx, "job")), ErrTaken, client) })
			}
			for range sized(2, 1) {
				for i, n := range fl.nodes {
					n.Crash(false)
					time.Sleep(500 * ms)
					n.Restart()
					time.Sleep(12 * time.Second)
					if err := k.Err(); err != nil {
						t.Fatalf("after the restart of n%d: %v", i, err)
					}
					if name == "RLock" {
						equals(t, n.Do("ZSCORE", "redlock:read:job", k.Owner()) != nil, true, "n%d, repaired", i)
						continue
					}
					equals[any](t, n.Do("GET", "job"), k.Owner(), "n%d, repaired", i)
					if k.Token() > 0 {
						equals[any](t, n.Do("ZSCORE", tokensName, "job"), fmt.Sprint(k.Token()), "n%d, repaired: token", i)
					}
				}
			}
			cancel()
			waiting.Wait()
			succeeds(t, k.Unlock())
			fl.settles("job", 0)
		})
	}
}

// A node that lost the key and has it again cannot say that no other holder had it in between: it does not vote in the
// round that repairs it. So it is with a node that lost one of several keys, or the lease of one of several readers.
func TestARepairedNodeDoesNotVoteInThatRound(t *testing.T) {
	for what, c := range map[string]struct {
		lock call
		lose func(fl *fleet, node int, k *Lock)
		left int // nodes with the key when the hold is lost and undone: it is another reader's
	}{
		"a key": {calls["Lock"], func(fl *fleet, node int, _ *Lock) { fl.nodes[node].Do("DEL", "job") }, 0},
		"one of several keys": {calls["LockAll"], func(fl *fleet, node int, _ *Lock) { // a majority has each of them
			fl.nodes[node].Do("DEL", []string{"job", "other"}[node])
		}, 0},
		"a reader's lease": {calls["RLock"], func(fl *fleet, node int, k *Lock) {
			fl.nodes[node].Do("ZREM", "redlock:read:job", k.Owner())
		}, 3},
		"the readers' key": {calls["RLock"], func(fl *fleet, node int, _ *Lock) { fl.nodes[node].Do("DEL", "job") }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			for _, lost := range []int{1, 2} {
				bubble(t, 3, func(t *testing.T, fl *fleet) {
					k := must(c.lock(t.Context(), fl.locker("a")))(t)
					if c.left > 0 {
						must(fl.locker("b").RLock(t.Context(), "job"))(t)
					}
					settleNetwork()
					for node := range lost {
						c.lose(fl, node, k)
					}
					if lost == 2 {
						fails(t, k.Extend(t.Context()), ErrLost, "two of three nodes lost it")
						fl.settles("job", c.left, "repaired")
						return
					}
					for range 2 {
						succeeds(t, k.Extend(t.Context()), "one of three nodes lost it")
						settleNetwork()
					}
					fl.nodes[1].Crash(false)
					succeeds(t, k.Extend(t.Context()), "the repaired node should count in the next round")
				})
			}
		})
	}
}

// A node that was disconnected when the lock was acquired gets the lock with the first extension, and must get the
// release, too.
func TestNodesThatAnExtensionAddedAreReleased(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		l := fl.locker("a", opts...)
		fl.net.Refuse(link0("a", 2))
		fl.net.Reset(link0("a", 2))
		settleNetwork()
		k := must(l.TryLock(t.Context(), "job"))(t)
		fl.mend("a", 2)
		time.Sleep(2 * time.Second)
		succeeds(t, k.Extend(t.Context()))
		fl.settles("job", 3, "after the extension")
		_ = k.Unlock()
		fl.settles("job", 0)
	})
}

// A node on which another holder had the lock meanwhile is not repaired: there the hold has ended.
func TestAHoldThatALaterOneReplacedIsNotRepaired(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.nodes[:2].do("DEL", "job")
		other := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		grows(t, other.Token(), k.Token())
		succeeds(t, other.Unlock())
		settleNetwork()
		fails(t, k.Extend(t.Context()), ErrLost)
		equals[any](t, fl.nodes[0].Do("EXISTS", "job"), int64(0), "repaired where another holder had the lock")
	})
}

// The hold of a holder that reaches no node ends before the keys expire. rueidislock: the holder's ctx ended 2.4 s
// after the key had expired.
func TestAPartitionedHolderLosesItsHoldInTime(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(time.Second))
		for i := range 50 {
			k := must(l.Lock(t.Context(), "job"))(t)
			time.Sleep(time.Duration(i) * 17 * ms) // at different points of the renewal period
			fl.net.Hold(sim.Link{Client: "a"}, sim.Both)
			<-k.Done()
			if late := time.Since(k.Deadline()); late < 0 || late > ms || !errors.Is(k.Err(), ErrLost) {
				t.Errorf("ended %v after Until: %v", late, k.Err())
			}
			between(t, fl.holding("job"), 3, 5, "nodes that kept the key when it ended")
			fl.net.Release(sim.Link{Client: "a"}, sim.Both)
			time.Sleep(3 * time.Second)
		}
	})
}

// A slack is a lock-delay: a holder that is cut off stops so long before anybody else has the lock, by the holder's own
// setting. After an Unlock nobody waits for it.
func TestTheSlackOfALostHoldDelaysTheNextOne(t *testing.T) {
	const slack = 3 * time.Second
	delay := WithDrift(0.01, slack)
	for what, c := range map[string]struct {
		holder, next []LockOption
		least        time.Duration // from the end of the lost hold to the next one
	}{
		"set by both":       {[]LockOption{delay}, []LockOption{delay}, slack},
		"set by the holder": {[]LockOption{delay}, nil, slack},
		"set by the next":   {nil, []LockOption{delay}, 0},
	} {
		subtest(t, what, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			next := func() <-chan *Lock {
				return async(func() *Lock { return must(b.Lock(t.Context(), "job", c.next...))(t) })
			}
			for _, held := range []time.Duration{0, time.Second, 7 * time.Second} { // before renewals, and after two
				k := must(a.Lock(t.Context(), "job", c.holder...))(t)
				time.Sleep(held)
				fl.cutAll("a")
				waiter := next()
				<-k.Done()
				ended := time.Now()
				fails(t, k.Err(), ErrLost)
				later := <-waiter
				between(t, time.Since(ended), c.least, c.least+500*ms, "%v: the next one has it after", held)
				fl.mendAll("a")
				succeeds(t, later.Unlock())
				time.Sleep(2 * time.Second) // until a is connected
			}
			k := must(a.Lock(t.Context(), "job", c.holder...))(t)
			waiter := next()
			time.Sleep(time.Second)
			succeeds(t, k.Unlock())
			within(t, 50*ms, "the next Lock after Unlock", func() { <-waiter })
		})
	}
}

// The next renewal notices that a majority of nodes does not have the key any more, or one of several.
func TestALossIsNoticed(t *testing.T) {
	for what, c := range map[string]struct {
		lock call
		lose func(fl *fleet)
		left int // keys of others on the nodes
	}{
		"deleted":        {calls["Lock"], func(fl *fleet) { fl.nodes.do("DEL", "job") }, 0},
		"taken":          {calls["Lock"], func(fl *fleet) { fl.nodes[:2].do("SET", "job", "thief", "PX", 60_000) }, 2},
		"one of several": {calls["LockAll"], func(fl *fleet) { fl.nodes[:2].do("SET", "other", "thief", "PX", 60_000) }, 2},
		"a read hold":    {calls["RLock"], func(fl *fleet) { fl.nodes[:2].do("SET", "job", "thief", "PX", 60_000) }, 2},
		"a permit":       {calls["Acquire"], func(fl *fleet) { fl.nodes.do("DEL", permitsName+"job:0") }, 0},
	} {
		t.Run(what, func(t *testing.T) {
			modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
				k := must(c.lock(t.Context(), fl.locker("a", append(opts, WithTTL(3*time.Second))...)))(t)
				settleNetwork()
				c.lose(fl)
				within(t, 1100*ms, "the loss", func() { <-k.Done() })
				fails(t, k.Err(), ErrLost)
				settleNetwork()
				equals(t, fl.holding("job")+fl.holding("other")+fl.holding(permitsName+"job:0"), c.left, "keys left")
				fails(t, k.Unlock(), ErrLost, "Unlock")
			})
		})
	}
}

func TestAForgottenHandleIsNotRenewedForEver(t *testing.T) {
	collectWhenTold(t)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log bytes.Buffer
		l := fl.locker("a", WithTTL(3*time.Second), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		func() { must(l.Lock(t.Context(), "job"))(t) }()
		func() { must(l.RLock(t.Context(), "page"))(t) }()
		kept := must(l.Lock(t.Context(), "kept"))(t)
		time.Sleep(10 * time.Second)
		for _, name := range []string{"job", "page"} {
			fl.isHeld(name, 3, "renewal stopped before the garbage collection: this proves nothing")
		}
		for range 3 {
			runtime.GC()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		fl.isHeld("job", 0, "forgotten")
		fl.isHeld("page", 0, "forgotten")
		fl.isHeld("kept", 3)
		if got := log.String(); strings.Count(got, "never unlocked") != 2 || !strings.Contains(got, "hold_renewal_test.go") {
			t.Errorf("logged %q, want a warning for each that names this file", got)
		}
		runtime.KeepAlive(kept)
	})
}

// Work often has the context of its hold and nothing else of it: while that, or one derived from it, is reachable, the
// hold is renewed. When all are gone, the end of the hold says why.
func TestAContextKeepsItsHold(t *testing.T) {
	type key struct{}
	const day = 24 * time.Hour
	var cancels []context.CancelFunc
	cancelled := func(ctx context.Context, cancel context.CancelFunc) context.Context {
		cancels = append(cancels, cancel)
		return ctx
	}
	derive := map[string]func(ctx context.Context) context.Context{
		"itself":        func(ctx context.Context) context.Context { return ctx },
		"WithValue":     func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, 1) },
		"WithCancel":    func(ctx context.Context) context.Context { return cancelled(context.WithCancel(ctx)) },
		"WithTimeout":   func(ctx context.Context) context.Context { return cancelled(context.WithTimeout(ctx, day)) },
		"WithoutCancel": context.WithoutCancel,
		"a value of a value": func(ctx context.Context) context.Context {
			return context.WithValue(cancelled(context.WithCancel(context.WithValue(ctx, key{}, 1))), key{}, 2)
		},
	}
	collectWhenTold(t)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithTTL(3*time.Second))
		kept := map[string]context.Context{}
		for name, derive := range derive {
			func() {
				ctx, _ := must(l.Lock(t.Context(), name))(t).Context(t.Context())
				kept[name] = derive(ctx) //nolint:fatcontext // each has a hold of its own
			}()
			func() { _, _ = must(l.Lock(t.Context(), "without "+name))(t).Context(t.Context()) }()
		}
		time.Sleep(10 * time.Second)
		collected := func(names ...string) (all bool) {
			for range 100 { // one is enough, but for cleanups, which run in real time
				runtime.GC()
				time.Sleep(time.Second)
				synctest.Wait()
				all = true
				for _, name := range names {
					all = all && fl.holding(name) == 0
				}
				if all {
					return true
				}
			}
			return false
		}
		var with, without []string
		for name := range derive {
			with, without = append(with, name), append(without, "without "+name)
		}
		if !collected(without...) {
			t.Error("holds of which nobody has the context are still renewed: this proves nothing")
		}
		for name, ctx := range kept {
			if name != "WithoutCancel" && ctx.Err() != nil || fl.holding(name) != 3 {
				t.Errorf("%s: it is reachable, and the hold is on %d nodes: %v", name, fl.holding(name), context.Cause(ctx))
			}
		}
		clear(kept)
		for _, cancel := range cancels {
			cancel()
		}
		cancels = nil
		if !collected(with...) {
			t.Error("holds are renewed after their contexts were collected")
		}
		settleNetwork()
		lost := map[string]error{}
		for _, ev := range w.take() {
			if ev.Kind == EventEnd {
				lost[ev.Name] = ev.Err
			}
		}
		for _, name := range append(with, without...) {
			failsSaying(t, lost[name], ErrLost, "its handle was garbage collected without Unlock")
		}
	})
}

// A hold needs no goroutine of its own.
func TestManyHoldsNeedFewGoroutines(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(3*time.Second))
		before := runtime.NumGoroutine()
		var holds []*Lock
		for i := range 100 {
			holds = append(holds, must(l.Lock(t.Context(), fmt.Sprint(i)))(t))
		}
		time.Sleep(10 * time.Second)
		between(t, runtime.NumGoroutine(), 0, before+5, "goroutines with %d holds", len(holds))
		for _, k := range holds {
			if k.Err() != nil {
				t.Fatal(k.Err())
			}
			succeeds(t, k.Unlock())
		}
	})
}

// A call for which Close no longer waits may acquire a hold after Close has ended all others. That hold ends, too.
func TestAHoldThatIsWonDuringCloseEnds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		h := must(l.try(t.Context(), plan{op: "lock", name: "job", key: "job", opts: l.opts}))(t)
		succeeds(t, l.Close())
		k := l.handOut(h.firstHandle(t.Context(), nil))
		equals(t, isClosed(k.Done()), true, "Done is closed")
		fails(t, k.Err(), ErrClosed)
		failsAll(t, k.Unlock(), ErrClosed, ErrLost)
	})
}
