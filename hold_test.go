package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/sim"
)

// A hold and its handle cost this memory for as long as the program keeps the handle.
func TestSizesOfHoldAndHandle(t *testing.T) {
	between(t, unsafe.Sizeof(hold{}), 0, 96, "bytes of a hold")
	between(t, unsafe.Sizeof(Lock{}), 0, 32, "bytes of a Lock")
}

// oldHandle is a handle on a hold that has ended, with what its methods returned before.
type oldHandle struct {
	lock   *Lock
	name   string
	owner  string
	token  int64
	until  time.Time
	ticket string
	done   <-chan struct{}
	ctx    context.Context
	end    context.CancelFunc
	cause  error // why the hold ended
	unlock error // what Unlock then returns, for errors.Is
}

// recordHandle records what a handle returns whose hold will end with cause.
func recordHandle(k *Lock, cause, unlock error) *oldHandle {
	r := &oldHandle{
		lock: k, name: k.Name(), owner: k.Owner(), token: k.Token(), until: k.Deadline(), done: k.Done(),
		cause: cause, unlock: unlock,
	}
	r.ctx, r.end = k.Context(context.Background())
	return r
}

// check returns an error if the handle no longer returns what is true of its hold.
func (r *oldHandle) check(ctx context.Context) error {
	k := r.lock
	if got := []any{k.Name(), k.Owner(), k.Token()}; got[0] != r.name || got[1] != r.owner || got[2] != r.token {
		return fmt.Errorf("name, owner and token are %v", got)
	}
	if got := k.Deadline(); !got.Equal(r.until) {
		return fmt.Errorf("until %v, was %v", got, r.until)
	}
	if !isClosed(r.done) || !isClosed(k.Done()) || !isClosed(r.ctx.Done()) {
		return errors.New("a Done channel is open")
	}
	if err := k.Err(); !errors.Is(err, r.cause) {
		return fmt.Errorf("Err: %w", err)
	}
	if err := context.Cause(r.ctx); r.ctx.Err() == nil || !errors.Is(err, r.cause) {
		return fmt.Errorf("its context ended with: %w", err)
	}
	late, end := k.Context(ctx)
	defer end()
	if err := context.Cause(late); !errors.Is(err, r.cause) {
		return fmt.Errorf("a context made after the end ended with: %w", err)
	}
	if err := k.Extend(ctx); !errors.Is(err, r.cause) {
		return fmt.Errorf("Extend: %w", err)
	}
	if err := k.Unlock(); !errors.Is(err, r.unlock) {
		return fmt.Errorf("Unlock: %w", err)
	}
	if text, err := k.Ticket(); text != r.ticket || (text == "") != errors.Is(err, r.cause) {
		return fmt.Errorf("the ticket %s was %s: %w", text, r.ticket, err)
	}
	r.end()
	h := k.hold // and the calls that may come late, from the schedule, the garbage collector and Close
	h.Wake()
	h.forgotten()
	h.Abandon()
	if _, err := h.sendExtension("extend", nil); !errors.Is(err, r.cause) {
		return fmt.Errorf("a renewal: %w", err)
	}
	return nil
}

// A handle of an ended hold returns what is true of its own hold, in any goroutine and after any number of later holds
// of the Locker, of the same names, too. And it does nothing to the later holds.
func TestHandlesOutliveTheirHolds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{}) // a microsecond or less
		l := fl.locker("a")
		ctx := expiring(t, 5*time.Minute) // the test takes milliseconds
		var checkers sync.WaitGroup
		var pending errgroup.Group
		ended := make(chan *oldHandle, 16)
		for range 4 {
			checkers.Go(func() {
				var kept [16]*oldHandle
				for seen := 0; ; seen++ {
					r, more := <-ended
					if !more {
						return
					}
					kept[seen%len(kept)] = r
					for pass := range 8 {
						for _, r := range kept {
							if r == nil {
								continue
							}
							if err := r.check(ctx); err != nil {
								t.Errorf("a hold of %q that ended with %v: %v", r.name, r.cause, err)
							}
						}
						time.Sleep(time.Duration(pass) * time.Microsecond) // so that other goroutines run in between
					}
				}
			})
		}
		together(8, func(w int) {
			for i := range sized(40, 15) {
				r, err := liveAndEnd(ctx, l, w, w+i, &pending)
				if err != nil {
					t.Errorf("worker %d, hold %d: %v", w, i, err)
					return
				}
				ended <- r
			}
		})
		close(ended)
		checkers.Wait()
		succeeds(t, pending.Wait(), "an extension at the same time as Unlock")
		fl.clean()
		if l.schedule.Waits() {
			t.Error("holds that have ended are in the schedule")
		}
	})
}

// liveAndEnd acquires one hold, ends it in a way that depends on way, and returns its handle.
func liveAndEnd(ctx context.Context, l *Locker, worker, way int, pending *errgroup.Group) (*oldHandle, error) {
	name := fmt.Sprintf("job%d", way%5)
	var opts []LockOption
	switch way % 8 {
	case 5:
		name = fmt.Sprintf("job of worker %d", worker)
		opts = append(opts, WithMaxHold(time.Millisecond))
	case 6:
		opts = append(opts, WithoutRenewal(), WithTTL(5*ms))
	}
	k, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(k.Err(), k.Extend(ctx)); err != nil && len(opts) == 0 {
		return nil, err // an old handle has ended it
	}
	switch way % 8 {
	case 3: // two handles: giving back the second one ends the hold
		inner, err := l.Lock(newContext(ctx, k), name)
		if err != nil {
			return nil, err
		}
		if err := inner.Unlock(); err != nil || k.Err() != nil {
			return nil, fmt.Errorf("after Unlock of the inner handle: %w, %w", err, k.Err())
		}
	case 4:
		r := recordHandle(k, errHandedOver, nil)
		var err error
		if r.ticket, err = k.Ticket(); err != nil {
			return nil, err
		}
		adopted, err := l.Adopt(ctx, r.ticket)
		if err != nil {
			return nil, err
		}
		return r, adopted.Unlock()
	case 5:
		r := recordHandle(k, ErrMaxHold, ErrMaxHold)
		<-r.done
		return r, nil
	case 6:
		r := recordHandle(k, ErrLost, ErrLost)
		<-r.done
		return r, nil
	}
	r := recordHandle(k, ErrUnlocked, nil)
	if way%8 == 2 { // an extension is in flight meanwhile, and the hold is woken
		pending.Go(func() error {
			for range 200 {
				k.hold.Wake()
			}
			return nil
		})
		pending.Go(func() error {
			if err := k.Extend(ctx); err != nil && !errors.Is(err, ErrUnlocked) {
				return err
			}
			return nil
		})
		time.Sleep(time.Microsecond)
	}
	err = k.Unlock()
	r.until = k.Deadline()
	return r, err
}

// As soon as Unlock has sent the release, the hold has ended: the nodes execute the release before the next request of
// the same Locker, so that gets the lock, though nobody has confirmed anything yet.
func TestTheNextOneNeedNotWaitForUnlock(t *testing.T) {
	for what := range some("Lock", "LockAll", "RLock", "Acquire") {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 10 * ms, Max: 10 * ms})
			l := fl.locker("a")
			var unlocked []<-chan error
			for range 10 {
				k := must(tries[what](t.Context(), l))(t)
				unlocked = append(unlocked, async(k.Unlock))
				within(t, 0, what+": the release is sent", synctest.Wait)
				fails(t, k.Err(), ErrUnlocked, what)
			}
			for _, err := range unlocked {
				succeeds(t, <-err, what)
			}
			fl.clean(what)
		})
	}
}

func TestCloseWaitsForUnlocks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{Min: 10 * ms, Max: 10 * ms})
		k := must(l.Lock(t.Context(), "job"))(t)
		unlocked := async(k.Unlock)
		synctest.Wait()
		_ = l.Close()
		succeeds(t, <-unlocked)
		fl.isHeld("job", 0, "after Close")
	})
}

// Every way in which a hold can end, and what its owner is told by each of the ways to ask.
func TestEveryEndHasItsErrors(t *testing.T) {
	type errs = []error
	lost := errs{ErrLost}
	for end, c := range map[string]struct {
		opts                []LockOption
		do                  func(fl *fleet, l *Locker, k *Lock)
		err, unlock, extend errs // empty: no error
		not                 errs // what none of them may be
	}{
		"unlocked": {
			do:  func(_ *fleet, _ *Locker, k *Lock) { _ = k.Unlock() },
			err: errs{ErrUnlocked}, extend: errs{ErrUnlocked}, not: lost,
		},
		"handed over": {
			do:  func(_ *fleet, _ *Locker, k *Lock) { _, _ = k.Ticket() },
			err: errs{ErrUnlocked}, extend: errs{ErrUnlocked}, not: lost,
		},
		"not renewed": {
			opts: []LockOption{WithoutRenewal()}, do: func(*fleet, *Locker, *Lock) {},
			err: lost, unlock: lost, extend: lost, not: errs{ErrUnlocked, ErrMaxHold},
		},
		"cut off from all nodes": {
			do:  func(fl *fleet, _ *Locker, _ *Lock) { fl.net.Hold(sim.Link{Client: "a"}, sim.Both) },
			err: lost, unlock: lost, extend: lost,
		},
		"refused by all nodes": {
			do:  func(fl *fleet, _ *Locker, _ *Lock) { fl.cutAll("a") },
			err: lost, unlock: lost, extend: lost,
		},
		"stolen on a majority": {
			do:  func(fl *fleet, _ *Locker, _ *Lock) { fl.nodes[:3].do("SET", "job", "thief", "PX", 60_000) },
			err: lost, unlock: lost, extend: lost, not: errs{ErrNoQuorum},
		},
		"a majority frozen": {
			do:  func(fl *fleet, _ *Locker, _ *Lock) { fl.nodes[:3].pause() },
			err: lost, unlock: lost, extend: lost,
		},
		"the limit of WithMaxHold": {
			opts: []LockOption{WithMaxHold(1500 * ms)}, do: func(*fleet, *Locker, *Lock) {},
			err: errs{ErrMaxHold}, unlock: errs{ErrMaxHold, ErrLost}, extend: errs{ErrMaxHold, ErrLost},
			not: errs{ErrUnlocked},
		},
		"the Locker closed": {
			do:  func(_ *fleet, l *Locker, _ *Lock) { _ = l.Close() },
			err: errs{ErrClosed}, unlock: errs{ErrClosed, ErrLost}, extend: errs{ErrClosed, ErrLost},
			not: errs{ErrUnlocked},
		},
	} {
		subtest(t, end, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", WithTTL(3*time.Second))
			k := must(l.Lock(t.Context(), "job", c.opts...))(t)
			settleNetwork()
			ctx, cancel := k.Context(t.Context())
			defer cancel()
			succeeds(t, errors.Join(k.Err(), ctx.Err()))
			c.do(fl, l, k)
			<-k.Done()
			fails(t, ctx.Err(), context.Canceled, "Context.Err")
			late, cancel := k.Context(t.Context())
			defer cancel()
			fails(t, late.Err(), context.Canceled, "a context made after the end")
			said, cause, extended, unlocked := k.Err(), context.Cause(ctx), k.Extend(t.Context()), k.Unlock()
			failsAll(t, said, c.err...)
			failsAll(t, cause, c.err...)
			failsAll(t, extended, c.extend...)
			failsAll(t, unlocked, c.unlock...)
			if unlocked != nil {
				fails(t, k.Unlock(), unlocked, "Unlock again")
				if len(c.unlock) == 0 {
					t.Errorf("Unlock: got %v, want none", unlocked)
				}
			}
			for _, not := range append(c.not, context.DeadlineExceeded) {
				if errors.Is(errors.Join(said, cause, extended, unlocked), not) {
					t.Errorf("got %v, which is %v, too", errors.Join(said, cause, extended, unlocked), not)
				}
			}
			fl.nodes.resume()
			fl.net.Calm()
		})
	}
}
