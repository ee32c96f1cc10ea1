package redlock

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
)

// A waiter stands in the queues with its first request: it is handed the lock although it never asks again.
func TestAWaiterAsksOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		l, w := fl.witnessed("a", withBackoff(never))
		time.AfterFunc(100*ms, func() { succeeds(t, holder.Unlock()) })
		within(t, 110*ms, "the hand-over", func() { must(l.Lock(t.Context(), "job"))(t) })
		w.expect(t, EventAttempt, EventWait, EventWait, EventAcquire)
	})
}

// A request that stands leaves no place behind, whether it wins or not, and however late a node refuses it.
func TestAStandingRequestLeavesNoPlace(t *testing.T) {
	const late = 50 * ms
	for name, f := range map[string]func(t *testing.T, l *Locker, refused func()){
		"the hold ends after the last answer": func(t *testing.T, l *Locker, _ func()) {
			k := must(l.Lock(t.Context(), "job"))(t)
			time.Sleep(2 * late)
			succeeds(t, k.Unlock())
		},
		"the hold ends before it": func(t *testing.T, l *Locker, _ func()) {
			succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		},
		"the hold is given away before it": func(t *testing.T, l *Locker, _ func()) {
			ticket := must(must(l.Lock(t.Context(), "job"))(t).Ticket())(t)
			time.Sleep(2 * late)
			k := must(l.Adopt(t.Context(), ticket))(t)
			time.Sleep(l.opts.ttl) // for the place of the former owner
			succeeds(t, k.Unlock())
		},
		"the caller gives up": func(t *testing.T, l *Locker, refused func()) {
			refused()
			ctx := expiring(t, late/2)
			fails(t, errOf(l.Lock(ctx, "job")), context.DeadlineExceeded)
		},
		"it waits behind another goroutine": func(t *testing.T, l *Locker, refused func()) {
			refused()
			ctx := expiring(t, 2*late)
			for range 3 {
				go func() { _, _ = l.Lock(ctx, "job") }()
			}
			<-ctx.Done()
		},
		"the Locker is closed": func(t *testing.T, l *Locker, refused func()) {
			refused()
			time.AfterFunc(late/2, func() { _ = l.Close() })
			fails(t, errOf(l.Lock(t.Context(), "job")), ErrClosed)
		},
	} {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			refuse := func(nodes ...int) {
				for _, i := range nodes {
					fl.nodes[i].Do("SET", "job", uuid.NewString(), "PX", 150)
				}
			}
			refuse(3, 4)
			for _, i := range []int{3, 4} {
				fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: late, Max: late + ms})
			}
			f(t, l, func() { refuse(0, 1, 2) })
			time.Sleep(200 * ms)
			fl.clean()
			if l.ctx.Err() == nil {
				equals(t, l.listenedFor(), 0, "owners that are still listened for")
			}
		})
	}
}

// A hold has a bare majority, and stands in the queues of the other nodes. When these hand it the lock, it keeps their
// votes: an extension may count them, so they must not be given back as if nobody had waited for them.
func TestAGrantToALiveHoldIsKept(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		l.listeners.listen(l.ctx)
		other, key := uuid.New(), "job"
		for _, i := range []int{3, 4} {
			fl.nodes[i].Do("SET", key, other.String(), "PX", 10_000)
		}
		time.Sleep(10 * ms) // for the subscriptions
		k := must(l.Lock(t.Context(), key))(t)
		time.Sleep(10 * ms)
		b := fl.locker("b")
		b.undoOwner(protocol.Release, key, other, "", time.Second, quorum.Set(0).With(3).With(4))
		time.Sleep(10 * ms)
		for i, n := range fl.nodes {
			equals[any](t, n.Do("GET", key), k.Owner(), "the owner on node %d", i)
		}
		succeeds(t, k.Unlock())
		fl.clean()
	})
}

// listenedFor returns for how many owners the Locker expects grants, or has got them.
func (l *Locker) listenedFor() int {
	l.listeners.mu.Lock()
	defer l.listeners.mu.Unlock()
	return len(l.listeners.of) + len(l.listeners.early)
}

// A grant may be told before the outcome of the request by which the waiter stands.
func TestAGrantBeforeTheOutcomeCounts(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		a := l.newAttempt(&plan{op: "lock", name: "job", key: "job", opts: l.opts}, 0)
		l.listeners.expect(a.owner, a.listener(nil))
		l.listeners.receive(notice{node: 2, inOrder: true}, a.owner.String()+"  job")
		w := a.waiter()
		r := a.round(protocol.Enqueue)
		r.poll.Begin()
		if v := w.votes(r); v.Given != 0b100 || len(l.listeners.early) > 0 {
			t.Error("the waiter does not know of the grant")
		}
	})
}

// The first three answers of five say taken, and are from a lock that is about to be released. The last two gave the
// lock, so the waiter asks again soon, and not after the back-off.
func TestAVoteAfterTheOutcomeShortensThePause(t *testing.T) {
	for _, stands := range []bool{true, false} {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", withBackoff(func(int) time.Duration { return 200 * ms }))
			if !stands { // it then enters the queue without an attempt
				l.local.Join("job")
			}
			for i, n := range fl.nodes {
				if i < 3 {
					n.Do("SET", "job", uuid.NewString(), "PX", 5000)
					time.AfterFunc(12*ms, func() { n.Do("DEL", "job") })
				} else {
					fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: 10 * ms, Max: 11 * ms})
				}
			}
			if !stands {
				l.local.Leave("job")
			}
			synctest.Wait()
			within(t, 60*ms, "the lock", func() { must(l.Lock(t.Context(), "job"))(t) })
		})
	}
}

// Of clients that begin at one moment, one has the lock soon, also where a node is late, and where the nodes do not
// speak RESP3: then no client listens yet.
func TestOfNewcomersOneIsServedAtOnce(t *testing.T) {
	for _, c := range []struct {
		clients, runs int
		late, most    time.Duration
	}{{64, sized(3, 1), 0, 20 * ms}, {8, sized(30, 5), 50 * ms, 40 * ms}} {
		for run := range c.runs {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				for _, n := range fl.nodes {
					if run%2 == 1 {
						n.Disable("hello")
					}
				}
				lockers := make([]*Locker, c.clients)
				for i := range lockers {
					client := fmt.Sprint(i)
					lockers[i] = fl.locker(client)
					delay := sim.Delay{Min: 100 * time.Microsecond, Max: 300*time.Microsecond + time.Duration(run)*10*time.Microsecond}
					for node := range fl.nodes {
						fl.net.SetDelay(link0(client, node), sim.Up, delay)
						fl.net.SetDelay(link0(client, node), sim.Down, delay)
					}
					if c.late > 0 {
						fl.net.SetDelay(link0(client, 4), sim.Down, sim.Delay{Min: c.late, Max: c.late + ms})
					}
				}
				var first time.Duration
				var served sync.Mutex
				begun := time.Now()
				together(len(lockers), func(i int) {
					k := must(lockers[i].Lock(t.Context(), "job"))(t)
					served.Lock()
					first = cmp.Or(first, time.Since(begun))
					served.Unlock()
					succeeds(t, k.Unlock())
				})
				between(t, first, 0, c.most, "%d clients, one node %s late: the first lock", c.clients, c.late)
			})
		}
	}
}

// A node that was not asked, since it is known to be silent, has put nobody into its queue: there is nothing to leave,
// and a release need not carry a place.
func TestAHoldHasNoPlaceOnANodeThatWasNotAsked(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		placeOf := func(h *hold) string {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.tenure.attempt.member
		}
		fl.nodes[0].Pause()
		k := must(l.Lock(t.Context(), "job"))(t)
		time.Sleep(2 * time.Second) // the connection has been given up
		if placeOf(k.hold) == "" {
			t.Error("the node has been asked and may have put the hold into its queue, but the hold has no place to leave")
		}
		succeeds(t, k.Unlock())
		k = must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		equals(t, placeOf(k.hold), "", "the hold's place")
		equals(t, l.listenedFor(), 0, "owners that are listened for all the same")
	})
}

// A waiter that gets the lock by its own question has no place any more, which would count as one who waits.
func TestAHoldLeavesTheQueueWithItsQuestion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.do("SET", "job", uuid.NewString(), "PX", 500)
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		settleNetwork()
		for i, n := range fl.nodes {
			equals[any](t, n.Do("ZCARD", "redlock:wait:job"), int64(0), "places on node %d", i)
		}
		succeeds(t, k.Unlock())
	})
}
