package redlock

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// What will end a hold, or does, for the holder on client a: Ending is closed before that, or with it.
func TestEndingIsClosedAheadOfTheEnd(t *testing.T) {
	const before = 4 * time.Second
	cut := func(fl *fleet, _ *Locker, _ *Lock) { fl.net.Hold(sim.Link{Client: "a"}, sim.Both) }
	for what, c := range map[string]struct {
		opts []LockOption
		do   func(*fleet, *Locker, *Lock)
		open time.Duration // how long it stays open after do; -1: for as long as one looks
		left time.Duration // then
	}{
		"renewed":           {nil, nil, -1, 0},
		"not renewed":       {[]LockOption{WithoutRenewal()}, nil, 9898*ms - before, before},
		"a maximum":         {[]LockOption{WithMaxHold(time.Minute)}, nil, time.Minute - before, before},
		"a maximum, cut":    {[]LockOption{WithMaxHold(time.Minute)}, cut, 9898*ms - before, before},
		"a shorter maximum": {[]LockOption{WithMaxHold(3 * time.Second)}, nil, 0, 3 * time.Second},
		"cut off":           {nil, cut, 9898*ms - before, before},
		"a shorter TTL":     {[]LockOption{WithTTL(3 * time.Second), WithoutRenewal()}, nil, 0, 2968 * ms},
		"Unlock":            {nil, func(_ *fleet, _ *Locker, k *Lock) { _ = k.Unlock() }, 0, 0},
		"Ticket": {nil, func(_ *fleet, _ *Locker, k *Lock) {
			_, _ = k.Ticket()
			_ = k.Unlock() // what cannot be handed over
		}, 0, 0},
		"Close": {nil, func(_ *fleet, l *Locker, _ *Lock) { _ = l.Close() }, 0, 0},
		"lost": {nil, func(fl *fleet, _ *Locker, k *Lock) {
			fl.nodes.do("FLUSHALL")
			_ = k.Extend(context.Background())
		}, 0, 0},
	} {
		for call, lock := range calls {
			subtest(t, what+", "+call, 3, func(t *testing.T, fl *fleet) {
				fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{})
				l := fl.locker("a")
				k := must(lock(t.Context(), l, c.opts...))(t)
				near, with := k.Ending(before), k.Ending(-time.Second)
				equals(t, k.Ending(before), near, "the channel of a second call")
				begun := time.Now()
				if c.do != nil {
					c.do(fl, l, k)
				}
				if c.open < 0 {
					time.Sleep(10 * time.Minute)
					equals(t, isClosed(near), false, "closed")
					succeeds(t, k.Unlock())
				}
				<-near
				if took := time.Since(begun); c.open >= 0 {
					between(t, took-c.open, -50*ms, 50*ms, "closed after %v, later than wanted by", took)
				}
				if c.left > 0 {
					between(t, time.Until(k.Deadline())-c.left, -ms, ms, "left then, more than wanted by")
					equals(t, isClosed(with), false, "the other is closed")
					<-k.Done()
				}
				synctest.Wait()
				equals(t, isClosed(with) && isClosed(k.Ending(before)), true, "closed at the end")
			})
		}
	}
}

// The last holder that warned did so for a reason: work that has begun to stop must not find the channel open again.
func TestEndingStaysClosed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		near, nearer, at := k.Ending(5*time.Second), k.Ending(2*time.Second), k.Ending(time.Hour)
		equals(t, isClosed(at), true, "with less left at once")
		fl.nodes.pause()
		<-near
		fl.nodes.resume()
		time.Sleep(time.Minute)
		succeeds(t, k.Err())
		equals(t, isClosed(k.Ending(5*time.Second)) && isClosed(k.Ending(time.Hour)), true, "closed after a renewal")
		equals(t, isClosed(nearer), false, "what was never near is closed")
		fl.nodes.pause()
		<-nearer
		between(t, time.Until(k.Deadline()), 1999*ms, 2*time.Second, "left at the second outage")
		fl.nodes.resume()
	})
}

// A hold that was handed over has a second at first, and is no hold that ends: but if it is not extended, it does.
func TestEndingOfALease(t *testing.T) {
	for _, extended := range []bool{true, false} {
		eitherWay(t, func(t *testing.T, fl *fleet) {
			first := must(fl.locker("a").Lock(t.Context(), "job"))(t)
			time.AfterFunc(100*ms, func() { _ = first.Unlock() })
			k := must(fl.locker("b").Lock(t.Context(), "job", withBackoff(never)))(t) // an answer gives more than a lease
			between(t, time.Until(k.Deadline()), 0, time.Second, "left: this must be a lease")
			near := k.Ending(5 * time.Second)
			if extended {
				time.Sleep(time.Minute)
				equals(t, isClosed(near), false, "closed while it is renewed")
				succeeds(t, k.Unlock())
				return
			}
			fl.net.Hold(sim.Link{Client: "b"}, sim.Both)
			<-near
			between(t, time.Until(k.Deadline()), 240*ms, 250*ms, "left, with the lease alone")
			<-k.Done()
			fl.net.Release(sim.Link{Client: "b"}, sim.Both)
		})
	}
}

// After a pause of the process, no timer has run yet: Ending reads the clock.
func TestEndingReadsTheClock(t *testing.T) {
	for seconds, closed := range map[int]bool{5: false, 6: true, 60: true} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			var slept time.Duration
			l := fl.locker("a")
			l.opts.clock.boot = func() time.Duration { return slept }
			k := must(l.Lock(t.Context(), "job"))(t)
			near := k.Ending(4 * time.Second)
			slept = time.Duration(seconds) * time.Second
			equals(t, isClosed(k.Ending(4*time.Second)), closed, "closed after %v", slept)
			equals(t, isClosed(near), closed, "the channel that one has, after %v", slept)
		})
	}
}

// A channel is no handle: a hold that the program has dropped ends, and warns of that.
func TestEndingOfAForgottenHold(t *testing.T) {
	collectWhenTold(t)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(3*time.Second))
		near := must(l.Lock(t.Context(), "job"))(t).Ending(time.Second)
		time.Sleep(10 * time.Second)
		equals(t, isClosed(near), false, "closed before the garbage collection")
		for range 100 { // one is enough, but for cleanups, which run in real time
			if runtime.GC(); isClosed(near) {
				break
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		equals(t, isClosed(near), true, "closed")
	})
}
