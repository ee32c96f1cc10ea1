package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// waits are the calls that wait for the lock "job", or for a permit of the semaphore "job".
var waits = map[string]func(ctx context.Context, l *Locker, opts ...LockOption) error{
	"Lock": waitOf(calls["Lock"]), "RLock": waitOf(calls["RLock"]),
	"LockAll": waitOf(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.LockAll(ctx, []string{"another", "job", "last"}, opts...)
	}),
	"LockAll of one": waitOf(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.LockAll(ctx, []string{"job"}, opts...)
	}),
	"Acquire": waitOf(func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.Semaphore("job", 2).Acquire(ctx, opts...)
	}),
	"Do": func(ctx context.Context, l *Locker, opts ...LockOption) error {
		return l.Do(ctx, "job", func(context.Context, *Lock) error { return errors.New("ran") }, opts...)
	},
	"Once": func(ctx context.Context, l *Locker, opts ...LockOption) error {
		return l.Once(ctx, "job", func(context.Context, *Lock) error { return errors.New("ran") }, forOnce(opts)...)
	},
}

func waitOf(lock call) func(context.Context, *Locker, ...LockOption) error {
	return func(ctx context.Context, l *Locker, opts ...LockOption) error { return errOf(lock(ctx, l, opts...)) }
}

// holdAll makes a client hold what the waits wait for.
func holdAll(t *testing.T, l *Locker) (release func()) {
	t.Helper()
	var held []*Lock
	held = append(held, must(l.Lock(t.Context(), "job"))(t))
	for range 2 {
		held = append(held, must(l.Semaphore("job", 2).Acquire(t.Context()))(t))
	}
	return func() {
		for _, k := range held {
			succeeds(t, k.Unlock())
		}
	}
}

// wantMaxWait checks the error of a wait that WithMaxWait has ended.
func wantMaxWait(t *testing.T, what string, err, reason error) {
	t.Helper()
	var q *QuorumError
	if !errors.Is(err, ErrMaxWait) || !errors.Is(err, reason) || !errors.As(err, &q) || q.Nodes == nil ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("%s: got %v, want a *QuorumError with ErrMaxWait and %v", what, err, reason)
	}
}

// Every call that waits ends when the longest wait is over, whether that was given to New or to the call, and whatever
// it was doing at that moment. Nothing is left on the nodes, and who waits on gets the lock.
func TestMaxWaitEndsEveryWait(t *testing.T) {
	for what, wait := range waits {
		for i := range sized(12, 4) {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				release := holdAll(t, fl.locker("holder"))
				limit := time.Duration(1+i*i) * 13 * ms
				l := fl.locker("a", WithMaxWait(limit))
				fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{Min: ms, Max: 12 * ms})
				if what == "Once" { // it asks for the register before it waits
					fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{})
				}
				var all sync.WaitGroup
				for n := range 3 { // in the local queue, too
					opts := []LockOption(nil)
					if n == 1 {
						opts = []LockOption{WithMaxWait(limit / 2)}
					}
					all.Go(func() {
						begun := time.Now()
						err := wait(t.Context(), l, opts...)
						reason := ErrTaken
						if limit < 40*ms && errors.Is(err, ErrNoQuorum) { // the first answers were not there yet
							reason = ErrNoQuorum
						}
						wantMaxWait(t, what, err, reason)
						if took := time.Since(begun); len(opts) == 0 && (took < limit || took > limit+20*ms) {
							t.Errorf("%s: took %s, want %s", what, took, limit)
						}
					})
				}
				patient := fl.locker("patient")
				all.Go(func() {
					succeeds(t, must(patient.Lock(t.Context(), "job"))(t).Unlock())
				})
				time.Sleep(limit + 50*ms)
				synctest.Wait()
				within(t, 100*ms, what+": the others, after the release", func() { release(); all.Wait() })
				settleNetwork()
				left := slices.DeleteFunc(fl.leftovers(), func(key string) bool { return strings.Contains(key, "once:") })
				if len(left) > 0 {
					t.Errorf("%s, after %s: left on the nodes: %v", what, limit, left)
				}
			})
		}
	}
}

// Without a majority, the error is ErrNoQuorum as well.
func TestMaxWaitWithoutAMajority(t *testing.T) {
	for what, wait := range waits {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			fl.nodes[:2].crash(false)
			settleNetwork()
			within(t, time.Second+300*ms, what, func() {
				wantMaxWait(t, what, wait(t.Context(), l, WithMaxWait(time.Second)), ErrNoQuorum)
			})
		})
	}
}

// The end of the caller's own context is what it always was, also if its cause is such an error of another call.
func TestMaxWaitIsNotTheCallersDeadline(t *testing.T) {
	for what, wait := range waits {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			release := holdAll(t, fl.locker("holder"))
			defer release()
			l := fl.locker("a")
			ctx := expiring(t, 100*ms)
			failsAlone(t, wait(ctx, l, WithMaxWait(time.Second)), context.DeadlineExceeded, ErrMaxWait)
			if what == "LockAll" {
				return
			}
			because, cancelBecause := context.WithCancelCause(t.Context())
			time.AfterFunc(100*ms, func() { cancelBecause(fmt.Errorf("gave up: %w", ErrMaxWait)) })
			fails(t, wait(because, l, WithMaxWait(time.Second)), context.Canceled, what)
			_ = l.Close()
			fails(t, wait(t.Context(), l, WithMaxWait(time.Second)), ErrClosed, what)
		})
	}
}

// The work may take longer than the wait: the function's context, the hold and the events have nothing to do with it.
func TestMaxWaitDoesNotBoundTheWork(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a", WithMaxWait(time.Second))
		work := func(ctx context.Context, _ *Lock) error {
			if _, bounded := ctx.Deadline(); bounded {
				t.Error("the function's context has a deadline")
			}
			time.Sleep(15 * time.Second)
			return ctx.Err()
		}
		during := func(k *Lock, err error) error {
			if err != nil {
				return err
			}
			held, cancel := k.Context(t.Context())
			defer cancel()
			return errors.Join(work(held, k), k.Unlock())
		}
		for what, run := range map[string]func() error{
			"Do":      func() error { return l.Do(t.Context(), "job", work) },
			"Once":    func() error { return l.Once(t.Context(), "job", work) },
			"Acquire": func() error { return during(l.Semaphore("job", 2).Acquire(t.Context())) },
			"LockAll": func() error { return during(calls["LockAll"](t.Context(), l)) },
		} {
			release := holdAll(t, fl.locker("holder"))
			time.AfterFunc(800*ms, release) // late, but in time
			succeeds(t, run(), what)
		}
		for _, ev := range w.take() {
			if ev.Context == nil {
				continue
			}
			if _, bounded := ev.Context.Deadline(); bounded || ev.Context.Err() != nil {
				t.Errorf("%s: the event's context has a deadline, or has ended", ev.Kind)
			}
		}
	})
}

// Calls that do not wait for a holder have no longest wait.
func TestMaxWaitDoesNotConcernATry(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithMaxWait(1))
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
		succeeds(t, must(l.Semaphore("job", 2).TryAcquire(t.Context()))(t).Unlock())
		succeeds(t, must(l.TryRLock(t.Context(), "job"))(t).Unlock())
		fails(t, errOf(l.Lock(t.Context(), "job")), ErrMaxWait, "Lock")
	})
}
