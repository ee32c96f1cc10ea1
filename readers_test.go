package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

func unlock(t testing.TB, k *Lock) {
	t.Helper()
	succeeds(t, k.Unlock())
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b, plain := fl.locker("a"), fl.locker("b"), fl.locker("c")
		taken := func(what string, try func(context.Context, string, ...LockOption) (*Lock, error)) {
			t.Helper()
			fails(t, errOf(try(t.Context(), "job")), ErrTaken, what)
		}

		first, second := must(a.RLock(t.Context(), "job"))(t), must(b.TryRLock(t.Context(), "job"))(t)
		third := must(a.TryRLock(t.Context(), "job"))(t)
		if first.Token() != 0 || second.Token() != 0 {
			t.Errorf("readers have tokens %d and %d", first.Token(), second.Token())
		}
		taken("writer beside readers", a.TryLock)
		taken("plain lock beside readers", plain.TryLock)
		for _, n := range fl.nodes {
			equals(t, n.Do("SET", "job", "foreign", "NX", "PX", "1000"), nil, "a foreign client's SET NX beside readers")
		}
		unlock(t, first)
		unlock(t, third)
		taken("writer beside the last reader", a.TryLock)
		unlock(t, second)

		writer := must(b.Lock(t.Context(), "job"))(t)
		if writer.Token() == 0 {
			t.Error("the writer has no token")
		}
		taken("reader beside a writer", a.TryRLock)
		taken("writer beside a writer", a.TryLock)
		unlock(t, writer)

		held := must(plain.TryLock(t.Context(), "job"))(t)
		grows(t, held.Token(), writer.Token())
		taken("reader beside a plain lock", a.TryRLock)
		unlock(t, held)
		fl.clean()
	})
}

// A reader's hold is renewed, lost, and ended by WithMaxHold like any other.
func TestReadersLeasesEndOneByOne(t *testing.T) {
	const ttl = time.Second
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		renewed := must(fl.locker("a", WithTTL(ttl)).RLock(t.Context(), "job"))(t)
		short := must(fl.locker("b", WithTTL(ttl)).RLock(t.Context(), "job", WithoutRenewal()))(t)
		capped := must(fl.locker("c", WithTTL(ttl)).RLock(t.Context(), "job", WithMaxHold(2*ttl)))(t)
		left := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, k := range []*Lock{renewed, short, capped} {
				if k.Err() == nil {
					got += "h"
				} else {
					got += "-"
				}
			}
			if got != want || fl.holding("job") != 3 {
				t.Errorf("at %v: got %s on %d nodes, want %s on 3", time.Now(), got, fl.holding("job"), want)
			}
		}
		left("hhh")
		time.Sleep(3 * ttl / 2)
		left("h-h")
		fails(t, short.Err(), ErrLost, "without renewal")
		time.Sleep(ttl)
		left("h--")
		fails(t, capped.Err(), ErrMaxHold, "with a longest hold")
		time.Sleep(ttl / 2) // the nodes keep its lease until its validity ends
		succeeds(t, renewed.Extend(t.Context()), "extend")
		for i := range 3 {
			equals[any](t, fl.nodes[i].Do("ZCARD", "redlock:read:job"), int64(1), "readers on node %d", i)
		}
		unlock(t, renewed)
		fl.clean()
	})
}

// A crashed reader delays a writer until the end of its lease. A reader that has unlocked does not, even if its lease
// was longer.
func TestWriterWaitsForTheRemainingLeases(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		long := must(fl.locker("long").RLock(t.Context(), "job", WithTTL(20*time.Second)))(t)
		_ = must(fl.locker("gone").RLock(t.Context(), "job", WithTTL(2*time.Second), WithoutRenewal()))(t)
		time.Sleep(ms)
		unlock(t, long)
		l := fl.locker("writer")
		within(t, 2*time.Second+10*ms, "the write lock", func() { unlock(t, must(l.Lock(t.Context(), "job"))(t)) })
		fl.clean()
	})
}

// Where the set of leases is gone, and a node refuses what a script does next, the set that it made still ends.
func TestARefusedReleaseLeavesNoLeases(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		reader := must(fl.locker("a", WithTTL(time.Second)).RLock(t.Context(), "job"))(t)
		fl.nodes.do("DEL", "redlock:read:job")
		fl.nodes.deny("zrem")
		fails(t, reader.Unlock(), ErrNoQuorum, "unlock")
		time.Sleep(2 * time.Second)
		fl.nodes.deny()
		fl.clean()
	})
}

func TestReadHoldsAndContexts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		reader := must(l.RLock(t.Context(), "job"))(t)
		ctx := newContext(t.Context(), reader)
		inner := must(l.RLock(ctx, "job"))(t)
		equals(t, inner.Owner(), reader.Owner(), "a read inside a read did not join it")
		for what, lock := range map[string]func() (*Lock, error){
			"Lock":    func() (*Lock, error) { return l.Lock(ctx, "job") },
			"TryLock": func() (*Lock, error) { return l.TryLock(ctx, "job") },
		} {
			within(t, 0, what, func() {
				failsSaying(t, errOf(lock()), ErrInvalid, "read hold")
			})
		}
		fails(t, errOf(fl.locker("b").TryLock(ctx, "job")), ErrTaken, "another Locker")
		if text, err := reader.Ticket(); text != "" || !errors.Is(err, ErrInvalid) || reader.Err() != nil {
			t.Errorf("a reader's ticket: got %q, %v and %v, want ErrInvalid and a valid hold", text, err, reader.Err())
		}
		unlock(t, reader)
		succeeds(t, inner.Err(), "the hold ended before its last handle")
		unlock(t, inner)

		writer := must(l.Lock(ctx, "job"))(t) // the read hold has ended, so the writer need not wait for it
		ctx = newContext(t.Context(), writer)
		inner = must(l.RLock(ctx, "job"))(t)
		if inner.Owner() != writer.Owner() || inner.Token() != writer.Token() {
			t.Error("a read inside a write did not join it")
		}
		again := must(l.Lock(newContext(ctx, inner), "job"))(t)
		unlock(t, again)
		unlock(t, inner)
		unlock(t, writer)
		fl.clean()
	})
}

// Readers that wait behind a writer all get the lock as soon as it unlocks, even if they are in the same process. A
// writer that came after them gets it when they have unlocked.
func TestReadersGetTheirTurnTogether(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		const hold = 50 * ms
		never := withBackoff(never)
		writer := must(fl.locker("w").Lock(t.Context(), "job"))(t)
		var all sync.WaitGroup
		inside := make(chan time.Time, 20)
		for i := range 5 {
			l := fl.locker(fmt.Sprint(i), never)
			for range 4 {
				all.Go(func() {
					k := must(l.RLock(t.Context(), "job"))(t)
					inside <- time.Now()
					time.Sleep(hold)
					unlock(t, k)
				})
			}
		}
		time.Sleep(20 * ms)
		next := fl.locker("next", never)
		all.Go(func() { unlock(t, must(next.Lock(t.Context(), "job"))(t)) })
		time.Sleep(20 * ms)
		late := fl.locker("late", never)
		all.Go(func() { unlock(t, must(late.RLock(t.Context(), "job"))(t)) })
		time.Sleep(20 * ms)
		released := time.Now()
		unlock(t, writer)
		for range 20 {
			between(t, (<-inside).Sub(released), 0, 10*ms, "a reader's wait after the release")
		}
		within(t, hold+20*ms, "the next writer and the last reader", all.Wait)
		fl.clean()
	})
}

// A writer that dies while it waits keeps new readers out for a lease, even if the readers ahead of it hold the lock
// for longer; so do several that died, and what else waits among them.
func TestDeadWritersKeepReadersOutForALease(t *testing.T) {
	for what, die := range map[string]func(*fleet, sim.Link){
		"killed":  func(fl *fleet, l sim.Link) { fl.net.Refuse(l); fl.net.Reset(l) },
		"cut off": func(fl *fleet, l sim.Link) { fl.net.Drop(l, sim.Both) },
	} {
		for _, crowd := range [][]string{
			{"Lock"}, {"LockAll"}, {"Lock", "RLock", "LockAll", "without tokens", "RLock", "Lock"},
		} {
			subtest(t, fmt.Sprint(what, crowd), 3, func(t *testing.T, fl *fleet) {
				reader := must(fl.locker("r").RLock(t.Context(), "job"))(t)
				for i, kind := range crowd {
					w := fl.locker(fmt.Sprint("w", i))
					go func() { _, _ = calls[kind](t.Context(), w) }()
					time.Sleep(50 * ms)
				}
				l, waiting := fl.locker("a"), fl.locker("b")
				fails(t, errOf(l.TryRLock(t.Context(), "job")), ErrTaken, "while a writer waits")
				for i := range crowd {
					die(fl, sim.Link{Client: fmt.Sprint("w", i)})
				}
				within(t, time.Second+750*ms, "reads", func() {
					together(20, func(i int) {
						unlock(t, must([]*Locker{l, waiting}[i%2].RLock(t.Context(), "job"))(t))
					})
				})
				time.Sleep(time.Second)
				within(t, 20*ms, "a new read", func() { unlock(t, must(l.TryRLock(t.Context(), "job"))(t)) })
				for i, n := range fl.nodes {
					equals[any](t, n.Do("ZCARD", "redlock:wait:job"), int64(0), "places of the dead on node %d", i)
				}
				unlock(t, reader)
				within(t, time.Second+750*ms, "a write", func() {
					unlock(t, must(l.Lock(t.Context(), "job"))(t))
				})
				fl.net.Calm()
			})
		}
	}
}

// A writer that lives keeps new readers out for as long as it waits, though readers hold the lock for longer than a
// lease, however long its pauses are, and wherever it stood when it asked last.
func TestAWriterKeepsReadersOutForLongerThanALease(t *testing.T) {
	for _, ahead := range []int{0, 30} {
		subtest(t, fmt.Sprint(ahead), 3, func(t *testing.T, fl *fleet) {
			const hold = 3 * time.Second
			holder := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			for i := range ahead {
				l := fl.locker(fmt.Sprint(i))
				go func() {
					k := must(l.RLock(t.Context(), "job"))(t)
					time.Sleep(hold)
					unlock(t, k)
				}()
			}
			if ahead == 0 {
				unlock(t, holder)
				holder = must(fl.locker("reader").RLock(t.Context(), "job"))(t)
			}
			time.Sleep(300 * ms)
			dead, w := fl.locker("dead"), fl.locker("w", withBackoff(pollInterval(20*time.Second, 30*time.Second)))
			ctx, stop := context.WithTimeout(t.Context(), 10*hold)
			go func() { _, _ = dead.Lock(t.Context(), "job") }()
			time.Sleep(50 * ms)
			got := async(func() error {
				k, err := w.Lock(ctx, "job")
				if err == nil {
					unlock(t, k)
				}
				return err
			})
			time.Sleep(50 * ms)
			fl.net.Drop(sim.Link{Client: "dead"}, sim.Both)
			var all sync.WaitGroup
			for i := range 6 {
				l := fl.locker(fmt.Sprint("late", i))
				all.Go(func() {
					time.Sleep(time.Duration(i) * hold / 6)
					takeTurns(ctx, t, l, calls["RLock"], hold)
				})
			}
			if ahead == 0 {
				time.Sleep(hold)
			}
			unlock(t, holder)
			within(t, hold+1500*ms, "the writer's turn", func() { succeeds(t, <-got) })
			stop()
			all.Wait()
			fl.net.Calm()
		})
	}
}

// A reader still waits on a node on which an extension has given it a lease since. The next reader there lets it in:
// that must not cut the lease, on which the hold counts, to that of a hand-over, nor end it where nobody is told.
func TestAReadersHoldIsNotCutToALease(t *testing.T) {
	for name, hears := range map[string]bool{"it is told": true, "it is not told": false} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			a, b, c := fl.locker("a"), fl.locker("b"), fl.locker("c")
			if !hears {
				fl.nodes[2].Deny("subscribe")
			}
			fl.nodes[2].Do("SET", "job", "another", "PX", 3000)
			former := must(c.Lock(t.Context(), "job"))(t)
			got := async(func() *Lock { return must(a.RLock(t.Context(), "job"))(t) })
			time.Sleep(100 * ms)
			succeeds(t, former.Unlock())
			k := <-got
			settleNetwork()
			equals[any](t, fl.nodes[2].Do("ZCARD", "redlock:wait:job"), int64(1), "waiters where another owner has it")
			time.Sleep(time.Second / 2) // the lease is whole by now
			fl.cut("a", 0)
			for fl.nodes[0].Do("EXISTS", "job") == int64(1) {
				time.Sleep(100 * ms)
			}
			for time.Until(k.Deadline()) < 9*time.Second { // an extension that the last two nodes answer
				time.Sleep(10 * ms)
			}
			other := must(b.RLock(t.Context(), "job"))(t)
			succeeds(t, other.Unlock())
			time.Sleep(1500 * ms)
			w, err := c.TryLock(t.Context(), "job")
			if reads := k.Err(); err == nil && reads == nil {
				t.Errorf("%v beside a reader whose hold is valid until %v", w, k.Deadline())
			} else if reads != nil || !errors.Is(err, ErrTaken) {
				t.Errorf("the reader: %v; the writer: %v, want ErrTaken", reads, err)
			}
		})
	}
}

// The modelled servers sort "ab" before "aa", as real ones do with the locale da_DK, but in sorted sets.
func TestAReaderDoesNotPassAWriterOnADanishServer(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		first := must(fl.locker("a").RLock(t.Context(), "job"))(t)
		b, c := fl.locker("b"), fl.locker("c")
		const tick = 0x100 * ms
		time.Sleep(0x1aa*tick + tick/2 - time.Duration(b.tokens.time(b.opts.clock.now())/1000&0xffff)*ms)
		writer := async(func() *Lock { return must(b.Lock(context.Background(), "job"))(t) })
		time.Sleep(tick)
		reader := async(func() *Lock { return must(c.RLock(context.Background(), "job"))(t) })
		time.Sleep(tick)
		equals(t, len(reader), 0, "readers that have passed the writer")
		succeeds(t, first.Unlock())
		k := <-writer
		equals(t, k.Owner()[9:11], "aa", "what the writer's owner has for the time")
		succeeds(t, k.Unlock())
		succeeds(t, (<-reader).Unlock())
	})
}
