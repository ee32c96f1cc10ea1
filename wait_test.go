package redlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// callersOf returns calls of one Locker, or of one Semaphore, whose callers queue in the process.
var callersOf = map[string]func(l *Locker) func(context.Context, ...LockOption) (*Lock, error){
	"Lock": func(l *Locker) func(context.Context, ...LockOption) (*Lock, error) {
		return func(ctx context.Context, opts ...LockOption) (*Lock, error) { return l.Lock(ctx, "job", opts...) }
	},
	"Acquire": func(l *Locker) func(context.Context, ...LockOption) (*Lock, error) {
		return l.Semaphore("job", 1).Acquire
	},
}

// When the deadline of the first caller in the local queue passes, the next caller gets the turn. If its deadline
// passes at the same moment, it must not send a request and then report that too few nodes answered.
func TestSimultaneousDeadlinesReportTaken(t *testing.T) {
	for name, of := range callersOf {
		t.Run(name, func(t *testing.T) {
			for range sized(25, 12) {
				bubble(t, 3, func(t *testing.T, fl *fleet) {
					holder := must(of(fl.locker("holder"))(t.Context()))(t)
					acquire := of(fl.locker("a"))
					ctx := expiring(t, time.Second)
					together(20, func(_ int) { failsAll(t, errOf(acquire(ctx)), context.DeadlineExceeded, ErrTaken) })
					succeeds(t, holder.Unlock())
					fl.clean()
				})
			}
		})
	}
}

// While another goroutine of the process waits for the name, a call that tries makes its attempt at once and does not
// join the local queue.
func TestATrySkipsTheLocalQueue(t *testing.T) {
	for _, name := range []string{"Lock", "RLock", "LockAll"} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			l := fl.locker("a")
			asksOnce(t, l.opts.nodeTimeout, func(ctx context.Context) error { return waits[name](ctx, l) },
				func(ctx context.Context) error { return errOf(tries[name](ctx, l)) })
		})
	}
	subtest(t, "Acquire", 3, func(t *testing.T, fl *fleet) {
		must(fl.locker("holder").Semaphore("job", 1).Acquire(t.Context()))(t)
		l := fl.locker("a")
		s := l.Semaphore("job", 1)
		asksOnce(t, 3*l.opts.nodeTimeout, func(ctx context.Context) error { return errOf(s.Acquire(ctx)) },
			func(ctx context.Context) error { return errOf(s.TryAcquire(ctx)) })
	})
}

// asksOnce calls try while wait waits.
func asksOnce(t *testing.T, limit time.Duration, wait, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var waiting sync.WaitGroup
	waiting.Go(func() { fails(t, wait(ctx), ErrTaken, "the waiting call") })
	time.Sleep(time.Second)
	within(t, limit, "asking once", func() {
		failsAlone(t, try(ctx), ErrTaken, context.DeadlineExceeded)
	})
	cancel()
	waiting.Wait()
}

// The context has ended before the caller joins the local queue. Other callers are ahead there, so the lock is taken.
func TestEndedContextBeforeTheLocalQueueReportsTaken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		ctx := cancelled(t)
		_, err := l.wait(ctx, plan{op: "lock", name: "job", key: "job", opts: l.opts}, nil, nil)
		failsAll(t, err, ErrTaken, context.Canceled)
	})
}

// A caller behind others in this process gets the verdict of the one at the head, whatever ends its wait.
func TestACallerBehindOthersGetsTheirVerdict(t *testing.T) {
	for what, of := range callersOf {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			must(of(fl.locker("holder"))(t.Context()))(t)
			acquire := of(fl.locker("a"))
			first, leave := context.WithCancel(t.Context())
			var head sync.WaitGroup
			head.Go(func() { _, _ = acquire(first) })
			time.Sleep(time.Second)
			behind := func(want error) {
				t.Helper()
				ctx := expiring(t, 50*ms)
				_, err := acquire(ctx)
				_, waited := acquire(t.Context(), WithMaxWait(50*ms))
				for ended, err := range map[error]error{context.DeadlineExceeded: err, ErrMaxWait: waited} {
					if !errors.Is(err, want) || !errors.Is(err, ended) || !says(err, "behind other callers") {
						t.Errorf("%s: got %v, want %v, %v, and that others are ahead", what, err, want, ended)
					}
				}
			}
			behind(ErrTaken)
			fl.nodes[:2].pause()
			time.Sleep(3 * time.Second)
			behind(ErrNoQuorum)
			fl.nodes[:2].resume()
			time.Sleep(5 * time.Second)
			behind(ErrTaken)
			leave()
			head.Wait()
		})
	}
}

// Callers of one process that begin at one moment have each made an attempt before one of them is at the head of the
// local queue. What that one finds later is true of the others, too.
func TestACallerBehindOthersGetsTheVerdictSinceItsAttempt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		must(fl.locker("holder").Lock(t.Context(), "job"))(t)
		l := fl.locker("a")
		var got [2]<-chan error
		for i := range got {
			got[i] = async(func() error { return errOf(l.Lock(t.Context(), "job", WithMaxWait(10*time.Second))) })
		}
		time.Sleep(time.Second)
		fl.nodes.crash(true)
		for _, got := range got {
			failsAlone(t, <-got, ErrNoQuorum, ErrTaken)
		}
	})
}

// A call that was held for want of a majority, and does not wait for the lock, has one node timeout for all that it
// does.
func TestACallThatWasHeldReturnsWithinTheNodeTimeout(t *testing.T) {
	for _, what := range []string{"Lock", "LockAll"} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 50 * ms, Max: 60 * ms})
			l := fl.locker("a", withGuard(0))
			for round := 0; round < 20; round += sized(1, 5) {
				fl.nodes[:2].crash(true)
				time.Sleep(time.Second)
				fl.nodes[1].Restart()
				// Until it is connected, n2 stops answering, which nobody knows before the next call has waited for it.
				time.AfterFunc(time.Duration(round)*50*ms, fl.nodes[2].Pause)
				for tried := time.Now(); time.Since(tried) < 2*time.Second; time.Sleep(ms) {
					begun := time.Now()
					lock, err := tries[what](t.Context(), l)
					between(t, time.Since(begun), 0, 250*ms, "%s, with a node timeout of 250 ms", what)
					if err == nil {
						_ = lock.Unlock()
					}
				}
				fl.nodes[2].Resume()
				fl.nodes[0].Restart()
				time.Sleep(3 * time.Second)
			}
		})
	}
}

// What another client holds is taken, however many callers of a process want it, and whenever their waits end: each
// call says so, if not by its own answer, then by what others were told.
func TestContentionIsNoOutage(t *testing.T) {
	for _, what := range []string{"Lock", "RLock", "LockAll", "Acquire", "Once"} {
		for _, c := range []struct{ callers, calls, every int }{ // all at one moment, or one every so many ms
			{50, 2, 0}, {60, 1, 20}, {10, 2, 0}, {200, 1, 0}, {120, 1, 5},
		}[:sized(5, 2)] {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				holdAll(t, fl.locker("holder"))
				l := fl.locker("a", WithMaxWait(time.Second))
				fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: ms, Max: 5 * ms})
				var others atomic.Int64
				together(c.callers, func(i int) {
					time.Sleep(time.Duration(i*c.every) * ms)
					for range c.calls {
						err := waits[what](t.Context(), l)
						isTaken := errors.Is(err, ErrTaken) && !errors.Is(err, ErrNoQuorum) && errors.Is(err, ErrMaxWait)
						if !isTaken || strings.Count(err.Error(), "behind other callers") > 1 {
							others.Add(1)
							t.Log(err)
						}
					}
				})
				equals(t, others.Load(), 0, "%s, %+v: calls that are not told that it is taken", what, c)
			})
		}
	}
}

// A call that ends before it has an answer of its own says what this process was told last of the name, if that is not
// long ago, and otherwise that nobody has answered.
func TestACallWithoutAnAnswerSaysWhatIsKnown(t *testing.T) {
	for what, wait := range waits {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			release := holdAll(t, fl.locker("holder"))
			l := fl.locker("a")
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: 5 * ms, Max: 6 * ms})
			without := func(when string, want, not error) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				err := wait(ctx, l, WithMaxWait(ms))
				failsAll(t, err, ErrNotAcquired, want, ErrMaxWait)
				failsAlone(t, err, want, not)
				inherited := strings.Count(err.Error(), "behind other callers")
				equals(t, inherited, map[error]int{ErrTaken: 1}[want], "%s, %s: %v", what, when, err)
				cancel()
				if err = wait(ctx, l); errors.Is(want, ErrTaken) {
					failsAlone(t, err, want, not)
				}
				fails(t, err, context.Canceled)
			}
			without("at first", ErrNoQuorum, ErrTaken)
			fails(t, wait(t.Context(), l, WithMaxWait(500*ms)), ErrTaken)
			without("after a refusal", ErrTaken, ErrNoQuorum)
			if what == "Lock" {
				l.local.Join("job") // by somebody who is told nothing
			}
			time.Sleep(queueLives)
			without("later", ErrNoQuorum, ErrTaken)
			// One gets it: this keeps no reader away, and there is another permit.
			if want := map[string]error{"Lock": ErrTaken, "RLock": ErrNoQuorum, "Acquire": ErrNoQuorum}[what]; want != nil {
				got := async(func() error { return wait(t.Context(), l) })
				time.Sleep(time.Second)
				release()
				succeeds(t, <-got)
				without("when one has it", want, map[error]error{ErrTaken: ErrNoQuorum, ErrNoQuorum: ErrTaken}[want])
			}
		})
	}
}

// Nor has a call found anything that has some votes when its time is over, and may get others.
func TestACallWithSomeVotesSaysWhatIsKnown(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		k, l := must(fl.locker("holder").Lock(t.Context(), "job"))(t), fl.locker("a")
		fails(t, errOf(l.Lock(t.Context(), "job", WithMaxWait(50*ms))), ErrTaken)
		succeeds(t, k.Unlock())
		fl.nodes[2].Crash(true)
		for i := range 2 {
			fl.net.SetDelay(link0("a", 3+i), sim.Both, sim.Delay{Min: 10 * ms, Max: 11 * ms})
		}
		settleNetwork()
		failsAlone(t, errOf(l.Lock(t.Context(), "job", WithMaxWait(5*ms))), ErrTaken, ErrNoQuorum)
	})
}

// A lock is taken, too, where a node is down: an attempt that has failed waits for the others to say so, and a call
// that waits hears them.
func TestContentionBesideANodeThatIsAwayIsNoOutage(t *testing.T) {
	for what, try := range tries {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			must(fl.locker("holder").Semaphore("job", 1).Acquire(t.Context()))(t)
			l := fl.locker("a")
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Both, sim.Delay{Min: ms, Max: 5 * ms})
			fl.nodes[4].Crash(true)
			settleNetwork()
			for range 10 {
				within(t, 3*l.opts.nodeTimeout, what, func() {
					failsAlone(t, errOf(try(t.Context(), l)), ErrTaken, ErrNoQuorum)
				})
			}
			if wait := calls[what]; wait != nil {
				failsAlone(t, errOf(wait(t.Context(), l, WithMaxWait(200*ms))), ErrTaken, ErrNoQuorum)
			}
			fl.nodes[2:4].pause()
			fails(t, errOf(try(t.Context(), l)), ErrNoQuorum)
		})
	}
}

type anyError struct{ error }

func (anyError) Is(error) bool { return true }

// A wait ends with its context, also if the cause claims to be whatever it is compared with.
func TestAWaitEndsWithAnyCause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := anyError{errors.New("enough")}
		cancel(cause)
		l := fl.locker("a")
		_, err := l.queue(ctx, plan{op: "lock", name: "job", key: "job", opts: l.opts}, nil, nil)
		failsAll(t, err, context.Canceled, ErrNoQuorum, cause)
		fl.clean()
	})
}
