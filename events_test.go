package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// witness collects events.
type witness struct {
	mu   sync.Mutex // guards seen
	seen []Event
}

func (w *witness) see(ev Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ev.Kind != EventClock {
		w.seen = append(w.seen, ev)
	}
}

// take returns the events since the last call.
func (w *witness) take() []Event {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// expect takes the events and checks their kinds, in order.
func (w *witness) expect(t *testing.T, want ...string) []Event {
	t.Helper()
	seen := w.take()
	var got []string
	for _, ev := range seen {
		got = append(got, ev.Kind)
		if ev.Time.IsZero() || ev.Dropped != 0 {
			t.Errorf("%s: time %v, %d dropped", ev.Kind, ev.Time, ev.Dropped)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	return seen
}

// wait takes the events, and returns both of the only wait that is among them, just before the call's outcome.
func (w *witness) wait(t *testing.T) (begun, over Event) {
	t.Helper()
	seen := slices.DeleteFunc(w.take(), func(ev Event) bool { return ev.Kind != EventWait && ev.Kind != EventAcquire })
	if len(seen) != 3 || seen[0].Kind != EventWait || seen[1].Kind != EventWait || seen[2].Kind != EventAcquire {
		t.Fatalf("got %+v, want a wait that begins and is over, and what came of it", seen)
	}
	begun, over = seen[0], seen[1]
	equals(t, begun.Duration, 0, "how long it waited at its beginning")
	equals(t, over.Duration, over.Time.Sub(begun.Time), "how long it waited")
	equals(t, over.Err, seen[2].Err, "what ended it")
	if name := seen[2].Name; begun.Name != name || over.Name != name || begun.Context != seen[2].Context {
		t.Errorf("got %+v and %+v, want the name and context of %+v", begun, over, seen[2])
	}
	return begun, over
}

// witnessed returns a Locker with an observer that has already seen all nodes come up.
func (fl *fleet) witnessed(client string, opts ...Option) (*Locker, *witness) {
	fl.t.Helper()
	w := &witness{}
	l := fl.locker(client, append(opts, WithObserver(w.see))...)
	up := make([]string, len(fl.nodes))
	for i := range up {
		up[i] = EventNode
	}
	var addrs []string
	for _, ev := range w.expect(fl.t, up...) {
		addrs = append(addrs, ev.Node)
	}
	if slices.Sort(addrs); addrs[0] != "n0:6379" || len(slices.Compact(addrs)) != len(fl.nodes) {
		fl.t.Errorf("up: got %q, want every node once", addrs)
	}
	return l, w
}

func TestEventsOfAHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		type key struct{}
		l, w := fl.witnessed("a", WithTTL(3*time.Second))
		ctx := context.WithValue(t.Context(), key{}, "mine")
		k := must(l.Lock(ctx, "job"))(t)
		until := k.Deadline()
		seen := w.expect(t, EventAttempt, EventAcquire)
		attempt, acquired := seen[0], seen[1]
		if attempt.Op != "lock" || attempt.Name != "job" || attempt.Err != nil || attempt.Owner != "" {
			t.Errorf("attempt: got %+v", attempt)
		}
		if acquired.Op != "lock" || acquired.Owner != k.Owner() || acquired.Token != k.Token() ||
			!acquired.Until.Equal(until) {
			t.Errorf("acquired: got %+v, want owner, token and end of the hold", acquired)
		}

		time.Sleep(1500 * ms)
		renewed := w.expect(t, EventRenew)[0]
		if renewed.Op != "extend" || renewed.Token != k.Token() || !renewed.Until.Equal(k.Deadline()) ||
			!renewed.Until.After(until) {
			t.Errorf("renewed: got %+v", renewed)
		}
		succeeds(t, k.Extend(t.Context()))
		w.expect(t, EventRenew)

		succeeds(t, k.Unlock())
		released := w.expect(t, EventEnd)[0]
		if released.Err != nil || released.Owner != k.Owner() || released.Duration < 1500*ms || released.Duration > 1600*ms {
			t.Errorf("released: got %+v, want no error after 1.5s", released)
		}
		for _, ev := range append(seen, renewed, released) {
			if ev.Name != "job" || ev.Context.Value(key{}) != "mine" {
				t.Errorf("%s: got the name %q and the context %v", ev.Kind, ev.Name, ev.Context)
			}
		}
		_ = k.Unlock()
		w.expect(t) // a second Unlock is no event
	})
}

// The events of a refusal say for each node which owner has the lock.
func TestEventsOfARefusal(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		holder := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		l, w := fl.witnessed("b")
		_, _ = l.TryLock(t.Context(), "job")
		for _, ev := range w.expect(t, EventAttempt, EventAcquire) {
			if !errors.Is(ev.Err, ErrTaken) || len(ev.Nodes) != 3 ||
				!slices.ContainsFunc(ev.Nodes, func(n NodeError) bool { return n.Owner == holder.Owner() }) || ev.Token != 0 {
				t.Errorf("%s: got %+v, want taken by %s", ev.Kind, ev, holder.Owner())
			}
		}

		ctx := expiring(t, time.Second)
		begun := time.Now()
		_, err := l.Lock(ctx, "job")
		seen := w.take()
		last := seen[len(seen)-1]
		if last.Kind != EventAcquire || !errors.Is(last.Err, context.DeadlineExceeded) ||
			last.Err.Error() != err.Error() || last.Duration != time.Since(begun) {
			t.Errorf("got %+v, want the error %v after %v", last, err, time.Since(begun))
		}
		for _, ev := range seen[:len(seen)-1] {
			if ev.Kind != EventAttempt && ev.Kind != EventWait || !errors.Is(ev.Err, ErrTaken) {
				t.Errorf("while waiting: got %+v", ev)
			}
		}
		if len(seen) < 6 {
			t.Errorf("got %d events of a wait, want several attempts", len(seen))
		}
		_, err = l.TryLock(ctx, "job")
		if ev := w.expect(t, EventAcquire)[0]; !errors.Is(ev.Err, context.DeadlineExceeded) || ev.Nodes != nil ||
			err == nil {
			t.Errorf("context done: got %+v", ev)
		}
	})
}

// A wait is told of when it begins and when it is over, whatever is waited for and whatever ends it.
func TestEventsOfAWait(t *testing.T) {
	for how, end := range map[string]struct {
		by   func(l *Locker, release, cancel func())
		want error
	}{
		"the lock":    {func(_ *Locker, release, _ func()) { release() }, nil},
		"ctx":         {func(_ *Locker, _, cancel func()) { cancel() }, context.Canceled},
		"Close":       {func(l *Locker, _, _ func()) { _ = l.Close() }, ErrClosed},
		"WithMaxWait": {func(*Locker, func(), func()) {}, ErrMaxWait},
	} {
		for what, wait := range waits {
			subtest(t, what+", "+how, 3, func(t *testing.T, fl *fleet) {
				release := holdAll(t, fl.locker("holder"))
				l, w := fl.witnessed("a")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(500*ms, func() { end.by(l, release, cancel) })
				_ = wait(ctx, l, WithMaxWait(time.Second))
				settleNetwork() // for the release of all
				begun, over := w.wait(t)
				fails(t, begun.Err, ErrTaken, "the attempt")
				equals(t, len(begun.Nodes), 3, "nodes of the attempt")
				fails(t, over.Err, end.want, "the end")
			})
		}
	}
}

// A call that is behind others of its process waits, too. One that comes when they have gone does not, unless somebody
// else has the lock.
func TestEventsOfAWaitBehindOthers(t *testing.T) {
	for what, of := range callersOf {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			others := of(fl.locker("others"))
			holder := must(others(t.Context()))(t)
			l, w := fl.witnessed("a", withBackoff(never))
			acquire := of(l)
			first := async(func() *Lock { k, _ := acquire(t.Context()); return k })
			time.Sleep(100 * ms)
			w.take()
			_, _ = acquire(expiring(t, 50*ms))
			if begun, _ := w.wait(t); begun.Err != nil || begun.Nodes != nil {
				t.Errorf("got %+v, want no attempt", begun)
			}
			succeeds(t, holder.Unlock())
			succeeds(t, (<-first).Unlock())
			w.take()
			succeeds(t, must(acquire(t.Context()))(t).Unlock())
			w.expect(t, EventAttempt, EventAcquire, EventEnd)
			must(others(t.Context()))(t)
			_, _ = acquire(expiring(t, 50*ms))
			begun, _ := w.wait(t)
			fails(t, begun.Err, ErrTaken)
		})
	}
}

// A slow observer gets both events of a wait or neither. A wait whose beginning was dropped is told of with a later
// attempt.
func TestWaitsOfASlowObserver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		var w witness
		stuck := make(chan struct{})
		l := fl.locker("a", WithObserver(func(ev Event) { <-stuck; w.see(ev) }))
		l.events.setLimit(60)                                   // of 80: 40 attempts, and a wait behind each
		time.AfterFunc(500*ms, func() { l.events.setLimit(0) }) // as when losses fill the queue
		together(40, func(int) { _, _ = l.Lock(t.Context(), "job", WithMaxWait(time.Second)) })
		close(stuck)
		begun, over := 0, 0
		for _, ev := range w.take() {
			switch {
			case ev.endsWait():
				over++
			case ev.Kind == EventWait:
				begun++
			}
		}
		if begun != over || begun == 0 || begun == 40 {
			t.Errorf("%d waits began and %d ended, want some, and as many", begun, over)
		}

		l.events.setLimit(0)
		time.AfterFunc(500*ms, func() { l.events.setLimit(maxEvents) })
		_, _ = l.Lock(t.Context(), "job", WithMaxWait(time.Second))
		seen := slices.DeleteFunc(w.take(), func(ev Event) bool { return ev.Kind != EventWait })
		if len(seen) != 2 || seen[0].Duration != 0 {
			t.Fatalf("got %+v, want both events of a wait", seen)
		}
		between(t, seen[1].Time.Sub(seen[0].Time), 100*ms, 500*ms, "since it was told of")
		between(t, seen[1].Duration, 950*ms, time.Second, "since it began")
	})
}

func TestEventsOfALoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithTTL(3*time.Second))
		k := must(l.Lock(t.Context(), "job"))(t)
		w.expect(t, EventAttempt, EventAcquire)
		fl.nodes[:2].pause()
		<-k.Done()
		seen := w.take()
		count := map[string]int{}
		for _, ev := range seen {
			count[ev.Kind]++
		}
		if count[EventNode] != 2 || count[EventRenew] < 2 || count[EventEnd] != 1 ||
			len(seen) != count[EventRenew]+3 {
			t.Fatalf("got %v, want two nodes down, renewals that failed, and one loss", count)
		}
		for _, ev := range seen {
			switch ev.Kind {
			case EventNode:
				if !errors.Is(ev.Err, ErrNodeTimeout) || ev.Node == "n2:6379" || ev.Context != nil {
					t.Errorf("down: got %+v", ev)
				}
			case EventRenew:
				if !errors.Is(ev.Err, ErrNoQuorum) || len(ev.Nodes) != 3 || !ev.Until.Equal(k.Deadline()) || ev.Op != "extend" {
					t.Errorf("not renewed: got %+v", ev)
				}
			default:
			}
		}
		if last := seen[len(seen)-1]; last.Kind != EventEnd || !errors.Is(last.Err, ErrLost) || last.Duration < 2900*ms ||
			last.Token != k.Token() {
			t.Errorf("the last: got %+v, want the loss", last)
		}
		fl.nodes[:2].resume()
		_ = k.Unlock()
		settleNetwork()
		w.expect(t, EventNode, EventNode)
	})
}

// The observer and the caller get the same error, and it does not change after that: -race once found a reason here
// that was patched after the error had gone to the observer.
func TestObserverAndCallerSeeTheSameError(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		said := make(chan string, 20)
		l := fl.locker("a", WithTTL(3*time.Second), WithoutRenewal(), WithObserver(func(ev Event) {
			if ev.Kind == EventRenew {
				said <- ev.Err.Error()
			}
		}))
		for i := range 20 {
			name := fmt.Sprint("job", i)
			k := must(l.Lock(t.Context(), name))(t)
			fl.nodes[:2].do("SET", name, "thief", "PX", "60000")
			err := k.Extend(t.Context())
			failsAlone(t, err, ErrLost, ErrTaken)
			equals(t, <-said, err.Error(), "the observer was told, and the caller")
		}
	})
}

// An extension that the caller cancels is no loss, even if the cause of its context is ErrLost.
func TestACancelledExtensionIsNoLoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.Lock(t.Context(), "job"))(t)
		fl.nodes[:2].pause()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*ms, func() { cancel(ErrLost) })
		failsAll(t, k.Extend(ctx), ErrNoQuorum, context.Canceled)
		succeeds(t, k.Err(), "the hold has ended")
		fl.nodes[:2].resume()
		succeeds(t, k.Unlock())
	})
}

// A node that lost its data is repaired by renewals, abstains, and comes back.
func TestEventsOfARestart(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithTTL(3*time.Second))
		k := must(l.Lock(t.Context(), "job"))(t)
		w.expect(t, EventAttempt, EventAcquire)
		fl.nodes[1].Crash(false)
		time.Sleep(500 * ms)
		if ev := w.expect(t, EventNode)[0]; ev.Node != "n1:6379" || !errors.Is(ev.Err, ErrNodeDown) {
			t.Errorf("got %+v", ev)
		}
		fl.nodes[1].Restart()
		time.Sleep(5 * time.Second)
		var away, repaired *Event
		seen := w.take()
		for i, ev := range seen {
			switch ev.Kind {
			case EventRenew:
			case EventNode:
				away = &seen[i]
			case EventRepair:
				repaired = &seen[i]
			default:
				t.Errorf("got %+v", ev)
			}
		}
		if away == nil || away.Node != "n1:6379" || !errors.Is(away.Err, ErrNodeAbstains) {
			t.Errorf("got %+v, want the node as abstaining", away)
		}
		if repaired == nil || len(repaired.Nodes) != 1 || repaired.Nodes[0].Addr != "n1:6379" || repaired.Token != k.Token() {
			t.Errorf("got %+v, want the node as repaired", repaired)
		}
		time.Sleep(time.Minute)
		up := slices.DeleteFunc(w.take(), func(ev Event) bool { return ev.Kind == EventRenew })
		if len(up) != 1 || up[0].Kind != EventNode || up[0].Node != "n1:6379" {
			t.Errorf("after the guard period: got %+v, want the node as up", up)
		}
		runtime.KeepAlive(k) // a hold without a handle is not renewed
	})
}

func TestEventsOfEveryEnd(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithoutRenewal())
		k := must(l.Lock(t.Context(), "handed"))(t)
		ticket := must(k.Ticket())(t)
		seen := w.expect(t, EventAttempt, EventAcquire, EventEnd)
		equals(t, seen[2].Err, errHandedOver, "ticket")
		k = must(l.Adopt(t.Context(), ticket))(t)
		if seen = w.expect(t, EventAttempt, EventAcquire); seen[1].Op != "adopt" {
			t.Errorf("adopt: got %+v", seen[1])
		}
		_, _ = l.Adopt(t.Context(), ticket)
		w.expect(t, EventAttempt, EventAcquire)

		fl.nodes[:2].pause()
		fails(t, k.Unlock(), ErrNoQuorum)
		seen = w.expect(t, EventNode, EventNode, EventEnd)
		if !errors.Is(seen[2].Err, ErrNoQuorum) || len(seen[2].Nodes) != 3 || seen[2].Op != "unlock" {
			t.Errorf("an unlock that failed: got %+v", seen[2])
		}
		fl.nodes[:2].resume()
		settleNetwork()
		w.expect(t, EventNode, EventNode)

		limited := must(l.Lock(t.Context(), "limited", WithMaxHold(4*time.Second)))(t)
		<-limited.Done()
		seen = w.expect(t, EventAttempt, EventAcquire, EventEnd)
		equals(t, seen[2].Err, ErrMaxHold, "max hold")
		_ = limited.Unlock() // releases it, and is no second end
		must(l.Lock(t.Context(), "closed"))(t)
		w.expect(t, EventAttempt, EventAcquire)
		_ = l.Close()
		equals(t, w.expect(t, EventEnd)[0].Err, ErrClosed, "close")
	})
}

// A hold of several names has the events of one hold; the steps towards it only show as attempts.
func TestEventsOfSeveralNames(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a")
		first := must(fl.locker("b").Lock(t.Context(), "y"))(t)
		time.AfterFunc(100*ms, func() { _ = first.Unlock() })
		k := must(l.LockAll(t.Context(), []string{"z", "x", "y"}))(t)
		succeeds(t, k.Unlock())
		settleNetwork()
		seen := w.take()
		last := seen[max(0, len(seen)-2):]
		if len(last) != 2 || last[0].Kind != EventAcquire || last[1].Kind != EventEnd || last[0].Name != k.Name() ||
			last[1].Token != k.Token() {
			t.Fatalf("got %+v, want that %s was acquired and released", seen, k.Name())
		}
		for _, ev := range seen[:len(seen)-2] {
			if ev.Kind != EventAttempt && ev.Kind != EventWait || ev.Name != k.Name() {
				t.Errorf("on the way: got %+v", ev)
			}
		}
	})
}

// setLimit sets how many events may be queued.
func (e *events) setLimit(places int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limit = places
}

// stuck returns a Locker whose observer blocks until free is called, and what it has seen by then.
func (fl *fleet) stuck(places int, opts ...Option) (l *Locker, seen, dropped *int, free func()) {
	seen, dropped = new(int), new(int)
	stuck := make(chan struct{})
	l = fl.locker("a", append(opts, WithObserver(func(ev Event) {
		<-stuck
		*seen, *dropped = *seen+1, *dropped+ev.Dropped
	}))...)
	l.events.setLimit(places)
	return l, seen, dropped, func() {
		close(stuck)
		synctest.Wait()
	}
}

// An observer that blocks delays no call, and Close only for a moment. The events that it misses are counted.
func TestASlowObserver(t *testing.T) {
	const places = 200
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, seen, dropped, free := fl.stuck(places, WithTTL(3*time.Second))
		kept := must(l.Lock(t.Context(), "kept"))(t)
		const cycles = 200 // of three events each
		for range cycles {
			within(t, 100*ms, "a cycle", func() {
				succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
			})
		}
		time.Sleep(10 * time.Second)
		succeeds(t, kept.Err(), "a hold that must be renewed")
		within(t, 250*ms, "Close", func() { _ = l.Close() })
		free()
		if *seen != places+1 || *dropped != 0 {
			t.Errorf("got %d events, %d dropped among them, want the %d that were queued and the one that it blocked in",
				*seen, *dropped, places)
		}
	})
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l, seen, dropped, free := fl.stuck(places)
		cycle := func() { succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock()) }
		for range 100 {
			cycle()
		}
		free()
		before := *seen + *dropped
		cycle()
		synctest.Wait()
		if *seen != places+1+3 || before+3 > *seen+*dropped || *seen+*dropped < 3*101 {
			t.Errorf("got %d events and %d dropped, want all of 101 cycles in one or the other", *seen, *dropped)
		}
	})
}

// An observer may use the Locker.
func TestAnObserverMayLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var l *Locker
		ready := make(chan struct{})
		var got error
		l = fl.locker("a", WithObserver(func(ev Event) {
			<-ready
			if ev.Kind == EventAcquire && ev.Name == "first" {
				k, err := l.TryLock(context.Background(), "second")
				if err == nil {
					err = k.Unlock()
				}
				got = errors.Join(err, errors.New("seen"))
			}
		}))
		close(ready)
		must(l.Lock(t.Context(), "first"))(t)
		settleNetwork()
		if got == nil || got.Error() != "seen" {
			t.Errorf("got %v, want the second name locked and unlocked", got)
		}
	})
}

// A panic of the observer ends the process: the library does not recover it.
func TestAnObserverThatPanics(t *testing.T) {
	if os.Getenv("REDLOCK_TEST_PANIC") != "" {
		l, err := New([]string{"redis://127.0.0.1:1"},
			WithObserver(func(ev Event) { panic("the observer's own: " + ev.Kind) }))
		fmt.Println(l, err)
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAnObserverThatPanics$")
	cmd.Env = append(os.Environ(), "REDLOCK_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the observer's own: node") {
		t.Errorf("got %v and %s, want the panic", err, out)
	}
}

// Each log level has the messages that WithLogger promises.
func TestLogLevels(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelError: "lost",
		slog.LevelWarn:  "lost, no majority, node, not renewed",
		slog.LevelInfo:  "lost, no majority, node, node up, not renewed",
		slog.LevelDebug: "acquired, attempt, lost, no majority, node, node down, node up, not acquired, not renewed, " +
			"released, renewed, waited, waiting",
	} {
		subtest(t, level.String(), 3, func(t *testing.T, fl *fleet) {
			var log bytes.Buffer
			l := fl.locker("a", WithTTL(3*time.Second),
				WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))))
			k := must(l.Lock(t.Context(), "job"))(t)
			must(l.Lock(t.Context(), "other"))(t).Unlock()
			_, _ = fl.locker("b").TryLock(t.Context(), "job")
			_, _ = l.Lock(t.Context(), "job", WithMaxWait(100*ms))
			time.Sleep(2 * time.Second)
			fl.nodes[:2].crash(true)
			<-k.Done()
			runtime.KeepAlive(k) // a hold without a handle is not renewed
			_ = l.Close()
			synctest.Wait()
			said := map[string]bool{}
			for line := range strings.Lines(log.String()) {
				_, msg, _ := strings.Cut(line, "msg=")
				msg, _, _ = strings.Cut(strings.TrimPrefix(msg, `"`), `"`)
				msg, _, _ = strings.Cut(strings.TrimSpace(msg), ":") // cut off the text of findings
				msg, _, _ = strings.Cut(msg, " name=")
				said[msg] = true
			}
			var got []string
			for msg := range said {
				got = append(got, msg)
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("got %s, want %s:\n%s", text, want, log.String())
			}
		})
	}
}

// Without an observer and a logger, a Locker has no event queue.
func TestNoEventQueueWithoutObserverAndLog(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		for _, opts := range [][]Option{nil, {WithObserver(nil)}, {WithLogger(slog.New(slog.DiscardHandler))}} {
			equals(t, fl.locker("a", opts...).events, nil, "the event queue with %v", opts)
		}
	})
}

// A call of Once tells how it has ended, and events of a permit have the semaphore's name.
func TestEventsOfJobsAndPermits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithMaxRuns(2))
		ran := func(what string, want error, hasToken bool, fn inHold) {
			t.Helper()
			func() {
				defer func() { _ = recover() }()
				_ = l.TryOnce(t.Context(), "job", fn)
			}()
			synctest.Wait()
			all := slices.DeleteFunc(w.take(), func(ev Event) bool { return ev.Kind != EventRun })
			if len(all) != 1 || !errors.Is(all[0].Err, want) || all[0].Name != "job" || all[0].Op != "once" ||
				all[0].Token > 0 != hasToken || all[0].Context == nil {
				t.Errorf("%s: got %+v, want one with %v", what, all, want)
			}
		}
		ran("a failure", errJob, true, fail)
		ran("a panic", errPanicked, true, func(context.Context, *Lock) error { panic("oops") })
		ran("no more runs", ErrRunsExhausted, false, mustNotRun(t))
		must(l.Forget(t.Context(), "job"))(t)
		ran("a success", nil, true, succeed)
		ran("done", ErrAlreadyRun, false, mustNotRun(t))
		must(l.Forget(t.Context(), "job"))(t)
		k := must(fl.locker("b").Lock(t.Context(), "job"))(t)
		ran("taken", ErrTaken, false, mustNotRun(t))
		succeeds(t, k.Unlock())

		w.take()
		succeeds(t, must(l.Semaphore("gpu", 2).Acquire(t.Context()))(t).Unlock())
		for _, ev := range w.take() {
			equals(t, ev.Name, "gpu", "the name in %s", ev.Kind)
		}
	})
}
