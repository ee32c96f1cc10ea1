package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// modes runs f with a fleet of n masters twice: with fencing tokens, and without.
func modes(t *testing.T, n int, f func(t *testing.T, fl *fleet, opts ...Option)) {
	t.Run("fenced", func(t *testing.T) {
		bubble(t, n, func(t *testing.T, fl *fleet) { f(t, fl) })
	})
	t.Run("plain", func(t *testing.T) {
		bubble(t, n, func(t *testing.T, fl *fleet) { f(t, fl, WithoutFencing()) })
	})
}

func TestLockAndUnlock(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		l := fl.locker("a", append(opts, WithPrefix("app:"))...)
		k := must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for i, n := range fl.nodes {
			equals[any](t, n.Do("GET", "app:job"), k.Owner(), "the owner on node %d", i)
			between(t, n.Do("PTTL", "app:job").(int64), 9900, 10000, "TTL on node %d, in ms", i)
		}
		if k.Name() != "job" || len(k.Owner()) != 36 || k.Err() != nil {
			t.Errorf("got %q, %q, %v", k.Name(), k.Owner(), k.Err())
		}
		between(t, time.Until(k.Deadline()), 9800*ms, 9898*ms, "validity: TTL - 1 %% - 2ms - elapsed")
		_, err := fl.locker("b", append(opts, WithPrefix("app:"))...).TryLock(t.Context(), "job")
		failsAlone(t, err, ErrTaken, ErrNoQuorum)
		succeeds(t, k.Unlock())
		fails(t, k.Err(), ErrUnlocked, "after Unlock")
		fl.settles("app:job", 0)
	})
}

// In redsync, clean-up ran on the caller's ended ctx, so the keys stayed for the TTL.
func TestCancelledAcquireLeavesNothing(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		l := fl.locker("a", opts...)
		// The nodes' answers arrive only after the caller's deadline.
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 80 * ms, Max: 81 * ms})
		ctx := expiring(t, 50*ms)
		within(t, 51*ms, "Lock", func() { fails(t, errOf(l.Lock(ctx, "job")), context.DeadlineExceeded) })
		time.Sleep(40 * ms)
		synctest.Wait()
		if fl.holding("job") == 0 {
			t.Error("the requests were not applied: this proves nothing")
		}
		time.Sleep(100 * ms)
		synctest.Wait()
		fl.isHeld("job", 0)
	})
}

func TestAcquireThatIsCancelledWithoutAnAnswerLeavesNothing(t *testing.T) {
	for what, fault := range map[string]func(nw *sim.Network){
		"requests are held": func(nw *sim.Network) { nw.Hold(sim.Link{}, sim.Up) },
		"answers are held":  func(nw *sim.Network) { nw.Hold(sim.Link{}, sim.Down) },
		"answers are lost":  func(nw *sim.Network) { nw.Drop(sim.Link{}, sim.Down) },
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			fault(fl.net)
			ctx := expiring(t, 50*ms)
			within(t, 51*ms, "Lock", func() { fails(t, errOf(l.Lock(ctx, "job")), context.DeadlineExceeded) })
			time.Sleep(100 * ms)
			fl.net.Calm()
			time.Sleep(time.Second) // a tenth of the TTL
			fl.nothingLeft()
		})
	}
}

// In redsync, a late SET was executed after the release and left an orphaned key.
func TestStragglersLeaveNoOrphans(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		l := fl.locker("a", opts...)
		fl.net.SetDelay(link0("a", 4), sim.Up, sim.Delay{Min: 30 * ms, Max: 200 * ms})
		times := sized(1000, 200)
		for i := range times {
			succeeds(t, must(l.Lock(t.Context(), fmt.Sprintf("job%d", i)))(t).Unlock())
		}
		time.Sleep(250 * ms)
		synctest.Wait()
		fl.nothingLeft()
		if fl.nodes[4].Calls("set") < int64(times) {
			t.Errorf("the slow node saw %d acquires: this proves nothing", fl.nodes[4].Calls("set"))
		}
	})
}

// In redsync, errors.Is(err, context.DeadlineExceeded) was false after the caller's deadline. In ndyakov/go-redlock,
// the timeout of a single node unwrapped to it.
func TestTheCallersDeadlineIsNotANodesTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		other := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		ctx := expiring(t, 300*ms)
		_, err := l.Lock(ctx, "job")
		failsAll(t, err, context.DeadlineExceeded, ErrTaken)
		cause := errors.New("shutting down")
		stopped, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(100*ms, func() { stop(cause) })
		failsAll(t, errOf(l.Lock(stopped, "job")), context.Canceled, cause, ErrTaken)
		succeeds(t, other.Unlock())
		fl.nodes.pause()
		_, err = l.TryLock(t.Context(), "job")
		failsAlone(t, err, ErrNoQuorum, context.DeadlineExceeded, ErrTaken)
		q, silent := quorumError(t, err), 0
		for _, n := range q.Nodes {
			if errors.Is(n, ErrNodeTimeout) {
				silent++
			}
		}
		if silent < 2 || q.Need != 2 || q.Granted != 0 || !says(err, "n0:6379 ") {
			t.Errorf("got %v", err)
		}
		done := cancelled(t)
		fails(t, errOf(l.Lock(done, "job")), context.Canceled, "ctx done before")
		fl.nodes.resume()
	})
}

func TestDo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		failed := errors.New("failed")
		fails(t, l.Do(t.Context(), "job", func(context.Context, *Lock) error { return failed }), failed, "function's error")
		func() {
			defer func() { equals(t, recover(), "oops", "recovered") }()
			_ = l.Do(t.Context(), "job", func(context.Context, *Lock) error { panic("oops") })
		}()
		fl.settles("job", 0, "after a panic")
		err := l.Do(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			fl.nodes.do("SET", "job", "thief", "PX", "60000")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		fails(t, err, ErrLost, "the hold was lost")
	})
}

func TestAMajorityThatComesTooLateIsNoHold(t *testing.T) {
	for what, lock := range some("Lock", "TryLock", "LockAll", "without tokens") {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", WithTTL(500*ms), WithNodeTimeout(2*time.Second))
			fl.net.SetDelay(sim.Link{}, sim.Down, sim.Delay{Min: 600 * ms, Max: 600 * ms})
			fails(t, errOf(lock(expiring(t, 5*time.Second), l)), ErrNoQuorum, what)
			time.Sleep(2 * time.Second)
			fl.nothingLeft(what)
		})
	}
}
