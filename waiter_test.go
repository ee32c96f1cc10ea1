package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/waiting"
)

// never is a back-off with which only a notification wakes a waiter.
func never(int) time.Duration { return time.Hour }

func TestFirstComeFirstServed(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		holder := must(fl.locker("holder", opts...).Lock(t.Context(), "job"))(t)
		var mu sync.Mutex
		var order []int
		var waiters sync.WaitGroup
		for i := range 10 {
			l := fl.locker(fmt.Sprint(i), append(opts, withBackoff(never))...)
			waiters.Go(func() {
				k := must(l.Lock(t.Context(), "job"))(t)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(ms)
				succeeds(t, k.Unlock())
			})
			time.Sleep(20 * ms)
		}
		released := time.Now()
		succeeds(t, holder.Unlock())
		waiters.Wait()
		between(t, time.Since(released), 0, 100*ms, "ten hand-overs")
		equals(t, fmt.Sprint(order), "[0 1 2 3 4 5 6 7 8 9]", "the order")
		fl.clean()
	})
}

func TestCancelledWaitLeavesNothing(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		holder := must(fl.locker("holder", opts...).Lock(t.Context(), "job"))(t)
		l := fl.locker("a", opts...)
		ctx := expiring(t, 500*ms)
		failsAll(t, errOf(l.Lock(ctx, "job")), context.DeadlineExceeded, ErrTaken)
		settleNetwork()
		if left := strings.Join(fl.leftovers(), " "); strings.Contains(left, "redlock:") {
			t.Errorf("left: %s", left)
		}
		succeeds(t, holder.Unlock())
		fl.clean()
	})
}

// gaveUp returns an owner under which l has waited for the lock, and waits no longer.
func gaveUp(l *Locker) string {
	w := l.waits("job")
	w.attempt.undo(0)
	return w.owner
}

// A notification may name an owner that no longer waits: its undo was executed before the hand-over.
func TestHandOverToAWaiterThatHasGivenUpIsReturned(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		other := "00000000-0000-7004-0000-000091cdc6c6"
		for _, c := range []struct {
			owner string
			want  any
		}{{gaveUp(l), nil}, {other, other}} {
			fl.nodes[1].Do("SET", "job", c.owner, "PX", 10_000)
			l.listeners.receive(notice{node: 1, inOrder: true}, c.owner+"  job")
			settleNetwork()
			equals[any](t, fl.nodes[1].Do("GET", "job"), c.want, "the key's owner after a hand-over to %s", c.owner)
		}
	})
}

// However many waiters give up, the last of them are remembered, and not many more.
func TestFewWaitersThatGaveUpAreRemembered(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		s := &fl.locker("a").listeners
		owners := make([]uuid.UUID, 3*rememberLeft)
		for i := range owners {
			owners[i] = uuid.New()
			s.leave(owners[i])
		}
		for i, owner := range owners[len(owners)-rememberLeft:] {
			if !s.left[0][owner] && !s.left[1][owner] {
				t.Fatalf("the last but %d is forgotten", rememberLeft-i-1)
			}
		}
		between(t, len(s.left[0])+len(s.left[1]), 0, 2*rememberLeft, "waiters that are remembered")
	})
}

// The waiter may have had a longer TTL than the Locker has by default, so what returns the grant is not given up after
// that.
func TestAGrantIsReturnedToANodeThatIsAwayForLong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(time.Second))
		owner := gaveUp(l)
		fl.nodes[1].Do("SET", "job", owner, "PX", 30_000)
		fl.nodes[1].Crash(true)
		settleNetwork()
		l.listeners.receive(notice{node: 1, inOrder: true}, owner+"  job")
		time.Sleep(5 * time.Second)
		fl.nodes[1].Restart()
		time.Sleep(2 * time.Second)
		equals[any](t, fl.nodes[1].Do("GET", "job"), nil, "the key's owner")
	})
}

func TestDeadWaitersDelayNobody(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		for i := range 5 {
			client := fmt.Sprintf("dead%d", i)
			l := fl.locker(client)
			go func() { _, _ = l.Lock(t.Context(), "job") }()
			time.Sleep(20 * ms)
			// As after kill -9: its connections are reset.
			fl.net.Refuse(sim.Link{Client: client})
			fl.net.Reset(sim.Link{Client: client})
		}
		l := fl.locker("living", withBackoff(never))
		got := async(func() *Lock { return must(l.Lock(t.Context(), "job"))(t) })
		time.Sleep(50 * ms)
		succeeds(t, holder.Unlock())
		within(t, 20*ms, "the hand-over", func() { succeeds(t, (<-got).Unlock()) })
	})
}

// A call looks at a thousand places, and the questions of those that wait at as many more.
func TestManyDeadWaitersStopNobody(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		held := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		b := fl.locker("b", withBackoff(func(int) time.Duration { return time.Second }))
		got := async(func() *Lock { return must(b.Lock(t.Context(), "job"))(t) })
		time.Sleep(100 * ms)
		dead := []any{"ZADD", "redlock:wait:job"}
		for i := range 1500 {
			dead = append(dead, 0, fmt.Sprintf("%08d-0000-7000-8000-000000000000 0000000000000001 0000000010000 nobody", i))
		}
		fl.nodes.do(dead...)
		succeeds(t, held.Unlock())
		settleNetwork()
		fl.isHeld("job", 0, "after the release")
		fl.nodes.each(func(n *sim.Node) { equals[any](t, n.Do("ZCARD", "redlock:wait:job"), int64(501), "places left") })
		succeeds(t, (<-got).Unlock())
		fl.clean()
	})
}

// A holder's crash, an administrator's DEL and another library's release send no notification: the waiter finds out by
// asking. The holder does not renew: that would set again what was deleted.
func TestWaitersDoNotDependOnMessages(t *testing.T) {
	const ttl = 2 * time.Second
	unlock := func(_ *fleet, holder *Lock) { _ = holder.Unlock() }
	for name, c := range map[string]struct {
		denied  string
		release func(fl *fleet, holder *Lock)
		limit   time.Duration
	}{
		"crashed holder": {"", func(fl *fleet, _ *Lock) {
			fl.net.Refuse(sim.Link{Client: "holder"})
			fl.net.Reset(sim.Link{Client: "holder"})
		}, ttl + 250*ms},
		"lost notification": {"", func(fl *fleet, holder *Lock) {
			fl.net.Drop(sim.Link{Client: "a"}, sim.Down)
			unlock(fl, holder)
			time.Sleep(50 * ms)
			fl.net.Calm()
		}, ttl},
		"deleted":                    {"", func(fl *fleet, _ *Lock) { fl.nodes.do("DEL", "job") }, 260 * ms},
		"no permission to publish":   {"publish", unlock, 260 * ms},
		"no permission to subscribe": {"subscribe", unlock, 260 * ms},
	} {
		for what, lock := range some("Lock", "RLock") {
			subtest(t, name+"/"+what, 3, func(t *testing.T, fl *fleet) {
				holder := must(fl.locker("holder", WithTTL(ttl)).Lock(t.Context(), "job", WithoutRenewal()))(t)
				if c.denied != "" {
					fl.nodes.deny(c.denied)
				}
				l := fl.locker("a")
				got := async(func() *Lock { return must(lock(t.Context(), l))(t) })
				time.Sleep(500 * ms)
				c.release(fl, holder)
				within(t, c.limit, "the take-over", func() { succeeds(t, (<-got).Unlock()) })
				if name == "lost notification" {
					time.Sleep(12 * time.Second) // what was handed over for nothing ends with its lease
				}
				fl.clean()
			})
		}
	}
}

// A node may refuse to write what a hand-over needs, as its user may have to. It tells the waiter of nothing that it
// has not written.
func TestAWaiterIsToldOfWhatIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		deny string
		lock call
	}{
		"writer": {"set", calls["Lock"]},
		"reader": {"zadd", calls["RLock"]},
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			holder := must(fl.locker("holder", WithoutFencing()).Lock(t.Context(), "job"))(t)
			l := fl.locker("a", WithoutFencing(), withBackoff(never))
			got := async(func() *Lock { return must(c.lock(t.Context(), l))(t) })
			time.Sleep(100 * ms)
			fl.nodes[:2].deny(c.deny)
			_ = holder.Unlock()
			settleNetwork()
			select {
			case k := <-got:
				t.Fatalf("two of three nodes could not give the waiter the lock, and it got %v", k)
			default:
			}
			fl.nodes[:2].deny()
			succeeds(t, (<-got).Unlock())
		})
	}
}

// The nodes cannot see that a waiter is stopped or cut off while its connection stays open. The lock is handed to it
// for a lease of a second, and then to the next one.
func TestAStoppedWaiterCostsALease(t *testing.T) {
	for name, lock := range some("Lock", "RLock") {
		t.Run(name, func(t *testing.T) {
			const stopped = 5
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
				for i := range stopped {
					l := fl.locker(fmt.Sprintf("stopped%d", i))
					go func() { _, _ = lock(t.Context(), l) }()
					time.Sleep(50 * ms)
				}
				a := fl.locker("a")
				got := async(func() *Lock { return must(a.Lock(t.Context(), "job"))(t) })
				time.Sleep(50 * ms)
				for i := range stopped {
					fl.net.Drop(sim.Link{Client: fmt.Sprintf("stopped%d", i)}, sim.Both)
				}
				succeeds(t, holder.Unlock())
				within(t, stopped*time.Second+750*ms, "the hand-over", func() { succeeds(t, (<-got).Unlock()) })
				fl.net.Calm()
			})
		})
	}
}

// What was handed over for a lease is whole soon after, and at once where nothing would extend it: for a hold that is
// not renewed, and for a ticket.
func TestALeaseBecomesWhole(t *testing.T) {
	handed := func(t *testing.T, opts []LockOption, f func(t *testing.T, fl *fleet, l *Locker, k *Lock)) {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			l := fl.locker("a")
			got := async(func() *Lock { return must(l.Lock(t.Context(), "job", opts...))(t) })
			time.Sleep(50 * ms)
			succeeds(t, holder.Unlock())
			f(t, fl, l, <-got)
		})
	}
	left := func(k *Lock) time.Duration { return time.Until(k.Deadline()).Round(time.Second) }
	t.Run("by the first extension", func(t *testing.T) {
		handed(t, nil, func(t *testing.T, fl *fleet, _ *Locker, k *Lock) {
			equals(t, left(k), time.Second, "handed over for")
			time.Sleep(200 * ms)
			equals(t, left(k), 10*time.Second, "left 200 ms later")
			time.Sleep(time.Minute)
			if err := k.Err(); err != nil || fl.holding("job") != 3 {
				t.Errorf("a minute later: %v on %d nodes, want nil on 3", err, fl.holding("job"))
			}
		})
	})
	t.Run("WithoutRenewal", func(t *testing.T) {
		handed(t, []LockOption{WithoutRenewal()}, func(t *testing.T, _ *fleet, _ *Locker, k *Lock) {
			equals(t, left(k), 10*time.Second, "handed over for")
		})
	})
	t.Run("Ticket", func(t *testing.T) {
		handed(t, nil, func(t *testing.T, fl *fleet, _ *Locker, k *Lock) {
			ticket := must(k.Ticket())(t)
			time.Sleep(8 * time.Second)
			must(fl.locker("heir").Adopt(t.Context(), ticket))(t)
		})
	})
}

// A node whose vote does not count, because it abstains by the time its message comes, does not stand in for one whose
// vote counts and may be older than the question.
func TestALeaseCountsOnlyWithItsVote(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithoutFencing())
		w := l.waits("job")
		must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		time.Sleep(5 * time.Second)
		r, asked := w.ask()
		succeeds(t, w.awaitOutcome(t.Context(), r))
		settleNetwork()
		for node, vote := range []quorum.Vote{quorum.Granted, quorum.Abstained, quorum.Abstained} {
			w.notify(notice{quorum.Answer{Vote: vote}, node, true})
		}
		for _, node := range []int{3, 4} {
			w.notify(notice{quorum.Answer{Vote: quorum.Granted}, node, false})
		}
		v := w.votes(r)
		if n := w.promote(t.Context(), &v, asked); n.step != askAgain {
			t.Errorf("given %b, basis %d: got %v, want that it asks again", v.Given, v.Basis, n)
		}
		w.undo(r)
	})
}

// The nodes keep a lease for the whole milliseconds that the channel names, so it counts for no more here.
func TestALeaseIsWhatTheNodesAreTold(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNodeTimeout(300*ms+249*time.Microsecond))
		if !strings.HasSuffix(l.listeners.channel, ":1200") || l.opts.lease() != 1200*ms {
			t.Errorf("the channel %s, and a lease of %v, want 1200 ms twice", l.listeners.channel, l.opts.lease())
		}
	})
}

// A waiter asks for a lock that has expired, and is next to older ones who are gone: the node hands it over by that
// question, and its answer counts for a TTL, so the node must keep it for that.
func TestWhatAQuestionHandsOverIsKeptForTheTTL(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for _, n := range fl.nodes {
			n.Do("SET", "job", "another", "PX", 300)
			n.Do("ZADD", "redlock:wait:job", 0, "00000000-0000-7000-8000-000000000000 0000000000000001 0000000010000 nobody")
			n.Do("SADD", "redlock:waiting", "job")
		}
		k := must(fl.locker("a").Lock(t.Context(), "job", WithoutRenewal()))(t)
		settleNetwork() // a majority was enough
		between(t, fl.holding("job"), 2, 3, "nodes that have it")
		for _, n := range fl.nodes {
			// A node on which it had not expired yet may have no key now.
			if left, _ := n.Do("PTTL", "job").(int64); left != -2 && left < 9000 {
				t.Errorf("%s keeps it for %d ms, and it counts until %v", n.Addr(), left, time.Until(k.Deadline()))
			}
		}
	})
}

// A lease counts from the waiter's last question only if the node handed the lock over after it had answered: what was
// under way when the waiter asked may be older.
func TestALeaseCountsFromBeforeTheHandOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.waits("job")
		must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		time.Sleep(5 * time.Second)
		r, asked := w.ask()
		w.notify(notice{quorum.Answer{Vote: quorum.Granted}, 0, true})
		succeeds(t, w.awaitOutcome(t.Context(), r))
		settleNetwork()
		w.notify(notice{quorum.Answer{Vote: quorum.Granted}, 1, true})
		w.notify(notice{quorum.Answer{Vote: quorum.Granted}, 2, false})
		if v := w.votes(r); v.Given != 7 || v.Basis != waiting.Notified {
			t.Errorf("given %b, basis %d, want 111, and notifications that may be older", v.Given, v.Basis)
		}
		w.notify(notice{quorum.Answer{Vote: quorum.Granted}, 2, true})
		v := w.votes(r)
		n := w.promote(t.Context(), &v, asked)
		if end := asked.local.Add(l.opts.drift.validity(time.Second, 0)); !n.grant.deadline().Equal(end) {
			t.Errorf("the hold ends at %v, want %v: a second after the question, less the drift", n.grant.deadline(), end)
		}
		w.undo(r)
	})
}

// A hand-over is not behind an answer that nobody refers to any more.
func TestAHandOverAfterTheRequestWasDropped(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.waits("job")
		must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		r, _ := w.ask()
		succeeds(t, w.awaitOutcome(t.Context(), r))
		settleNetwork()
		w.drop(r)
		for node := range fl.nodes {
			w.notify(notice{quorum.Answer{Vote: quorum.Granted}, node, true})
		}
		r = w.attempt.round(protocol.Enqueue)
		r.send(l.nodes, 0, l.opts.clock.local())
		for node := range fl.nodes {
			r.vote(node, quorum.Answer{Vote: quorum.Taken})
		}
		equals(t, w.votes(r).Basis, waiting.Notified, "the basis of the votes")
		r.Done()
		w.attempt.undo(w.attempt.asked)
	})
}

func TestOneContenderPerProcess(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		l := fl.locker("a")
		var waiters sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range 50 {
			waiters.Go(func() {
				k := must(l.Lock(t.Context(), "job"))(t)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				succeeds(t, k.Unlock())
			})
			synctest.Wait()
			time.Sleep(10 * ms)
		}
		equals[any](t, fl.nodes[0].Do("ZCARD", "redlock:wait:job"), int64(1), "contenders on the node")
		// A caller inside the local queue gives up.
		ctx := expiring(t, 20*ms)
		within(t, 20*ms, "giving up", func() { failsAll(t, errOf(l.Lock(ctx, "job")), context.DeadlineExceeded, ErrTaken) })
		succeeds(t, holder.Unlock())
		waiters.Wait()
		for i, got := range order {
			if i != got {
				t.Fatalf("the order was %v", order)
			}
		}
		fl.clean()
	})
}

// In node-redlock, a split vote of an even number of nodes was never resolved.
func TestSplitVotesAreResolved(t *testing.T) {
	for n := 2; n <= 5; n++ {
		bubble(t, n, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			// Each client reaches one half of the nodes first.
			slow := sim.Delay{Min: 30 * ms, Max: 31 * ms}
			for i := range n {
				client := "a"
				if i < n/2 {
					client = "b"
				}
				fl.net.SetDelay(link0(client, i), sim.Both, slow)
			}
			var both sync.WaitGroup
			for _, l := range []*Locker{a, b} {
				both.Go(func() {
					for range 10 {
						succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
					}
				})
			}
			within(t, 10*time.Second, "twenty holds", both.Wait)
			time.Sleep(200 * ms)
			fl.nothingLeft()
		})
	}
}

// A node's clock was far ahead, so the nodes know a token that is too far ahead to be raised. A waiter must report
// ErrNoQuorum too, and not ErrTaken: no other owner has the lock.
func TestTokenTooFarAheadIsNoQuorumForAWaiter(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		k := must(a.Lock(t.Context(), "job"))(t)
		time.AfterFunc(3*time.Second, func() {
			for _, n := range fl.nodes {
				n.Do("ZADD", tokensName, n.Now().Add(time.Hour).UnixMicro(), "job")
			}
			_ = k.Unlock()
		})
		for _, ask := range []func(context.Context, string, ...LockOption) (*Lock, error){b.Lock, a.TryLock} {
			_, err := ask(t.Context(), "job")
			if !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) ||
				!strings.Contains(fmt.Sprint(err), "a node knows a token") {
				t.Errorf("got %v, want ErrNoQuorum for a token that is too far ahead", err)
			}
			settleNetwork() // the votes are given back
		}
		fl.clean()
	})
}

// By the time of a waiter's turn, the token in its place may be older than what a node would accept that has lost or
// dropped the name's token.
func TestTokenIsRenewedAfterALongWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		k := must(a.Lock(t.Context(), "job"))(t)
		const wait = 20 * time.Second
		time.AfterFunc(wait, func() { _ = k.Unlock() })
		began := b.tokens.time(b.opts.clock.now())
		after := must(b.Lock(t.Context(), "job"))(t)
		if age := b.tokens.time(b.opts.clock.now()) - after.Token(); age > (wait / 2).Microseconds() {
			t.Errorf("the token is %d µs old, the wait began %d µs ago: want a newer token",
				age, b.tokens.time(b.opts.clock.now())-began)
		}
		for _, n := range fl.nodes[:2] {
			equals(t, fmt.Sprint(n.Do("ZSCORE", tokensName, "job")), fmt.Sprint(after.Token()), "the token that a node knows")
		}
	})
}

// A waiter knows of votes by notifications that are a TTL old, so the votes may have expired. It promotes twice: the
// first call must not make the second trust them.
func TestNotifiedVotesKeepTheirAge(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.waits("job")
		time.Sleep(l.opts.ttl)
		fl.nodes.do("SET", "job", w.owner, "PX", 100)
		for i := range 2 {
			n := w.promote(t.Context(), &waiting.Votes{Given: 3, Enough: true, Accepted: true}, l.opts.clock.now())
			if n.step != askAgain {
				t.Errorf("call %d: got %v, want that it asks again", i, n)
			}
		}
	})
}

// Waiting must not overwrite keys of other programs. A key may look absent: MGET returns nil for a list.
func TestWaitersLeaveForeignKeysAlone(t *testing.T) {
	foreign := some("Lock", "RLock", "LockAll")
	for what, first := range foreign {
		for then, second := range foreign {
			subtest(t, what+"/"+then, 3, func(t *testing.T, fl *fleet) {
				fl.nodes.do("LPUSH", "job", "theirs")
				ctx := expiring(t, 3*time.Second)
				failed := make(chan error)
				for i, wait := range []call{first, second} {
					l := fl.locker(strconv.Itoa(i))
					time.Sleep(100 * ms)
					go func() { failed <- errOf(wait(ctx, l)) }()
				}
				for range 2 {
					err := <-failed
					if !errors.Is(err, ErrTaken) || !errors.Is(err, context.DeadlineExceeded) ||
						!strings.Contains(err.Error(), "not a string") {
						t.Errorf("got %v, want ErrTaken because the key is not a string", err)
					}
				}
				for _, n := range fl.nodes {
					equals(t, fmt.Sprint(n.Do("LRANGE", "job", "0", "-1")), "[theirs]", "the list")
				}
			})
		}
	}
}

// A process that is late to its later requests knows of a name what a majority said before: that it is taken.
func TestALateWaiterSaysWhatAMajoritySaidLast(t *testing.T) {
	for _, late := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			must(fl.locker("holder", WithTTL(time.Minute)).Lock(t.Context(), "job"))(t)
			var mu sync.Mutex
			attempts, ahead := []string{}, time.Duration(0)
			c := systemClock()
			c.local = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Add(ahead)
			}
			l := fl.locker("waiter", withBackoff(func(int) time.Duration { return 100 * time.Millisecond }),
				WithObserver(func(e Event) {
					if e.Kind == EventAttempt {
						mu.Lock()
						defer mu.Unlock()
						attempts = append(attempts, e.Err.Error())
					}
				}),
				newOption(func(o *options) { o.clock = c }))
			time.AfterFunc(50*time.Millisecond, func() { fl.net.Hold(sim.Link{Client: "waiter"}, sim.Both) })
			time.AfterFunc(300*time.Millisecond, func() {
				mu.Lock()
				defer mu.Unlock()
				if late {
					ahead = 50 * time.Millisecond // the timers of what is under way come so much too late
				}
			})
			_, err := l.Lock(t.Context(), "job", WithMaxWait(450*time.Millisecond))
			_ = l.Close() // the observer has seen all
			if !errors.Is(err, ErrMaxWait) || errors.Is(err, ErrTaken) != late || len(attempts) != 2 {
				t.Errorf("late %t: got %v after %q", late, err, attempts)
			}
			if found := attempts[len(attempts)-1]; strings.Contains(found, "this process was late") != late {
				t.Errorf("late %t: the last attempt found %q", late, found)
			}
		})
	}
}

// waits returns a waiter that has not asked yet.
func (l *Locker) waits(name string) *waiter {
	p := plan{op: "lock", name: name, key: name, opts: l.opts, waits: true}
	return l.newAttempt(&p, l.tokens.time(l.opts.clock.now())).waiter()
}
