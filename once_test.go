package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/runs"
)

var errJob = errors.New("the job failed")

func succeed(context.Context, *Lock) error { return nil }

func fail(context.Context, *Lock) error { return errJob }

func mustNotRun(t *testing.T) func(context.Context, *Lock) error {
	t.Helper()
	return func(context.Context, *Lock) error {
		t.Error("the job runs")
		return nil
	}
}

// register returns the nodes' register entries of a name without their tokens, "-" for none.
func (fl *fleet) register(name string) string {
	var said []string
	for _, n := range fl.nodes {
		text, _ := n.Do("GET", "redlock:once:"+name).(string)
		if _, rest, ok := strings.Cut(text, " "); ok {
			said = append(said, rest)
		} else {
			said = append(said, "-")
		}
	}
	return strings.Join(said, ", ")
}

func (fl *fleet) wantRegister(name, want string) {
	fl.t.Helper()
	settleNetwork()
	if got := fl.register(name); got != want {
		fl.t.Errorf("the registers say %q, want %q", got, want)
	}
}

func TestOnceRunsOnceForTheDoneTTL(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		hour := WithDoneTTL(time.Hour)
		succeeds(t, a.Once(t.Context(), "job", succeed, hour))
		fl.wantRegister("job", "1 done, 1 done, 1 done, 1 done, 1 done")
		fl.isHeld("job", 0)
		for _, l := range []*Locker{a, b} {
			before := fl.nodes[0].Calls("set")
			err := l.Once(t.Context(), "job", mustNotRun(t), hour)
			failsSaying(t, err, ErrAlreadyRun, "run 1 succeeded; another may begin in 59m")
			equals(t, fl.nodes[0].Calls("set"), before, "the call took the lock")
		}
		time.Sleep(time.Hour)
		succeeds(t, b.Once(t.Context(), "job", succeed, hour), "after the done TTL")
	})
	// So are runs that have failed.
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithMaxRuns(1), WithDoneTTL(time.Minute))
		fails(t, l.Once(t.Context(), "job", fail), errJob)
		time.Sleep(59 * time.Second)
		fails(t, l.Once(t.Context(), "job", mustNotRun(t)), ErrRunsExhausted)
		time.Sleep(time.Second)
		succeeds(t, l.Once(t.Context(), "job", succeed), "a minute after the failure")
	})
}

func TestOnceFailuresAreCounted(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b", WithMaxRuns(3))
		failsAlone(t, a.Once(t.Context(), "job", fail), errJob, ErrLost)
		fl.wantRegister("job", "1 failed, 1 failed, 1 failed, 1 failed, 1 failed")
		func() {
			defer func() { equals(t, recover(), "oops", "recovered") }()
			_ = b.Once(t.Context(), "job", func(context.Context, *Lock) error { panic("oops") })
		}()
		fl.wantRegister("job", "2 failed, 2 failed, 2 failed, 2 failed, 2 failed")
		fl.isHeld("job", 0, "after a panic")
		fails(t, a.Once(t.Context(), "job", fail), errJob, "job's error")
		for _, l := range []*Locker{a, b} {
			failsSaying(t, l.Once(t.Context(), "job", mustNotRun(t)), ErrRunsExhausted, "3 of 3 runs")
		}
		succeeds(t, a.Once(t.Context(), "job", succeed, WithMaxRuns(0)), "without a limit")
		fl.wantRegister("job", "4 done, 4 done, 4 done, 4 done, 4 done")
	})
}

// A run that did not begin is no run: a waiter that may not be the second is next.
func TestOnceNotBegun(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b", WithMaxRuns(1))
		var next *onceCall
		failsAlone(t, a.Once(t.Context(), "job", func(context.Context, *Lock) error {
			next = startOnce(t, b, fail)
			time.Sleep(time.Second)
			return runs.ErrNotBegun
		}), runs.ErrNotBegun, ErrLost, ErrNoQuorum)
		<-next.done
		fails(t, next.err, errJob)
		fl.wantRegister("job", "1 failed, 1 failed, 1 failed")
	})
}

// Callers that come while a run is in progress wait for it and learn its outcome.
func TestOnceConcurrentCalls(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		for _, outcome := range []error{nil, errJob} {
			name := fmt.Sprint("job ", outcome)
			inside := 0
			var mu sync.Mutex // guards outcomes
			outcomes := map[error]int{}
			var running sync.WaitGroup
			for i := range 6 {
				l := fl.locker(fmt.Sprint("c", i%3, outcome))
				running.Go(func() {
					err := l.Once(t.Context(), name, func(context.Context, *Lock) error {
						if inside++; inside > 1 {
							t.Error("two at once")
						}
						time.Sleep(15 * time.Second)
						inside--
						return outcome
					})
					mu.Lock()
					defer mu.Unlock()
					for _, is := range []error{nil, ErrAlreadyRun, ErrRunsExhausted, errJob} {
						if errors.Is(err, is) {
							outcomes[is]++
						}
					}
				})
			}
			running.Wait()
			want := map[error]int{nil: 1, ErrAlreadyRun: 5}
			if outcome != nil {
				want = map[error]int{errJob: 3, ErrRunsExhausted: 3}
			}
			equals(t, fmt.Sprint(outcomes), fmt.Sprint(want), "outcomes")
		}
	})
}

func TestOnceWithMaxAttemptsOne(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithMaxRuns(1)), fl.locker("b", WithMaxRuns(1))
		succeeds(t, a.Once(t.Context(), "job", func(context.Context, *Lock) error {
			within(t, 250*ms, "Once", func() {
				// The last run is in progress and may succeed, so the error is ErrTaken and not ErrRunsExhausted.
				fails(t, b.TryOnce(t.Context(), "job", mustNotRun(t)), ErrTaken)
			})
			impatient := expiring(t, time.Second)
			failsAll(t, b.Once(impatient, "job", mustNotRun(t)), ErrTaken, context.DeadlineExceeded)
			return nil
		}))
	})
}

func TestOnceCrashes(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		ran := 0
		crash := func(client string) error {
			l := fl.locker(client, WithDoneTTL(20*time.Second))
			return l.Once(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
				ran++
				time.Sleep(179 * time.Second) // longer than the done TTL: the run keeps its entry alive
				fl.crash(client, l)
				<-ctx.Done()
				return nil
			})
		}
		for i := range 3 {
			failsAll(t, crash(fmt.Sprint("c", i)), ErrClosed, ErrLost)
			want := fmt.Sprintf("%d begun", i+1)
			fl.wantRegister("job", strings.Join([]string{want, want, want, want, want}, ", "))
		}
		// The crashed holder's lock has not expired yet. Until it has, the third run may be in progress.
		l := fl.locker("last", WithDoneTTL(20*time.Second))
		within(t, 11*time.Second, "Once", func() {
			if err := l.Once(t.Context(), "job", mustNotRun(t)); !errors.Is(err, ErrRunsExhausted) || ran != 3 {
				t.Errorf("after %d crashes: got %v, want ErrRunsExhausted", ran, err)
			}
		})
		fl.wantRegister("job", "3 failed, 3 failed, 3 failed, 3 failed, 3 failed")
		within(t, 250*ms, "Once", func() {
			fails(t, l.TryOnce(t.Context(), "job", mustNotRun(t)), ErrRunsExhausted)
		})
	})
}

// A run whose hold has ended has failed, whatever fn returns.
func TestOnceLosesTheHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		err := l.Once(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			fl.nodes.do("SET", "job", "thief", "PX", "60000")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		fails(t, err, ErrLost)
		fl.wantRegister("job", "1 begun, 1 begun, 1 begun") // without the lock it cannot write
		fails(t, l.Once(t.Context(), "short", func(ctx context.Context, _ *Lock) error {
			time.Sleep(2 * time.Second)
			return nil
		}, WithMaxHold(time.Second)), ErrMaxHold)
		letGo := func(_ context.Context, lock *Lock) error { return lock.Unlock() }
		fails(t, l.Once(t.Context(), "let go", letGo), ErrUnlocked, "the run has unlocked")
		for _, name := range []string{"short", "let go"} {
			fl.wantRegister(name, "1 begun, 1 begun, 1 begun")
		}
	})
}

// A suspended holder resumes after another run has begun: it can no longer write, not even on a minority.
func TestOnceSupersededRunWritesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		err := a.Once(t.Context(), "job", func(ctx context.Context, lock *Lock) error {
			for _, n := range fl.nodes { // as if all clocks had jumped, so that two holds are valid at once
				n.Do("DEL", "job")
			}
			return b.Once(t.Context(), "job", func(context.Context, *Lock) error {
				if lock.Err() != nil {
					t.Error("the first hold is not valid any more")
				}
				j := &job{locker: a, opts: a.opts, name: "job", key: "job", runs: 1}
				for _, state := range []string{runs.Done, runs.NotBegun} {
					j.setEntry(lock, state)
					if may, err := j.write(t.Context(), lock, time.Hour); !errors.Is(err, ErrLost) || may != 0 {
						t.Errorf("the first one's %s: got %v, and %b may have it, want ErrLost and none", state, err, may)
					}
				}
				fl.wantRegister("job", "2 begun, 2 begun, 2 begun")
				return nil
			})
		})
		if err == nil {
			t.Error("both runs have succeeded")
		}
		fl.wantRegister("job", "2 done, 2 done, 2 done")
	})
}

func TestOnceCancelled(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		ctx, cancel := context.WithCancel(t.Context())
		fails(t, l.Once(ctx, "job", func(held context.Context, _ *Lock) error {
			cancel()
			<-held.Done()
			return held.Err()
		}), context.Canceled)
		fl.wantRegister("job", "1 failed, 1 failed, 1 failed")
		fails(t, l.Once(ctx, "job", mustNotRun(t)), context.Canceled, "cancelled before")
		// A success counts even if the caller's context has ended.
		ctx, cancel = context.WithCancel(t.Context())
		succeeds(t, l.Once(ctx, "job", func(context.Context, *Lock) error { cancel(); return nil }), "cancelled")
		fl.wantRegister("job", "2 done, 2 done, 2 done")
	})
}

// A run may continue after its context has ended. Its entry is kept alive meanwhile.
func TestOnceOutlivesItsContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithDoneTTL(time.Minute))
		ctx := expiring(t, time.Second)
		succeeds(t, l.Once(ctx, "job", func(context.Context, *Lock) error {
			time.Sleep(3 * time.Minute)
			fl.wantRegister("job", "1 begun, 1 begun, 1 begun")
			return nil
		}))
	})
}

func TestOnceReentrance(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		inside := func(ctx context.Context, _ *Lock) error {
			failsSaying(t, l.Once(ctx, "job", mustNotRun(t)), ErrInvalid, "inside a hold")
			succeeds(t, l.Do(ctx, "job", func(context.Context, *Lock) error { return nil }), "Do inside a run joins it")
			succeeds(t, l.Once(ctx, "other job", succeed), "another name")
			return nil
		}
		succeeds(t, l.Do(t.Context(), "job", inside))
		var past *Lock
		succeeds(t, l.Once(t.Context(), "job", func(ctx context.Context, lock *Lock) error {
			carried, ok := FromContext(ctx)
			past = lock
			if !ok || carried != lock || lock.Name() != "job" || lock.Token() == 0 {
				t.Error("the run's context has no lock")
			}
			_ = l.Once(ctx, "job", mustNotRun(t))
			return nil
		}))
		ctx := newContext(t.Context(), past)
		fails(t, l.Once(ctx, "job", mustNotRun(t)), ErrAlreadyRun, "the context of a run that is over")
	})
}

func TestOnceOptions(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for want, opts := range map[string][]OnceOption{
			"counted by their tokens": {WithoutFencing()},
			"less than twice the TTL": {WithDoneTTL(15 * time.Second)},
			"1ms is the least":        {WithDoneTTL(time.Microsecond)},
			"-1 runs":                 {WithMaxRuns(-1)},
		} {
			failsSaying(t, l.Once(t.Context(), "job", mustNotRun(t), opts...), ErrInvalid, want)
		}
		fails(t, l.Once(t.Context(), "", mustNotRun(t)), ErrInvalid, "no name")
		forever := WithDoneTTL(math.MaxInt64)
		succeeds(t, l.Once(t.Context(), "job", succeed, forever), "for ever")
		time.Sleep(3 * time.Hour)
		fails(t, l.Once(t.Context(), "job", mustNotRun(t), forever), ErrAlreadyRun, "for ever")
		_ = l.Close()
		fails(t, l.Once(t.Context(), "job", mustNotRun(t)), ErrClosed, "closed")
	})
}

func TestOnceForeignKeyIsExplained(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Do("SET", "redlock:once:job", "x")
		ctx := expiring(t, time.Second)
		if err := fl.locker("a").Once(ctx, "job", mustNotRun(t)); !errors.Is(err, ErrNoQuorum) ||
			!strings.Contains(err.Error(), `says "x"`) {
			t.Errorf("got %v", err)
		}
	})
}

// A hold around the call is lost while Once waits for the job's lock. That is not ErrLost: no run has lost its hold.
func TestOnceInsideALostHold(t *testing.T) {
	for _, want := range []error{ErrTaken, ErrNoQuorum} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l, b := fl.locker("a"), fl.locker("b")
			taken := must(b.Lock(t.Context(), "job"))(t)
			outer := must(l.Lock(t.Context(), "outer", WithoutRenewal(), WithTTL(3*time.Second)))(t)
			ctx, cancel := outer.Context(t.Context())
			defer cancel()
			if want == ErrNoQuorum { //nolint:errorlint // a value of the table
				fl.nodes[1].Crash(true)
				fl.nodes[2].Crash(true)
			}
			err := l.Once(ctx, "job", func(context.Context, *Lock) error {
				t.Error("the job was run")
				return nil
			})
			failsAlone(t, err, want, ErrLost)
			fails(t, err, context.Canceled)
			_ = taken.Unlock()
		})
	}
}
