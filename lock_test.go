package redlock

import (
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

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

// rueidislock: one foreign key of three blocked the lock.
func TestAForeignKeyOnAMinorityDoesNotBlock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Do("SET", "job", "somebody", "PX", 60_000)
		succeeds(t, must(fl.locker("a").TryLock(t.Context(), "job"))(t).Unlock())
		fl.settles("job", 1)
		equals[any](t, fl.nodes[0].Do("GET", "job"), "somebody", "the foreign key")
	})
}

// node-redlock: no release between tries, so that its own key blocked it.
func TestOwnKeysOfAFailedAttemptDoNotBlockTheNext(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.cut("a", 2, 3, 4)
		fails(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum)
		fl.mend("a", 2, 3, 4)
		succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		fl.clean()
	})
}

// bsm/redislock: owners were compared up to the shorter one's length, so that worker-1 released worker-12's lock.
func TestAnOwnerThatIsAPrefixOfAnotherStealsNothing(t *testing.T) {
	for what, foreign := range map[string]func(string) string{
		"longer":  func(owner string) string { return owner + "2" },
		"shorter": func(owner string) string { return owner[:len(owner)-1] },
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", WithoutRenewal())
			k := must(l.Lock(t.Context(), "job"))(t)
			settleNetwork()
			other := foreign(k.Owner())
			fl.nodes.do("SET", "job", other, "PX", 60_000)
			fails(t, k.Extend(t.Context()), ErrLost)
			_ = k.Unlock() // lost, as Extend said
			fails(t, errOf(l.TryLock(t.Context(), "job")), ErrTaken)
			settleNetwork()
			for _, n := range fl.nodes {
				equals[any](t, n.Do("GET", "job"), other, "the other's key on %s", n.Addr())
			}
		})
	}
}

func TestTakenIsNotUnreachable(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes.do("SET", "job", "somebody", "PX", 60_000)
		failsAlone(t, errOf(l.TryLock(t.Context(), "job")), ErrTaken, ErrNoQuorum)
		fl.cut("a", 0, 1, 2)
		failsAlone(t, errOf(l.TryLock(t.Context(), "free")), ErrNoQuorum, ErrTaken)
		// Taken wherever one can look, and too few to look at: nobody knows.
		fails(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum)
	})
}

// One node was never ours and two are silent now: the other two confirm, and nobody can say that a majority has been
// lost.
func TestAMinorityThatNeverGrantedDoesNotMakeAHoldLost(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[2].Do("SET", "job", "somebody", "PX", 60_000)
		k := must(fl.locker("a", WithoutRenewal()).Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.nodes[:2].pause()
		failsAlone(t, k.Extend(t.Context()), ErrNoQuorum, ErrLost, ErrTaken)
		succeeds(t, k.Err())
		failsAlone(t, k.Unlock(), ErrNoQuorum, ErrLost, ErrTaken)
		fl.nodes[:2].resume()
	})
}
