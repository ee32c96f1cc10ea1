package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var ten = []string{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"}

func TestAllNamesAreHeldByOneHold(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		l := fl.locker("a", append(opts, WithPrefix("app:"))...)
		use(t, l) // the first call also tells the nodes the settings
		before := fl.nodes[0].Calls("evalsha")
		k := must(l.LockAll(t.Context(), []string{"c", "a", "b"}))(t)
		settleNetwork()
		equals(t, fl.nodes[0].Calls("evalsha")-before, 1, "script calls")
		equals(t, k.Name(), "a, b, c", "the name")
		for i, n := range fl.nodes {
			for _, name := range []string{"a", "b", "c"} {
				equals[any](t, n.Do("GET", "app:"+name), k.Owner(), "the owner of %s on node %d", name, i)
				between(t, n.Do("PTTL", "app:"+name).(int64), 9900, 10000, "PTTL of %s on node %d", name, i)
				var want any = fmt.Sprint(k.Token())
				if k.Token() == 0 {
					want = nil
				}
				equals[any](t, n.Do("ZSCORE", "app:redlock:tokens", "app:"+name), want, "the token of %s on node %d", name, i)
			}
		}
		succeeds(t, k.Unlock())
		settleNetwork()
		for _, key := range fl.leftovers() { // with the prefix
			if !strings.Contains(key, "redlock:") {
				t.Errorf("left: %s", key)
			}
		}
	})
}

func TestLockAllWithOneNameTaken(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		holder := must(fl.locker("holder", opts...).Lock(t.Context(), "a4"))(t)
		l := fl.locker("a", opts...)
		_, err := l.TryLockAll(t.Context(), ten)
		fails(t, err, ErrTaken)
		q, taken := quorumError(t, err), 0
		equals(t, q.Name, strings.Join(ten, ", "), "the names in the error")
		for _, n := range q.Nodes {
			if n.Outcome == outcomeTaken && n.Name == "a4" && n.Owner == holder.Owner() && n.Remaining > 0 {
				taken++
			}
		}
		between(t, taken, 2, 3, "nodes that say that a4 is taken and by which owner, in %v", err)
		settleNetwork()
		equals(t, len(fl.leftovers()), 3, "left, of a4 only: %v", fl.leftovers())
	})
}

func TestLockAllRefusesInvalidNames(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		var many []string
		for i := range 65 {
			many = append(many, fmt.Sprint("n", i))
		}
		for what, names := range map[string][]string{
			"none": {}, "nil": nil, "twice": {"a", "b", "a"}, "empty": {"a", ""}, "empty alone": {""},
			"too long": {"a", strings.Repeat("x", 513)}, "ours": {"a", "redlock:tokens"}, "too many": many,
		} {
			fails(t, errOf(l.LockAll(t.Context(), names)), ErrInvalid, what)
		}
		fails(t, errOf(l.LockAll(t.Context(), ten, WithTTL(0))), ErrInvalid, "TTL 0")
		ctx := cancelled(t)
		fails(t, errOf(l.LockAll(ctx, ten)), context.Canceled, "ctx done")
		k := must(l.LockAll(t.Context(), many[:64]))(t)
		succeeds(t, k.Unlock(), "64 names")
		if alone := must(l.LockAll(t.Context(), []string{"b"}))(t); alone.Name() != "b" {
			t.Errorf("one name: got %q", alone.Name())
		}
	})
}

func TestLockAllTokenIsLargerThanThatOfEachName(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		settleNetwork()
		ahead := l.tokens.propose(l.opts.clock.now()) + 500_000
		fl.nodes[1:4].do("ZADD", "redlock:tokens", fmt.Sprint(ahead), "a7")
		k := must(l.LockAll(t.Context(), ten))(t)
		settleNetwork()
		if k.Token() <= ahead {
			t.Errorf("token %d, want more than %d", k.Token(), ahead)
		}
		for _, name := range ten {
			between(t, fl.knowing(name, k.Token()), 3, 5, "nodes that know the token of the hold for %s", name)
		}
		last := k.Token()
		succeeds(t, k.Unlock())
		for _, name := range ten {
			k := must(fl.locker("b-"+name).Lock(t.Context(), name))(t)
			grows(t, k.Token(), last)
		}
	})
}

func TestLockAllIsRenewedAndRepaired(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		k := must(fl.locker("a", append(opts, WithTTL(3*time.Second))...).LockAll(t.Context(), ten))(t)
		time.Sleep(time.Minute)
		fl.nodes[1].Do("DEL", "a3", "a5") // forgets some
		time.Sleep(2 * time.Second)
		fl.nodes[2].Crash(false) // forgets all
		fl.nodes[2].Restart()
		time.Sleep(time.Minute)
		for _, name := range ten {
			fl.isHeld(name, 3)
		}
		if err := k.Extend(t.Context()); err != nil || k.Err() != nil {
			t.Errorf("after two minutes: %v, %v", err, k.Err())
		}
		succeeds(t, k.Unlock())
		fl.clean()
	})
}

func TestLockAllInsideAHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.LockAll(t.Context(), []string{"a", "b", "c"}))(t)
		ctx := newContext(t.Context(), k)
		within(t, 0, "joining", func() {
			for _, names := range [][]string{{"a", "b", "c"}, {"c", "a"}, {"b"}} {
				inner := must(l.LockAll(ctx, names))(t)
				equals(t, inner.Owner(), k.Owner(), "the owner of %v, which join the hold", names)
				succeeds(t, inner.Unlock())
			}
			inner := must(l.TryLock(ctx, "b"))(t)
			if inner.Owner() != k.Owner() || inner.Token() != k.Token() {
				t.Error("TryLock of one of the names: got a new hold")
			}
			succeeds(t, inner.Unlock())
		})
		// LockAll would wait for a hold that has only some of the names.
		single := must(l.Lock(t.Context(), "x"))(t)
		within(t, 0, "refusing", func() {
			failsSaying(t, errOf(l.LockAll(ctx, []string{"c", "d"})), ErrInvalid, `"a, b, c"`)
			fails(t, errOf(l.LockAll(newContext(ctx, single), []string{"a", "x"})), ErrInvalid, "covered by two holds")
		})
		succeeds(t, single.Unlock())
		if other := must(l.LockAll(ctx, []string{"d", "e"}))(t); other.Owner() == k.Owner() {
			t.Error("other names joined the hold")
		}
		succeeds(t, k.Unlock())
		if again := must(l.LockAll(ctx, []string{"a", "f"}))(t); again.Owner() == k.Owner() {
			t.Error("joined a hold that was unlocked")
		}
	})
}

func TestLockAllInsideALostHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.LockAll(t.Context(), ten, WithoutRenewal(), WithTTL(time.Second)))(t)
		<-k.Done()
		for _, names := range [][]string{ten, {"a1"}, {"a1", "other"}} {
			fails(t, errOf(l.LockAll(newContext(t.Context(), k), names)), ErrLost, names...)
		}
	})
}

func TestLockAllGivesNoTicket(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.LockAll(t.Context(), ten))(t)
		text, err := k.Ticket()
		if text != "" || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "several") || k.Err() != nil {
			t.Errorf("got ticket %q, %v and a hold with %v", text, err, k.Err())
		}
		fails(t, errOf(l.Adopt(t.Context(), text)), ErrInvalid)
	})
}
