package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// A server that does not know SCRIPT gets the source of a script with the first call of it.
func TestServersWithoutScript(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--rename-command", "SCRIPT", ""}})
	k := fleet.Lock(t, f.Locker(t, redlock.WithTTL(fleet.Long)), "n")
	allGrant(t, f, k)
	cases.NoError(t, k.Unlock())
}

// Real masters tell another client at once who holds the lock, with which value, and that it is taken away.
func TestAWatchIsTold(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	holder, watcher := f.Locker(t, redlock.WithTTL(fleet.Long)), f.Locker(t)
	var k *redlock.Lock
	for i, err := range watcher.Watch(t.Context(), "n") {
		switch {
		case err != nil:
			t.Log(err) // the machine was busy
		case k == nil:
			k = fleet.Lock(t, holder, "n", redlock.WithValue("first"))
		case i.Owner == k.Owner() && i.Value == "first":
			cases.NoError(t, k.SetValue(t.Context(), "second"))
		case i.Owner == k.Owner() && i.Value == "second":
			cases.NoError(t, watcher.ForceUnlock(t.Context(), "n", k.Owner()))
		case i.Owner == "":
			fleet.Eventually(t, "the holder is told, too", func() bool { return k.Err() != nil })
			return
		}
	}
}

// allGrant waits until all nodes have granted the lock. One that answered too late does so when it is extended.
func allGrant(t *testing.T, f fleet.Fleet, k *redlock.Lock) {
	t.Helper()
	fleet.Eventually(t, "all nodes have granted", func() bool {
		cases.NoError(t, k.Extend(t.Context()))
		return f.Holders(t, k.Name(), k.Owner()) == len(f.Nodes)
	})
}

// poison puts dead waiters into the queue of the name n, before all others.
const poison = `for i = ARGV[1], ARGV[1] + 999 do
	redis.call('ZADD', 'redlock:wait:n', 0, string.format('00000000-0000-7000-8000-%012d ', i) ..
		'0000000000000001 0000000010000 nobody')
end
return redis.call('SADD', 'redlock:waiting', 'n')`

// A release looks at a thousand of a hundred thousand dead waiters. One that lives still gets the lock: each of its
// questions looks at as many more.
func TestAHundredThousandDeadWaiters(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	l := f.Locker(t, redlock.WithTTL(fleet.Long))
	left := func(want int64) bool {
		for _, n := range f.Nodes {
			if left, err := n.Do("ZCARD", "redlock:wait:n"); err != nil || left != want {
				return false
			}
		}
		return true
	}
	k := fleet.Lock(t, l, "n")
	allGrant(t, f, k)
	before := map[string]int{}
	for _, n := range f.Nodes {
		for first := range 100 { // each within a moment, also beside other work
			cases.Must(n.Do("EVAL", poison, 0, first*1_000))(t)
		}
		stats := cases.Must(n.CommandStats())(t)
		before[n.Addr()] = stats["publish"]
	}
	cases.NoError(t, k.Unlock())
	fleet.Eventually(t, "each node has taken a thousand places", func() bool { return left(99_000) })
	for _, n := range f.Nodes {
		stats := cases.Must(n.CommandStats())(t)
		if got := stats["publish"] - before[n.Addr()]; got != 1000 {
			t.Errorf("%s: a release published %d messages, want 1000", n.Addr(), got)
		}
	}

	for _, n := range f.Nodes { // it would take another minute
		cases.Must(n.Do("ZREMRANGEBYRANK", "redlock:wait:n", 0, 88_999))(t)
	}
	k = fleet.Lock(t, l, "n")
	allGrant(t, f, k)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	waiter, got := f.Locker(t, redlock.WithTTL(fleet.Long)), make(chan error)
	go func() {
		_, err := waiter.Lock(ctx, "n")
		got <- err
	}()
	fleet.Eventually(t, "another client waits", func() bool { return left(10_001) })
	cases.NoError(t, k.Unlock())
	cases.NoError(t, <-got)
}
