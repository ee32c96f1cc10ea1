package redlock

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// everyCall are all calls that acquire. Some return no Lock.
func everyCall(ticket string) map[string]call {
	none := func(context.Context, *Lock) error { return nil }
	all := map[string]call{
		"Adopt": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return l.Adopt(ctx, ticket, opts...)
		},
		"Once": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return nil, l.Once(ctx, "job", none, forOnce(opts)...)
		},
		"Forget": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return nil, errOf(l.Forget(ctx, "job", forOnce(opts)...))
		},
		"Do": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return nil, l.Do(ctx, "job", none, opts...)
		},
	}
	maps.Copy(all, calls)
	for name, call := range tries {
		all["try "+name] = call
	}
	return all
}

// From Shutdown on, calls that acquire fail, but for those inside a hold; all else goes on.
func TestShutdownRefusesWhatIsNew(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, other := fl.locker("a"), fl.locker("b")
		ticket := must(must(l.Lock(t.Context(), "handed"))(t).Ticket())(t)
		k := must(l.Lock(t.Context(), "held"))(t)
		dead := must(l.Lock(t.Context(), "dead"))(t)
		in, gone := newContext(t.Context(), k), newContext(t.Context(), dead)
		succeeds(t, dead.Unlock())
		foreign := newContext(t.Context(), must(other.Lock(t.Context(), "foreign"))(t))
		shut := async(func() error { return l.Shutdown(expiring(t, time.Hour)) })
		synctest.Wait()
		for name, call := range everyCall(ticket) {
			for _, ctx := range []context.Context{t.Context(), gone, foreign} {
				within(t, 0, name, func() { failsAll(t, errOf(call(ctx, l)), ErrClosed, ErrNotAcquired) })
			}
			inner, err := call(in, l)
			if succeeds(t, err, name); inner != nil {
				succeeds(t, inner.Unlock(), name)
			}
		}
		fails(t, l.Ready(t.Context()), ErrClosed, "Ready")
		equals(t, must(l.Inspect(t.Context(), "held"))(t).Owner, k.Owner(), "the owner that Inspect finds")
		for i, err := range l.List(t.Context(), "held") {
			succeeds(t, err, "List", i.Name)
		}
		equals(t, len(l.Status(t.Context())), 3, "nodes in Status")
		succeeds(t, k.Extend(t.Context()), "Extend")
		equals(t, len(shut), 0, "Shutdown has returned")
		succeeds(t, l.ForceUnlock(t.Context(), "handed", "nobody"), "ForceUnlock")
		succeeds(t, k.Unlock(), "Unlock")
		succeeds(t, <-shut)
	})
}

// What waits when Shutdown comes is told at once, but inside a hold gets its lock.
func TestShutdownEndsWaits(t *testing.T) {
	for name, wait := range calls {
		if name == "TryLock" {
			continue
		}
		for _, inside := range []bool{false, true} {
			for after := range sized(12, 3) {
				subtest(t, fmt.Sprint(name, inside, after), 3, func(t *testing.T, fl *fleet) {
					b := fl.locker("b")
					first, permit := must(b.Lock(t.Context(), "job"))(t), must(b.Semaphore("job", 1).Acquire(t.Context()))(t)
					l := fl.locker("a")
					outer := must(l.Lock(t.Context(), "outer"))(t)
					ctx := t.Context()
					if inside {
						ctx = newContext(ctx, outer)
					}
					var got *Lock
					waiting := async(func() (err error) { got, err = wait(ctx, l); return err })
					also := async(func() error { return errOf(wait(t.Context(), l)) }) // behind it, in this process
					time.Sleep(time.Duration(after*after) * 3 * ms)
					shut := async(func() error { return l.Shutdown(t.Context()) })
					within(t, 300*ms, "the wait behind it", func() { fails(t, <-also, ErrClosed, "behind it") })
					if !inside {
						within(t, 300*ms, "the wait", func() { fails(t, <-waiting, ErrClosed) })
					} else {
						time.Sleep(time.Second)
						equals(t, len(waiting), 0, "waits no longer")
						succeeds(t, first.Unlock())
						succeeds(t, permit.Unlock())
						succeeds(t, <-waiting)
						succeeds(t, outer.Unlock())
						time.Sleep(time.Minute)
						equals(t, len(shut), 0, "Shutdown has returned before the second hold ended")
						succeeds(t, got.Unlock())
					}
					_, _ = first.Unlock(), permit.Unlock()
					succeeds(t, outer.Unlock())
					within(t, 600*ms, "Shutdown", func() { succeeds(t, <-shut) })
					fl.clean()
				})
			}
		}
	}
}

// Shutdown returns when the last hold has ended, and leaves nothing.
func TestShutdownWaitsForTheLastHold(t *testing.T) {
	well := func(context.Context) error { return nil }
	for what, opts := range map[string][]LockOption{
		"renewed": nil, "not renewed": {WithTTL(90 * time.Second), WithoutRenewal()},
		"at its maximum": {WithMaxHold(59 * time.Second)}, "asked": {WithRenewWhile(well)},
	} {
		for call, lock := range calls {
			subtest(t, what+", "+call, 3, func(t *testing.T, fl *fleet) {
				l := fl.locker("a", WithMaxTTL(90*time.Second))
				k := must(lock(t.Context(), l, opts...))(t)
				time.AfterFunc(time.Minute, func() { _ = k.Unlock() })
				begun := time.Now()
				succeeds(t, l.Shutdown(t.Context()))
				between(t, time.Since(begun)-time.Minute, 0, 300*ms, "returned later than wanted by")
				fl.clean()
			})
		}
	}
}

// A hold that nobody unlocks ends with its validity, and Shutdown with that.
func TestShutdownWaitsForAHoldThatIsLost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.Lock(t.Context(), "job", WithoutRenewal()))(t)
		within(t, 10*time.Second, "Shutdown", func() { succeeds(t, l.Shutdown(t.Context())) })
		fails(t, k.Err(), ErrLost)
		fl.clean("released at its end")
	})
}

// A call in flight gets its hold, and Shutdown waits for that, too.
func TestShutdownWaitsForACallInFlight(t *testing.T) {
	for name, try := range tries {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: 50 * ms, Max: 50 * ms})
			got := async(func() *Lock { return must(try(t.Context(), l))(t) })
			time.Sleep(ms)
			shut := async(func() error { return l.Shutdown(t.Context()) })
			k := <-got
			time.Sleep(time.Minute)
			equals(t, len(shut), 0, "Shutdown has returned before the hold ended")
			unlocked := async(k.Unlock)
			time.Sleep(50 * ms)
			equals(t, l.closing.Load(), false, "closing before the release has an answer")
			succeeds(t, <-unlocked)
			succeeds(t, <-shut)
			fl.clean()
		})
	}
}

// When its context ends, Shutdown closes: the nodes keep what work may still be using.
func TestShutdownThatTakesTooLong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		var holds []*Lock
		for _, name := range []string{"d", "c", "b", "a"} {
			holds = append(holds, must(l.Lock(t.Context(), name))(t))
		}
		ctx, cancel := holds[0].Context(t.Context())
		defer cancel()
		err := l.Shutdown(expiring(t, time.Minute))
		failsSaying(t, err, context.DeadlineExceeded, "redlock: shutdown: context deadline exceeded: 4 holds left: a, b, c "+
			"and 1 more")
		fails(t, context.Cause(ctx), ErrClosed, "the context of a hold")
		for _, k := range holds {
			fails(t, k.Err(), ErrClosed)
			fl.isHeld(k.Name(), 3)
		}
		succeeds(t, l.Shutdown(cancelled(t)), "when it is closed")
		succeeds(t, fl.locker("b").Shutdown(cancelled(t)), "when nothing is left")
	})
}

// Close ends a Shutdown, and two of these wait alike.
func TestShutdownTwice(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(l *Locker, k *Lock)
		want error
	}{
		"Unlock": {func(_ *Locker, k *Lock) { _ = k.Unlock() }, nil},
		"Close":  {func(l *Locker, _ *Lock) { _ = l.Close() }, ErrClosed},
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			k := must(l.Lock(t.Context(), "job"))(t)
			first := async(func() error { return l.Shutdown(t.Context()) })
			time.Sleep(time.Minute)
			second := async(func() error { return l.Shutdown(t.Context()) })
			time.Sleep(time.Minute)
			equals(t, len(first)+len(second), 0, "have returned")
			c.do(l, k)
			within(t, 600*ms, "both", func() {
				fails(t, <-first, c.want, "the first")
				fails(t, <-second, c.want, "the second")
			})
		})
	}
}

// Whenever Shutdown comes, no hold ends with ErrClosed, all are released, and none is begun afterwards.
func TestShutdownAtAnyMoment(t *testing.T) {
	for seed := range uint64(sized(60, 20)) {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			random := rand.New(rand.NewPCG(seed, 0))
			l := fl.locker("a", WithTTL(300*ms), WithNodeTimeout(100*ms))
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: 0, Max: 5 * ms})
			var all sync.WaitGroup
			for i := range 6 {
				pause, names := time.Duration(random.Int64N(int64(200*ms))), fmt.Sprint(i%3)
				all.Go(func() {
					for {
						err := l.Do(t.Context(), names, func(ctx context.Context, _ *Lock) error {
							time.Sleep(pause)
							return l.Do(ctx, "shared", func(context.Context, *Lock) error { return nil })
						})
						if err != nil {
							failsAlone(t, err, ErrClosed, ErrLost)
							fails(t, err, ErrNotAcquired, fmt.Sprint("seed ", seed))
							return
						}
					}
				})
			}
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
			succeeds(t, l.Shutdown(t.Context()))
			fl.clean(fmt.Sprint("seed ", seed))
			all.Wait()
		})
	}
}

// A hold that reaches its maximum is kept for its work, and is not gone for a moment between.
func TestShutdownSeesAHoldThatReachesItsMaximum(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var slept time.Duration
		l := fl.locker("a")
		l.opts.clock.boot = func() time.Duration { return slept }
		k := must(l.Lock(t.Context(), "job", WithMaxHold(time.Second)))(t)
		shut := async(func() error { return l.Shutdown(t.Context()) })
		synctest.Wait()
		slept = 2 * time.Second
		fails(t, k.Err(), ErrMaxHold)
		synctest.Wait()
		equals(t, l.closing.Load(), false, "closing")
		fails(t, k.Unlock(), ErrMaxHold, "Unlock")
		succeeds(t, <-shut)
		fl.clean()
	})
}

// doing are the calls that run a function with a hold.
var doing = map[string]func(l *Locker, ctx context.Context, f func(context.Context, *Lock) error) error{
	"Do": func(l *Locker, ctx context.Context, f func(context.Context, *Lock) error) error {
		return l.Do(ctx, "job", f)
	},
	"RDo": func(l *Locker, ctx context.Context, f func(context.Context, *Lock) error) error {
		return l.RDo(ctx, "job", f)
	},
	"permit": func(l *Locker, ctx context.Context, f func(context.Context, *Lock) error) error {
		return l.Semaphore("job", 1).Do(ctx, f)
	},
	"Once": func(l *Locker, ctx context.Context, f func(context.Context, *Lock) error) error {
		return l.Once(ctx, "job", f)
	},
}

// A function that is stopping because its hold was lost is work in progress, too.
func TestShutdownWaitsForWorkWhoseHoldWasLost(t *testing.T) {
	for name, do := range doing {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l, stopped := fl.locker("a"), false
			worked := async(func() error {
				return do(l, t.Context(), func(_ context.Context, k *Lock) error {
					succeeds(t, fl.locker("b").ForceUnlock(t.Context(), k.Name(), k.Owner()))
					fails(t, k.Extend(t.Context()), ErrLost)
					time.Sleep(time.Minute)
					stopped = true
					return nil
				})
			})
			time.Sleep(time.Second)
			succeeds(t, l.Shutdown(t.Context()))
			equals(t, stopped, true, "stopped")
			fails(t, <-worked, ErrLost)
		})
	}
}

// The hold is lost at the moment at which its call is over, and fn is about to be called.
func TestShutdownWaitsForWorkThatIsAboutToBegin(t *testing.T) {
	for name, do := range doing {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			none := l.calls.none
			l.calls.none = func() {
				none()
				for _, s := range l.schedule.Sleepers() {
					h := s.(*hold)
					h.mu.Lock()
					h.becomeLost(ErrLost)
					h.mu.Unlock()
				}
				time.Sleep(time.Second) // Shutdown looks
			}
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: 20 * ms, Max: 20 * ms})
			done := async(func() error {
				return do(l, t.Context(), func(context.Context, *Lock) error { time.Sleep(time.Minute); return nil })
			})
			time.Sleep(map[bool]time.Duration{true: 50 * ms}[name == "Once"] + ms) // which reads first
			succeeds(t, l.Shutdown(t.Context()))
			synctest.Wait()
			equals(t, len(done), 1, "calls that are over")
		})
	}
}
