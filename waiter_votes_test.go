package redlock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/waiting"
)

// One node's answers are late, and a newcomer has got two votes of five before those nodes learnt of an older waiter.
// If the newcomer kept them, the older waiter would have to wait for the late node. The test runs without tokens: if
// nodes have accepted the newcomer's token, the older waiter needs a second round, which has to wait for that node
// anyway.
func TestNewcomerGivesItsVotesToTheOlderWaiter(t *testing.T) {
	for range 10 { // about one run in three showed the delay
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			const late = 50 * ms
			fl.net.SetDelay(link0("", 4), sim.Down, sim.Delay{Min: late, Max: late + ms})
			for _, far := range []int{2, 3} {
				fl.net.Refuse(link0("holder", far))
				fl.net.SetDelay(link0("next", far), sim.Up, sim.Delay{Min: 60 * ms, Max: 61 * ms})
			}
			k := must(fl.locker("holder", WithoutFencing()).Lock(t.Context(), "job"))(t)
			next, newcomer := fl.locker("next", WithoutFencing()), fl.locker("newcomer", WithoutFencing())
			locked := make(chan *Lock, 2)
			for _, l := range []*Locker{next, newcomer} {
				go func() { locked <- must(l.Lock(t.Context(), "job"))(t) }()
				time.Sleep(late + 10*ms)
			}
			time.Sleep(300 * ms)
			for _, want := range []*Locker{next, newcomer} {
				succeeds(t, k.Unlock())
				within(t, late/2, "the hand-over", func() { k = <-locked })
				equals(t, k.hold.locker, want, "the newcomer got the lock first")
			}
			succeeds(t, k.Unlock())
			fl.clean()
		})
	}
}

// Whatever a node answers, a waiter's pause is neither negative nor endless.
func TestNoAnswerMakesAHotLoop(t *testing.T) {
	for _, place := range []int64{0, 1, 1_000, 1 << 20, 1 << 40, 1<<63 - 1, -1, -1 << 62, -1 << 63} {
		for _, left := range []int64{1, 5_000, 1 << 40, 9223372036854, 9223372036855, 18446744073710, 1<<63 - 1, -1 << 63} {
			a := protocol.Enqueue.ReadOne([]any{int64(0), []byte("o"), left, nil, place})
			r := newRounds(quorum.OneList(3)).Get().(*round)
			r.poll.Begin()
			for i := range 3 {
				r.poll.Cast(i, a)
			}
			said := waiting.NewNotifications(3)
			v := said.Weigh(r.poll.SoFar(), 1, 1)
			backoff, seen := pollInterval(10*ms, 250*ms), waiting.History{}
			for attempts := 1; attempts < 20; attempts++ {
				p := seen.Pause(backoff(attempts), 15*time.Second)
				between(t, p.Length(&v, 0), 2*ms, 15*time.Second, "the pause at place %d, %d ms left", place, left)
			}
		}
	}
}

// A waiter that gives its votes back goes on under another owner, whose time is another one, too: that no two owners of
// a wait are the same is then certain and not only likely. An undo that arrives late releases by the owner.
func TestOwnersOfOneWaitDiffer(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithOwnerLabel(""))
		for i, n := range fl.nodes[:4] { // votes that are split between two who are older, and never come back
			n.Do("SET", "job", new(agreement.Label).Owner(int64(1+i/2), true).String(), "PX", 3_600_000)
		}
		go func() { _, _ = l.Lock(t.Context(), "job") }()
		times := make(map[string]uuid.UUID) // by the first 60 bits
		for range 60_000 {
			time.Sleep(ms)
			l.listeners.mu.Lock()
			for owner := range l.listeners.of {
				if before, known := times[owner.String()[:18]]; known && before != owner {
					t.Errorf("%s and %s have the same time", before, owner)
				}
				times[owner.String()[:18]] = owner
			}
			l.listeners.mu.Unlock()
		}
		if len(times) < 5 {
			t.Errorf("%d owners: this proves nothing", len(times))
		}
	})
}

// Clients wait for the lock without reaching enough nodes: of one list, or of one of two. They would get votes, since
// they have waited longest, but must not keep them from clients that can use them: these reach more nodes, or need
// fewer. They ask no more, and get the lock when they reach the nodes.
func TestWaitersThatCannotWinBlockNobody(t *testing.T) {
	lock, read, permit := calls["Lock"], calls["RLock"], calls["Acquire"]
	three := change{old: []int{0, 1, 2}}
	for what, c := range map[string]struct {
		change
		dead, cut []int // for everybody, for the waiter
		waits     call
		others    call
	}{
		"one list":         {three, []int{2}, []int{1}, lock, lock},
		"readers":          {three, []int{2}, []int{1}, read, lock},
		"permits":          {three, []int{2}, []int{1}, permit, permit},
		"new masters dead": {changes[1], []int{3, 4, 5}, nil, lock, lock},
		"new masters cut":  {changes[1], nil, []int{3, 4, 5}, lock, lock},
		"some cut":         {change{"", []int{0, 1, 2}, []int{2, 3, 4}}, nil, []int{3, 4}, lock, lock},
	} {
		subtest(t, what, c.size(), func(t *testing.T, fl *fleet) {
			kind := "old"
			if c.new != nil {
				kind = "both"
			}
			for _, i := range c.dead {
				fl.nodes[i].Crash(true)
			}
			fl.cut("cut off", c.cut...)
			const waiters = 20
			other := c.locker(fl, "old", "other")
			ctx := expiring(t, time.Minute)
			waited := make(chan error, waiters)
			for range waiters {
				waiter := c.locker(fl, kind, "cut off")
				go func() {
					k, err := c.waits(ctx, waiter)
					if err == nil {
						err = k.Unlock()
					}
					waited <- err
				}()
			}
			time.Sleep(time.Second)
			asked := fl.nodes[0].Calls("evalsha")
			time.Sleep(10 * time.Second)
			between(t, fl.nodes[0].Calls("evalsha")-asked, 0, 6*waiters, "requests in 10 s") // these trim, and register
			for range 100 {
				begun := time.Now()
				k := must(c.others(ctx, other))(t)
				between(t, time.Since(begun), 0, 20*ms, "the wait")
				time.Sleep(10 * ms)
				succeeds(t, k.Unlock())
			}
			for _, i := range c.dead {
				fl.nodes[i].Restart()
			}
			fl.mend("cut off", c.cut...)
			for range waiters {
				succeeds(t, <-waited, "they reach all nodes again")
			}
		})
	}
}

// Most nodes fail at once, and the vote of another comes a little later: that is no reason to keep it for the back-off.
func TestAVoteAfterAFailureShortensThePause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[2].Crash(true)
		fl.cut("cut off", 1)
		fl.net.SetDelay(link0("cut off", 0), sim.Down, sim.Delay{Min: 10 * ms, Max: 11 * ms})
		waiter := fl.locker("cut off", withBackoff(func(int) time.Duration { return 200 * ms }))
		other := fl.locker("other")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = waiter.Lock(ctx, "job") }()
		for range 20 {
			time.Sleep(130 * ms)
			within(t, 60*ms, "the lock", func() { succeeds(t, must(other.Lock(ctx, "job"))(t).Unlock()) })
		}
		cancel()
		settleNetwork()
	})
}

// A Locker whose first answers came late has an idea of the nodes' time that is behind the others'. That must not make
// it first in every queue.
func TestAClockThatIsBehindGetsNoMoreTurns(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.net.SetDelay(sim.Link{Client: "late"}, sim.Down, sim.Delay{Min: 60 * ms, Max: 60 * ms})
		lockers := []*Locker{fl.locker("late")}
		fl.net.SetDelay(sim.Link{Client: "late"}, sim.Down, sim.LAN)
		for i := range 7 {
			lockers = append(lockers, fl.locker(fmt.Sprint(i)))
		}
		ctx := expiring(t, 500*ms)
		got := make([]int, len(lockers))
		together(len(lockers), func(i int) {
			takeTurns(ctx, t, lockers[i], func(ctx context.Context, l *Locker, _ ...LockOption) (*Lock, error) {
				got[i]++
				return l.Lock(ctx, "job")
			}, ms)
		})
		most := slices.Max(got[1:])
		between(t, got[0], most/2, most*3/2, "turns of the one whose clock is behind; the others had %v", got[1:])
		between(t, most, 5, 1000, "the others' turns")
	})
}
