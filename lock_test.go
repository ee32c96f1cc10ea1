package redlock

import (
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestUnlockTwiceIsHarmless(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		first := must(l.Lock(t.Context(), "job"))(t)
		succeeds(t, first.Unlock())
		second := must(l.Lock(t.Context(), "job"))(t)
		succeeds(t, first.Unlock(), "it returned nil the first time")
		settleNetwork()
		if got := fl.holding("job"); got != 3 || second.Err() != nil {
			t.Errorf("the second hold is left on %d nodes, %v", got, second.Err())
		}
	})
}

// redsync: Extend succeeded after the lock had expired and another client held it.
func TestExtendNeverBringsBackALostHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job", WithTTL(time.Second), WithoutRenewal()))(t)
		time.Sleep(1001 * ms)
		fails(t, k.Extend(t.Context()), ErrLost, "expired")
		other := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		fails(t, k.Extend(t.Context()), ErrLost, "another holder has it")
		fails(t, k.Unlock(), ErrLost, "Unlock")
		settleNetwork()
		if got := fl.holding("job"); got != 3 || other.Err() != nil {
			t.Errorf("the other holder's lock is left on %d nodes, %v", got, other.Err())
		}
	})
}

func TestExtendMovesUntil(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job", WithTTL(time.Second), WithoutRenewal()))(t)
		for range 5 {
			time.Sleep(900 * ms)
			succeeds(t, k.Extend(t.Context()))
			between(t, time.Until(k.Deadline()), 980*ms, 988*ms, "validity")
		}
		// Too few nodes answer: the hold is valid until then, and not a moment longer.
		fl.nodes[:2].pause()
		before := k.Deadline()
		within(t, 250*ms, "Extend", func() { fails(t, k.Extend(t.Context()), ErrNoQuorum) })
		if k.Err() != nil || !k.Deadline().Equal(before) {
			t.Errorf("got %v, until moved by %v", k.Err(), k.Deadline().Sub(before))
		}
		<-k.Done()
		if late := time.Since(before); late < 0 || late > ms || !errors.Is(k.Err(), ErrLost) {
			t.Errorf("ended %v after Until with %v", late, k.Err())
		}
	})
}
