package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/slots"
)

func TestMaxHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		begun := time.Now()
		k := must(l.Lock(t.Context(), "job", WithTTL(time.Second), WithMaxHold(5*time.Second)))(t)
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		<-ctx.Done()
		until := k.Deadline()
		if held := time.Since(begun); held > 5*time.Second || held < 4999*ms || !until.Equal(begun.Add(5*time.Second)) {
			t.Errorf("held for %v, until %v", held, until)
		}
		fails(t, context.Cause(ctx), ErrMaxHold, "the context")
		fails(t, k.Err(), ErrMaxHold)
		fl.settles("job", 3, "before Unlock")
		now := must(l.Inspect(t.Context(), "job"))(t)
		if now.Owner != k.Owner() || now.Token != k.Token() || now.Remaining <= 0 || now.Remaining > time.Second {
			t.Errorf("Inspect says %+v", now)
		}
		extended := fl.nodes[0].Calls("pexpire")
		failsAll(t, k.Extend(t.Context()), ErrLost, ErrMaxHold)
		fails(t, errOf(k.Ticket()), ErrMaxHold, "Ticket")
		fails(t, errOf(l.Lock(newContext(t.Context(), k), "job")), ErrMaxHold, "Lock inside it")
		for range 2 {
			asked := fl.nodes[0].Calls("evalsha")
			err := k.Unlock()
			failsAll(t, err, ErrLost, ErrMaxHold)
			fl.settles("job", 0, "after Unlock")
			between(t, fl.nodes[0].Calls("evalsha")-asked, 0, 1, "requests for the release")
		}
		if more := fl.nodes[0].Calls("pexpire") - extended; more != 0 || !k.Deadline().Equal(until) {
			t.Errorf("extended %d times beyond the maximum, until %v", more, k.Deadline())
		}
	})
}

// longWork is a hold with a maximum, and work that goes on for a moment when the hold is over.
type longWork struct {
	name  string
	begin work
	next  call // gets it after that
}

// work begins, and tells when it has stopped, which is over after its hold has ended.
type work func(ctx context.Context, l *Locker, over time.Duration, opts ...LockOption) (stopped <-chan time.Time)

// inHold is what Do runs.
type inHold = func(context.Context, *Lock) error

// longWorks returns all recipes. t is failed from their goroutines.
func longWorks(t *testing.T) []longWork {
	t.Helper()
	goOn := func(done <-chan struct{}, over time.Duration, stopped chan<- time.Time) {
		<-done
		time.Sleep(over)
		stopped <- time.Now()
	}
	held := func(lock call) work {
		return func(ctx context.Context, l *Locker, over time.Duration, opts ...LockOption) <-chan time.Time {
			stopped := make(chan time.Time, 1)
			k := must(lock(ctx, l, opts...))(t)
			go func() {
				goOn(k.Done(), over, stopped)
				failsAll(t, k.Unlock(), ErrMaxHold, ErrLost)
			}()
			return stopped
		}
	}
	inside := func(do func(context.Context, *Locker, inHold, ...LockOption) error) work {
		return func(ctx context.Context, l *Locker, over time.Duration, opts ...LockOption) <-chan time.Time {
			stopped, begun := make(chan time.Time, 1), make(chan struct{})
			go func() {
				failsAll(t, do(ctx, l, func(ctx context.Context, _ *Lock) error {
					close(begun)
					goOn(ctx.Done(), over, stopped)
					return nil
				}, opts...), ErrMaxHold, ErrLost)
			}()
			<-begun
			return stopped
		}
	}
	lock, read, permit := calls["Lock"], calls["RLock"], calls["Acquire"]
	return []longWork{
		{"Lock", held(lock), lock},
		{"Lock without a token", held(calls["without tokens"]), lock},
		{"Lock, after a wait", held(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			before := must(l.Lock(ctx, "job"))(t)
			time.AfterFunc(100*ms, func() { _ = before.Unlock() })
			return l.Lock(ctx, "job", opts...)
		}), lock},
		{"Lock of a handle that joined", held(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			outer := must(l.Lock(ctx, "job", opts...))(t)
			go func() { // the outer one is unlocked at the maximum, and the inner one later
				<-outer.Done()
				fails(t, outer.Unlock(), ErrMaxHold, "Unlock of the outer handle")
			}()
			return l.Lock(newContext(ctx, outer), "job")
		}), lock},
		{"Adopt", held(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return l.Adopt(ctx, must(must(l.Lock(ctx, "job"))(t).Ticket())(t), opts...)
		}), lock},
		{"LockAll", held(calls["LockAll"]), func(ctx context.Context, l *Locker, _ ...LockOption) (*Lock, error) {
			return l.LockAll(ctx, []string{"more", "other"})
		}},
		{"RLock before a writer", held(read), lock},
		{"Lock before a reader", held(lock), read},
		{"Acquire", held(permit), permit},
		{"Do", inside(func(ctx context.Context, l *Locker, fn inHold, opts ...LockOption) error {
			return l.Do(ctx, "job", fn, opts...)
		}), lock},
		{"Do inside Do", inside(func(ctx context.Context, l *Locker, fn inHold, opts ...LockOption) error {
			return l.Do(ctx, "job", func(ctx context.Context, _ *Lock) error {
				inner := func(ctx context.Context, _ *Lock) error {
					<-ctx.Done()
					return nil
				}
				return errors.Join(l.Do(ctx, "job", inner), fn(ctx, nil))
			}, opts...)
		}), lock},
		{"RDo", inside(func(ctx context.Context, l *Locker, fn inHold, opts ...LockOption) error {
			return l.RDo(ctx, "job", fn, opts...)
		}), lock},
		{"Do with a permit", inside(func(ctx context.Context, l *Locker, fn inHold, opts ...LockOption) error {
			return l.Semaphore("job", 1).Do(ctx, fn, opts...)
		}), permit},
		{"Once", inside(func(ctx context.Context, l *Locker, fn inHold, opts ...LockOption) error {
			return l.Once(ctx, "job", fn, forOnce(opts)...)
		}), lock},
	}
}

// At the maximum the work is told, and needs a moment to stop. The nodes keep the lock until then, and give it to the
// next holder at once when it has stopped.
func TestWorkThatIsOverItsMaximumEndsBeforeTheNextBegins(t *testing.T) {
	// Within the first TTL, and after renewals.
	for _, maximum := range sized([]time.Duration{500 * ms, 7 * time.Second}, []time.Duration{500 * ms}) {
		for _, w := range longWorks(t) {
			subtest(t, fmt.Sprintf("%s, %v", w.name, maximum), 3, func(t *testing.T, fl *fleet) {
				a, b := fl.locker("a"), fl.locker("b")
				stopped := w.begin(t.Context(), a, 600*ms, WithTTL(3*time.Second), WithMaxHold(maximum))
				next := must(w.next(t.Context(), b))(t)
				select {
				case at := <-stopped:
					between(t, time.Since(at), 0, 20*ms, "from the end of the work to the next hold")
				default:
					t.Error("the next holder got it while the work went on")
				}
				succeeds(t, next.Unlock())
				settleNetwork()
				if w.name != "Once" { // which leaves its register
					fl.nothingLeft()
				}
				if a.schedule.Waits() {
					t.Error("a hold that is over is in the schedule")
				}
			})
		}
	}
}

// Work that does not stop keeps nobody out for longer than its validity, which nothing extends at the maximum.
func TestAHoldThatIsOverItsMaximumEndsOnTheNodesWithItsValidity(t *testing.T) {
	const ttl = 3 * time.Second
	for _, maximum := range sized([]time.Duration{500 * ms, 20 * time.Second}, []time.Duration{500 * ms}) {
		for _, w := range longWorks(t) {
			subtest(t, fmt.Sprintf("%s, %v", w.name, maximum), 3, func(t *testing.T, fl *fleet) {
				a, b := fl.locker("a"), fl.locker("b")
				begun := time.Now()
				if strings.Contains(w.name, "after a wait") {
					begun = begun.Add(100 * ms)
				}
				stopped := w.begin(t.Context(), a, time.Minute, WithTTL(ttl), WithMaxHold(maximum))
				next := must(w.next(t.Context(), b))(t)
				least, most := ttl-50*ms, ttl // before the TTL, with which the key expires: it was released, and handed over
				if maximum > ttl {
					least, most = maximum+ttl/2, maximum+ttl
				}
				if took := time.Since(begun); took < least || took >= most {
					t.Errorf("the next holder got it after %v; the maximum is %v, the TTL %v", took, maximum, ttl)
				}
				if a.schedule.Waits() {
					t.Error("the hold is in the schedule still")
				}
				// A release that comes too late is none of the next holder's.
				<-stopped
				settleNetwork()
				succeeds(t, next.Err())
				succeeds(t, next.Unlock())
			})
		}
	}
}

// A process that was stopped until the validity, too, had ended releases the hold as soon as it notices.
func TestTheMaximumIsNoticedAfterTheValidity(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var slept time.Duration
		l := fl.locker("a")
		l.opts.clock.boot = func() time.Duration { return slept }
		k := must(l.Lock(t.Context(), "job", WithMaxHold(time.Second)))(t)
		settleNetwork()
		slept = time.Minute
		fails(t, k.Err(), ErrMaxHold)
		fl.settles("job", 0)
	})
}

// Close leaves on the nodes what was kept for work that is over its maximum, as it leaves other holds: for the TTL.
func TestCloseLeavesAHoldThatIsOverItsMaximum(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.Lock(t.Context(), "job", WithMaxHold(time.Second)))(t)
		other := must(l.Lock(t.Context(), "other"))(t)
		<-k.Done()
		_ = l.Close()
		fl.isHeld("job", 3)
		if got := fl.holding("other"); got != 3 || !errors.Is(other.Err(), ErrClosed) {
			t.Errorf("a hold that was valid: on %d nodes, %v", got, other.Err())
		}
		fails(t, k.Unlock(), ErrMaxHold, "Unlock")
	})
}

// A node's grant may come late, after the maximum. It is a part of what the nodes keep, and is given back after the
// release only.
func TestALateGrantIsKeptWithTheHold(t *testing.T) {
	eitherWay(t, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		first := must(a.Lock(t.Context(), "job"))(t)
		time.AfterFunc(time.Second, func() {
			fl.net.SetDelay(link0("b", 2), sim.Down, sim.Delay{Min: 800 * ms, Max: 800 * ms}) // not yet a lost connection
			_ = first.Unlock()
		})
		k := must(b.Lock(t.Context(), "job", WithMaxHold(300*ms)))(t)
		<-k.Done()
		time.Sleep(time.Second)
		synctest.Wait()
		fl.isHeld("job", 3)
		_ = k.Unlock()
		time.Sleep(3 * time.Second)
		fl.nothingLeft()
		equals(t, b.listenedFor(), 0, "owners that are still listened for")
	})
}

// The last answer to the first request may come after the maximum. What the nodes that had refused it have given since
// belongs to what they keep: an extension may have counted it.
func TestALateRefusalLeavesAKeptHoldAlone(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithNodeTimeout(1400*ms)), fl.locker("b")
		fl.nodes[2].Do("SET", "job", "another", "PX", 100)
		fl.nodes[3].Do("SET", "job", "another", "PX", 1500)
		fl.net.SetDelay(link0("a", 3), sim.Down, sim.Delay{Min: 1300 * ms, Max: 1300 * ms})
		k := must(a.Lock(t.Context(), "job", WithTTL(1500*ms), WithMaxHold(1200*ms)))(t)
		time.Sleep(600 * ms) // the first extension has repaired it on node 2, and the next counts that
		fl.cut("a", 4)
		<-k.Done()
		time.Sleep(900 * ms) // the other two nodes are free then
		fl.isHeld("job", 3)
		fails(t, errOf(b.TryLock(t.Context(), "job")), ErrTaken, "before Unlock")
		fails(t, k.Unlock(), ErrMaxHold, "Unlock")
		time.Sleep(3 * time.Second)
		fl.nothingLeft()
		equals(t, a.listenedFor(), 0, "owners that are still listened for")
	})
}

// A slot of a semaphore that is kept is not free for its own process either.
func TestAPermitThatIsOverItsMaximumIsTaken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		s := fl.locker("a").Semaphore("job", 2)
		k := must(s.Acquire(t.Context(), WithMaxHold(time.Second)))(t)
		other := must(s.Acquire(t.Context()))(t)
		<-k.Done()
		fails(t, errOf(s.TryAcquire(t.Context())), ErrTaken, "while the work of the first goes on")
		equals(t, s.slots.Guess(s.locker.opts.clock.local().Add(time.Minute)), slots.None, "a slot believed to be free")
		_ = k.Unlock()
		again := must(s.TryAcquire(t.Context()))(t)
		_ = again.Unlock()
		_ = other.Unlock()
	})
}

// A value that is confirmed after the maximum comes too late: the call has nothing, and leaves nothing.
func TestAValueThatComesAfterTheMaximum(t *testing.T) {
	slow := sim.Delay{Min: 55 * ms, Max: 56 * ms}
	opts := []LockOption{WithValue("x"), WithMaxHold(200 * ms)}
	asks := map[string]func(ctx context.Context, l *Locker, ticket string) error{
		"Adopt": func(ctx context.Context, l *Locker, ticket string) error { return errOf(l.Adopt(ctx, ticket, opts...)) },
		"TryOnce": func(ctx context.Context, l *Locker, _ string) error {
			return l.TryOnce(ctx, "job", func(context.Context, *Lock) error { return nil }, forOnce(opts)...)
		},
		"Lock, which waits": func(ctx context.Context, l *Locker, _ string) error {
			return errOf(l.Lock(ctx, "job", append(opts, WithMaxHold(130*ms), WithMaxWait(time.Second))...))
		},
	}
	for name, try := range tries {
		asks[name] = func(ctx context.Context, l *Locker, _ string) error { return errOf(try(ctx, l, opts...)) }
	}
	delete(asks, "RLock")
	for name, ask := range asks {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			ticket := must(must(b.Lock(t.Context(), "handed", WithValue("b's")))(t).Ticket())(t)
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, slow)
			err := ask(t.Context(), a, ticket)
			failsSaying(t, err, ErrNotAcquired, "a majority came too late")
			failsAll(t, err, ErrNoQuorum)
			equals(t, len(quorumError(t, err).Nodes), 5, "nodes in the error")
			within(t, 120*ms, "Shutdown", func() { succeeds(t, a.Shutdown(t.Context())) })
			succeeds(t, must(b.Adopt(t.Context(), ticket))(t).Unlock(), "the ticket")
			fl.clean()
		})
	}
}
