package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
)

// ErrClosed takes precedence over ctx's error, and a refused call is not counted.
func TestBegin(t *testing.T) {
	cause := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	l := &core{calls: inFlight{none: func() {}}}
	l.calls.idle = make(chan struct{})
	failsAll(t, l.begin(cancelled), context.Canceled, cause)
	succeeds(t, l.begin(t.Context()), "open")
	l.calls.refuse()
	for what, ctx := range map[string]context.Context{"closed": t.Context(), "closed and cancelled": cancelled} {
		equals(t, l.begin(ctx), ErrClosed, "%s", what)
	}
	if isClosed(l.calls.idle) {
		t.Error("idle with a call in flight")
	}
	l.calls.end()
	if !isClosed(l.calls.idle) {
		t.Error("not idle after the last call has ended")
	}
}

// A caller that gets ErrClosed from one call gets it from the next, too, even while Close is still running.
func TestNoCallBeginsDuringClose(t *testing.T) {
	for range 100 {
		bubble(t, 1, func(t *testing.T, fl *fleet) {
			must(fl.locker("b").Lock(t.Context(), "job"))(t)
			l := fl.locker("a")
			again := make(chan error, 1)
			go func() {
				_, _ = l.Lock(t.Context(), "job")
				_, err := l.TryLock(t.Context(), "free")
				again <- err
			}()
			settleNetwork()
			_ = l.Close()
			fails(t, <-again, ErrClosed)
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestClose(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		held := must(l.Lock(t.Context(), "held"))(t)
		waiting := make(chan error, 1)
		must(fl.locker("b").Lock(t.Context(), "job"))(t)
		go func() {
			_, err := l.Lock(t.Context(), "job")
			waiting <- err
		}()
		time.Sleep(100 * ms)
		within(t, 250*ms, "Close", func() { _ = l.Close() })
		fails(t, <-waiting, ErrClosed, "waiting")
		<-held.Done()
		fails(t, held.Err(), ErrClosed, "held")
		failsAll(t, held.Unlock(), ErrClosed, ErrLost)
		fails(t, errOf(l.TryLock(t.Context(), "x")), ErrClosed, "TryLock")
		succeeds(t, l.Close())
	})
}

// A connection breaks just behind a release, and Close comes before there is a new one: what it undoes gets there all
// the same.
func TestCloseWaitsForAConnectionThatIsMadeAnew(t *testing.T) {
	for after := range 60 { // ms
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(link0("a", 2), sim.Both, sim.Delay{Min: 5 * ms, Max: 5 * ms})
			l := fl.locker("a", WithTTL(30*time.Second))
			k := must(l.TryLock(t.Context(), "job"))(t)
			time.Sleep(10 * ms) // the node has given the lock
			succeeds(t, k.Unlock())
			fl.net.Reset(link0("a", 2))
			time.Sleep(time.Duration(after) * ms)
			within(t, 500*ms, "Close", func() { _ = l.Close() })
			fl.nothingLeft(fmt.Sprint(after, " ms after the reset"))
		})
	}
}

// A call is in flight until it has told its outcome and the schedule has its hold. So Close passes on the events of all
// calls, and leaves the client registered for holds that nobody has unlocked.
func TestCloseWaitsForTheEndOfCalls(t *testing.T) {
	for what, test := range map[string]struct {
		taken      bool
		after      time.Duration
		acquire    call
		events     []string
		registered int
	}{
		"a waiter":  {true, 50 * ms, calls["Lock"], []string{EventAttempt, EventWait, EventWait, EventAcquire}, 0},
		"an answer": {false, 10 * ms, calls["TryLock"], []string{EventAttempt, EventAcquire, EventEnd}, 3},
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			var closing atomic.Bool
			c := systemClock()
			c.local = func() time.Time { // the scheduler may take as long
				stack := string(debug.Stack())
				if closing.Load() && (strings.Contains(stack, ".notAcquired(") || strings.Contains(stack, ".handOut(")) {
					time.Sleep(20 * ms)
				}
				return time.Now()
			}
			l, w := fl.witnessed("a", newOption(func(o *options) { o.clock = c }))
			if test.taken {
				fl.nodes.do("SET", "job", "somebody", "PX", 60000)
			}
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{Min: 20 * ms, Max: 20 * ms})
			got := async(func() error { return errOf(test.acquire(t.Context(), l)) })
			time.Sleep(test.after)
			closing.Store(true)
			_ = l.Close()
			var kinds []string
			for _, ev := range w.take() {
				if ev.Name == "job" {
					kinds = append(kinds, ev.Kind)
				}
			}
			if !slices.Equal(kinds, test.events) {
				t.Errorf("when Close returned the observer had seen %q, want %q", kinds, test.events)
			}
			<-got
			settleNetwork()
			registered := 0
			for _, n := range fl.nodes {
				if slices.ContainsFunc(n.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:clients:") }) {
					registered++
				}
			}
			if registered != test.registered {
				t.Errorf("registered with %d nodes, want %d", registered, test.registered)
			}
		})
	}
}

// When the Locker is closed, waiters leave the queues and give back what they were granted, whatever is in flight at
// that moment. The connections close after that.
func TestCloseCleansUpAfterWaiters(t *testing.T) {
	for what, wait := range map[string]call{
		"Lock": calls["Lock"], "RLock": calls["RLock"], "Acquire": calls["Acquire"],
		"LockAll": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
			return l.LockAll(ctx, []string{"free", "job"}, opts...)
		},
	} {
		for after := 0; after < 20; after += sized(1, 4) {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				other := fl.locker("b")
				must(other.Lock(t.Context(), "job"))(t)
				must(other.Semaphore("job", 1).Acquire(t.Context()))(t)
				l := fl.locker("a", withBackoff(func(int) time.Duration {
					time.Sleep(5 * ms) // the scheduler may take as long before the waiter learns of the end
					return 30 * ms
				}))
				fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{Min: 20 * ms, Max: 20 * ms})
				waiting := async(func() error { return errOf(wait(t.Context(), l)) })
				time.Sleep(time.Duration(after) * 9 * ms)
				within(t, 500*ms, "Close", func() { _ = l.Close() })
				fails(t, <-waiting, ErrClosed, what)
				time.Sleep(50 * ms)
				for _, left := range fl.leftovers() {
					if !strings.HasSuffix(left, " job") && !strings.HasSuffix(left, " "+permitsName+"job:0") {
						t.Errorf("%s, closed after %d ms: left on the nodes: %s", what, 9*after, left)
					}
				}
			})
		}
	}
}

func TestNewDoesNotWaitForAMinority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Pause()
		fl.nodes[1].Crash(false)
		var l *Locker
		within(t, 255*ms, "New", func() { l = fl.locker("a") }) // the node timeout, and a round trip to register
		succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		fl.nodes[0].Resume()
	})
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.crash(false)
		within(t, 100*ms, "New", func() {
			l := fl.locker("a", withGuard(0))
			failsSaying(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, "refused")
			fl.nodes.restart()
			succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
		})
	})
}

// A node that accepts connections but does not answer must not delay Close, whatever connection attempt is under way.
func TestCloseDoesNotWaitForASilentNode(t *testing.T) {
	for _, timeout := range []time.Duration{20 * ms, 250 * ms, 2 * time.Second} {
		for after := range 12 {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				l := fl.locker("a", WithNodeTimeout(timeout))
				k := must(fl.locker("b").Lock(t.Context(), "job"))(t)
				ctx := expiring(t, 100*ms)
				fails(t, errOf(l.Lock(ctx, "job")), ErrTaken, "so that it subscribes")
				fl.nodes[0].Pause()
				fl.net.Reset(sim.Link{Client: "a", Node: fl.nodes[0].Addr()})
				time.Sleep(time.Duration(after*after) * 10 * ms)
				within(t, 2*timeout, fmt.Sprintf("Close at a node timeout of %s, %d", timeout, after), func() { _ = l.Close() })
				fl.nodes[0].Resume()
				_ = k.Unlock()
			})
		}
	}
}

// If the round trips of the first connection take long, New stops waiting for it, and it continues in the background.
func TestNewReturnsInTimeOverSlowLinks(t *testing.T) {
	for _, c := range []struct{ trip, timeout, limit time.Duration }{
		{900 * ms, 250 * ms, time.Second},
		{900 * ms, 500 * ms, 2 * time.Second},
		{200 * ms, 250 * ms, time.Second},
		{900 * ms, 2 * time.Second, 8 * time.Second},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: c.trip / 2, Max: c.trip / 2})
			var l *Locker
			what := fmt.Sprintf("New with round trips of %s and a node timeout of %s", c.trip, c.timeout)
			within(t, c.limit+c.limit/16, what, func() { l = fl.locker("a", WithNodeTimeout(c.timeout)) })
			if c.trip > c.timeout {
				return
			}
			time.Sleep(20 * time.Second)
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
		})
	}
}

func TestBadNodesAreRefusedWithoutTheirSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		nodes []string
		want  string // part of the error
	}{
		{nil, "no nodes"},
		{[]string{""}, "node 1: not a URL"},
		{[]string{"localhost:6379", "redis://localhost"}, "nodes 1 and 2 are the same server localhost:6379"},
		{[]string{"redis://h:1", "h:" + secret + "/@2"}, "node 2: not a URL"},
		{[]string{"redis://u:" + secret + "@h/" + secret}, "database"},
		{[]string{"redis://h:1", "redis://h:2", "redis://u:" + secret + "@H:1/5"}, "nodes 1 and 3 are the same server h:1"},
		{make([]string, quorum.MaxNodes+1), "at most 31"},
	} {
		l, err := New(c.nodes)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q: no error", c.nodes)
			continue
		}
		failsSaying(t, err, ErrInvalid, c.want)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error tells the secret: %v", c.nodes, err)
		}
	}
}

// burst makes n calls of TryLock at one moment, each for a name of its own, and returns their errors, and how long the
// last of these took.
func burst(t *testing.T, l *Locker, names string, n int) (failures []error, told time.Duration) {
	t.Helper()
	begun, errs, took := time.Now(), make([]error, n), make([]time.Duration, n)
	together(n, func(i int) {
		_, errs[i] = l.TryLock(t.Context(), names+strconv.Itoa(i))
		took[i] = time.Since(begun)
	})
	for i, err := range errs {
		if err != nil {
			failures, told = append(failures, err), max(told, took[i])
		}
	}
	return failures, told
}

// Calls for which there is no turn wait for theirs, and do not fail, if it comes in time by what the last turns took.
func TestABurstOfCallsTakesTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(time.Minute))
		for i, n := range []int{maxAsking, 2*maxAsking + 1000}[:sized(2, 1)] {
			if failures, _ := burst(t, l, fmt.Sprint(i, "-"), n); len(failures) > 0 {
				t.Errorf("%d of %d fail: %v", len(failures), n, failures[0])
			}
		}
	})
}

// A call whose turn does not come is told at once, unless nodes have become slow since. It says that it is this process
// that was late. What is let in gets its lock.
func TestACallWhoseTurnDoesNotComeBlamesNoNode(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(time.Minute), WithNodeTimeout(250*ms))
		const surplus = 100
		for i, c := range []struct {
			delay         time.Duration // of the answers
			n             int
			refused       int
			least, latest time.Duration // until they know
		}{
			{200 * ms, maxAsking + surplus, surplus, 0, 0},                      // nothing is known
			{200 * ms, maxAsking + surplus, surplus, 0, 0},                      // that they are slow
			{99 * ms, maxAsking, 0, 0, 0},                                       // that they are not
			{99 * ms, sized(2, 1)*maxAsking + surplus, sized(surplus, 0), 0, 0}, // as many again can be served in time
			{200 * ms, maxAsking + surplus, surplus, 125 * ms, 126 * ms},        // more slowly than it was known
		} {
			fl.net.SetDelay(sim.Link{}, sim.Down, sim.Delay{Min: c.delay, Max: c.delay})
			failures, told := burst(t, l, fmt.Sprint(i, "-"), c.n)
			equals(t, len(failures), c.refused, "%d: failures", i)
			between(t, told, c.least, c.latest, "%d: until they are told", i)
			const want = "redlock: lock NAME: no quorum: 0 of 3 voted, n0:6379 n1:6379 n2:6379 not asked; " +
				"this process was late: too many of its calls were ahead"
			for _, err := range failures {
				var q *QuorumError
				if !errors.As(err, &q) || !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) {
					t.Fatalf("got %v", err)
				}
				if q.Name = "NAME"; q.Error() != want {
					t.Fatalf("got %v, want %s", q, want)
				}
			}
		}
	})
}
