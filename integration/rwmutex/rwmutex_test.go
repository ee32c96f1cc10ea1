// Package rwmutex_test has readers and writers on real masters, some of which are killed and stopped.
package rwmutex_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/sim"
)

const (
	name  = "stock:4711"
	ttl   = time.Second
	guard = 2 * time.Second
)

func TestMain(m *testing.M) { fleet.Main(m) }

// traffic is what readers and writers did.
type traffic struct {
	fleet         fleet.Fleet
	least         time.Time // when it may end
	history       sim.History
	reads, writes atomic.Int64
	together      atomic.Int64 // how often a reader found another one
	reading       atomic.Int64
	holds, long   atomic.Int64
	kills, stops  int
}

// Readers and writers in several processes' worth of Lockers, while masters are killed with
// SIGKILL, coming back empty, and stopped with SIGSTOP, never a majority at a time. No writer's validity may overlap
// anybody's, and writers' tokens must be in order.
func TestReadersAndWritersOnFailingMasters(t *testing.T) {
	// At least so long, and until enough has happened to prove something.
	length := 8 * time.Second
	if os.Getenv("REDLOCK_LONG") != "" {
		length = 2 * time.Minute
	}
	x := &traffic{fleet: fleet.StartSpec(t, 5, masters.Spec{}), least: time.Now().Add(length)}
	ctx, cancel := context.WithTimeout(t.Context(), length+3*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 6 {
		l := x.fleet.Locker(t, redlock.WithTTL(ttl), redlock.WithRestartGuard(guard))
		for range 2 {
			all.Go(func() { x.work(ctx, l, i < 2) })
		}
	}
	x.fail(ctx, t)
	cancel()
	all.Wait()
	for _, v := range x.history.Check(sim.Assume{Clocks: true}) {
		if v.Invariant != "honesty" { // a busy machine's timers and goroutines run late
			fleet.Unsafe(t, "%v", v)
		}
	}
	t.Logf("%d reads, %d of them beside others, %d writes, %d held beyond a TTL, %d kills, %d stops",
		x.reads.Load(), x.together.Load(), x.writes.Load(), x.long.Load(), x.kills, x.stops)
	if !x.enough() {
		t.Error("too little to prove anything")
	}
	x.fleet.WantCleanAfter(t, ttl+200*time.Millisecond)
}

// enough reports whether enough has happened to prove something.
func (x *traffic) enough() bool {
	return x.reads.Load() >= 50 && x.together.Load() >= 10 && x.writes.Load() >= 20 && x.long.Load() >= 2 &&
		x.kills >= 2 && x.stops >= 2
}

// work locks and unlocks until ctx is done: most writers write, and readers write now and then.
func (x *traffic) work(ctx context.Context, l *redlock.Locker, writer bool) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		acquire, reads := l.RWMutex(name).RLock, true
		if writer || rand.IntN(20) == 0 {
			acquire, reads = l.RWMutex(name).Lock, false
		}
		patience, cancel := context.WithTimeout(ctx, 3*time.Second)
		k, err := acquire(patience)
		cancel()
		if err == nil {
			x.hold(k, reads)
		}
	}
}

func (x *traffic) hold(k *redlock.Lock, reads bool) {
	// The attempt was begun before, at a time that only the order of tokens is judged by; the end of a full TTL before its
	// end is never later.
	start := k.Until().Add(-ttl)
	var h *sim.Hold
	if reads {
		h = x.history.GrantedToRead(name, "", start, k.Until())
		x.reads.Add(1)
		if x.reading.Add(1) > 1 {
			x.together.Add(1)
		}
		defer x.reading.Add(-1)
	} else {
		h = x.history.Granted(name, "", k.Token(), start, k.Until())
		x.writes.Add(1)
	}
	stay := time.NewTimer(time.Duration(1+rand.IntN(30)) * time.Millisecond)
	long := x.holds.Add(1)%40 == 0 // counted, not drawn: nearly all of the time goes to these
	if long {
		stay.Reset(ttl + ttl/2) // which only renewal makes possible
	}
	select {
	case <-stay.C:
		if long {
			x.long.Add(1)
		}
	case <-k.Done():
	}
	x.history.Renewed(h, k.Until())
	x.history.Releasing(h)
	if err := k.Unlock(context.Background()); err != nil && !errors.Is(err, redlock.ErrLost) &&
		!errors.Is(err, redlock.ErrNoQuorum) {
		panic(err) // no other error is possible
	}
}

// fail kills and stops masters until enough has happened: at most one that has forgotten, and one that is silent, at a
// time.
func (x *traffic) fail(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil && (time.Now().Before(x.least) || !x.enough()) {
		order := rand.Perm(len(x.fleet.Nodes))
		killed, stopped := x.fleet.Nodes[order[0]], x.fleet.Nodes[order[1]]
		fleet.Must(t, killed.Kill())
		x.kills++
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		fleet.Must(t, stopped.Pause())
		x.stops++
		fleet.Must(t, killed.StartEmpty())
		time.Sleep(time.Duration(200+rand.IntN(1200)) * time.Millisecond)
		fleet.Must(t, stopped.Resume())
		time.Sleep(guard + time.Second) // a majority must not have forgotten within the guard's period
	}
}
