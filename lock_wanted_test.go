package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Who waits, and for what: the holder learns of it in milliseconds, whether it asked before or after.
func TestWanted(t *testing.T) {
	lock := func(ctx context.Context, l *Locker) (*Lock, error) { return l.Lock(ctx, "job") }
	rlock := func(ctx context.Context, l *Locker) (*Lock, error) { return l.RLock(ctx, "job") }
	both := func(ctx context.Context, l *Locker) (*Lock, error) { return l.LockAll(ctx, []string{"job", "other"}) }
	permit := func(ctx context.Context, l *Locker) (*Lock, error) { return l.Semaphore("job", 1).Acquire(ctx) }
	try := func(ctx context.Context, l *Locker) (*Lock, error) { return l.TryLock(ctx, "job") }
	nested := func(ctx context.Context, l *Locker) (*Lock, error) {
		k, err := l.Lock(ctx, "job")
		if err != nil {
			return nil, err
		}
		inner, end := k.Context(ctx)
		defer end()
		_ = must(l.Lock(inner, "job"))(t).Unlock()
		return k, nil
	}
	for what, c := range map[string]struct {
		hold, wait func(context.Context, *Locker) (*Lock, error)
		waiter     string // "a" is the holder's process
		wanted     bool
	}{
		"lock, lock":                     {lock, lock, "b", true},
		"lock, lock in the same process": {lock, lock, "a", true},
		"lock, reader":                   {lock, rlock, "b", true},
		"lock, several":                  {lock, both, "b", true},
		"reader, lock":                   {rlock, lock, "b", true},
		"reader, reader":                 {rlock, rlock, "b", false},
		"several, lock":                  {both, lock, "b", true},
		"permit, permit":                 {permit, permit, "b", true},
		"lock, attempt":                  {lock, try, "b", false},
		"lock, nobody":                   {nested, nil, "", false},
	} {
		for _, early := range []bool{true, false} {
			subtest(t, what, 5, func(t *testing.T, fl *fleet) {
				fl.net.SetDelay(sim.Link{}, sim.Both, sim.Delay{})
				lockers := map[string]*Locker{"a": fl.locker("a"), "b": fl.locker("b")}
				k := must(c.hold(t.Context(), lockers["a"]))(t)
				if early {
					equals(t, isClosed(k.Wanted()), false, "wanted at once")
					time.Sleep(time.Minute)
					equals(t, isClosed(k.Wanted()), false, "wanted by nobody")
				}
				ctx, cancel := context.WithCancel(t.Context())
				got := async(func() *Lock {
					if c.wait == nil {
						return nil
					}
					k, _ := c.wait(ctx, lockers[c.waiter])
					return k
				})
				time.Sleep(atOnce)
				wanted := k.Wanted()
				time.Sleep(atOnce)
				equals(t, isClosed(wanted), c.wanted, "wanted")
				succeeds(t, k.Unlock())
				synctest.Wait()
				equals(t, isClosed(wanted) && isClosed(k.Wanted()), true, "closed at the end")
				if c.wait != nil && c.wanted {
					next := <-got
					equals(t, isClosed(next.Wanted()), false, "the next holder is wanted")
					succeeds(t, next.Unlock())
				}
				cancel()
			})
		}
	}
}

// One node's word is not believed: it may lie, or have the holder itself in its queue. Where nodes cannot notify the
// holder, it learns of a waiter by looking.
func TestWhoSaysThatALockIsWanted(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.deny("subscribe")
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		wanted := k.Wanted()
		fl.nodes[0].Do("ZADD", "redlock:wait:job", 0, "whoever")
		time.Sleep(time.Minute)
		equals(t, isClosed(wanted), false, "wanted, as one node says")
		fl.nodes[1].Do("ZADD", "redlock:wait:job", 0, "whoever")
		time.Sleep(unheard + atOnce)
		equals(t, isClosed(wanted), true, "wanted, as two say")
		unlock(t, k)
		fl.nodes.do("DEL", "redlock:wait:job")
	})
}
