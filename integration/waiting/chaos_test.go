package waiting_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
)

// chaos is contenders, some of which are killed and replaced.
type chaos struct {
	fleet   fleet.Fleet
	loss    int // how many of 100 messages are lost
	random  *rand.Rand
	present []*contender
	past    []*contender

	killedHolding, killedWaiting int
}

const contenders = 8

// Contenders are killed with SIGKILL, while they hold the lock and while they are queued,
// and on top of that the messages fail on which a quick hand-over rests.
func TestNobodyIsStuck(t *testing.T) {
	fleet.ParallelUnlessJudged(t)
	for _, c := range []struct {
		name    string
		spec    masters.Spec
		loss    int
		prepare func(t *testing.T, f fleet.Fleet)
		disturb func(ctx context.Context, t *testing.T, f fleet.Fleet)
	}{
		{name: "all messages arrive"},
		{name: "subscribers are disconnected", spec: withoutHello, disturb: disconnectSubscribers},
		{name: "half of the messages are lost", loss: 50},
		{name: "all messages are lost", loss: 100},
		{name: "publish and subscribe are forbidden", spec: asDefault, prepare: forbidMessages},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet.ParallelUnlessJudged(t)
			fleet.Measure(t, func(m *fleet.Measurement) {
				f := fleet.StartSpec(t, 5, c.spec) // forbidMessages outlives a FLUSHALL
				if c.prepare != nil {
					c.prepare(t, f)
				}
				seed := rand.Uint64()
				x := &chaos{fleet: f, loss: c.loss, random: rand.New(rand.NewPCG(seed, 0))}
				t.Logf("seed %d", seed)
				for range contenders {
					x.add(t)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				var disturbing sync.WaitGroup
				if c.disturb != nil {
					disturbing.Go(func() { c.disturb(ctx, t, f) })
				}
				x.run(ctx, t)
				cancel()
				disturbing.Wait()
				x.judge(m)
			})
		})
	}
}

func (x *chaos) add(t *testing.T) {
	t.Helper()
	x.present = append(x.present, startContender(t, x.fleet.Nodes, x.loss, 2*time.Second))
}

// run kills waiters all the time, and a holder whenever the lock has gone round for a while,
// for some time and until that was often enough to prove something.
func (x *chaos) run(ctx context.Context, t *testing.T) {
	t.Helper()
	least := time.Now().Add(fleet.Sized(2500*time.Millisecond, 30*time.Second))
	nextHolder := time.Now().Add(ttl / 3)
	for ctx.Err() == nil && (time.Now().Before(least) || !x.enough()) {
		time.Sleep(time.Duration(50+x.random.IntN(200)) * time.Millisecond)
		wantHolder := time.Now().After(nextHolder)
		if at := x.find(ctx, wantHolder); at >= 0 {
			held, waited := x.present[at].kill(t)
			switch {
			case held:
				x.killedHolding++
				nextHolder = time.Now().Add(ttl + time.Second)
			case waited:
				x.killedWaiting++
			}
			x.past = append(x.past, x.present[at])
			x.present = append(x.present[:at], x.present[at+1:]...)
			x.add(t)
			x.goOn(ctx, time.Now())
		}
	}
}

// enough reports whether contenders were killed as often as the test wants at least.
func (x *chaos) enough() bool {
	want := fleet.Sized(1, 8)
	return x.killedHolding >= want && x.killedWaiting >= 2*want
}

// goOn returns when the lock has been granted once more after the time: so nobody suffers from two deaths at once.
// A waiter may be the holder already and not know it.
func (x *chaos) goOn(ctx context.Context, after time.Time) {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		for _, c := range x.present {
			if c.granted().After(after) {
				return
			}
		}
	}
}

// find returns a contender that holds the lock, or one that waits; -1 where there is none any more.
func (x *chaos) find(ctx context.Context, holder bool) int {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Microsecond) {
		for _, at := range x.random.Perm(len(x.present)) {
			if holds, waits := x.present[at].doing(); holder && holds || !holder && waits {
				return at
			}
		}
	}
	return -1
}

func (x *chaos) judge(m *fleet.Measurement) {
	m.Helper()
	t := m.T
	var all history
	for _, c := range x.present {
		c.stop(t)
	}
	for _, c := range append(x.past, x.present...) {
		all = append(all, c.waits...)
	}
	v := tokens.Judge(all.holds())
	longest, stall := all.longest()
	t.Logf("%d killed while holding, %d while waiting; longest stall %v, longest wait %v; %v",
		x.killedHolding, x.killedWaiting, stall.Round(time.Millisecond), longest.Round(time.Millisecond), v)
	if v.Violations() > 0 {
		fleet.Unsafe(t, "holds are not in order: %v", v)
	}
	m.Bound(stall <= ttl+backoff+slack, "nobody held the lock for %v while somebody waited, want at most %v",
		stall, ttl+backoff+slack)
	if !x.enough() || v.Holds < fleet.Sized(4, 32) {
		t.Errorf("too little to prove anything: %d killed while holding, %d while waiting, %d holds",
			x.killedHolding, x.killedWaiting, v.Holds)
	}
	// A waiter that is killed just when a node hands the lock to it keeps it there for a TTL, and behind it in the queue
	// may be one that was killed before. If all others have left by then, that place stays for 30 s unless somebody comes
	// to this node after that TTL: a lock needs a majority of the nodes only, and does not wait for it.
	time.Sleep(ttl)
	last, err := x.fleet.Locker(t, redlock.WithTTL(ttl)).Lock(t.Context(), name)
	fleet.Must(t, err)
	fleet.Must(t, last.Unlock())
	x.fleet.WantCleanAfter(t, ttl+100*time.Millisecond)
}

// disconnectSubscribers ends all subscriptions, all the time. They must have connections of their own, so that nothing
// else ends.
func disconnectSubscribers(ctx context.Context, t *testing.T, f fleet.Fleet) {
	t.Helper()
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		for _, n := range f.Nodes {
			if _, err := n.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
				t.Error(err)
			}
		}
	}
}

func forbidMessages(t *testing.T, f fleet.Fleet) {
	t.Helper()
	forbid(t, f, "publish")
	forbid(t, f, "subscribe")
}

// A waiter that is frozen, or behind a network that is cut, looks alive to the
// nodes: the lock is handed to it, and given on when a second has passed. This is
// the one case in which a waiter costs those behind it anything.
func TestAWaiterThatIsCutOffCostsALease(t *testing.T) {
	fleet.ParallelUnlessJudged(t)
	f := fleet.Start(t, 5)
	for _, cut := range fleet.Sized([]int{2}, []int{1, 2, 3}) {
		fleet.Measure(t, func(m *fleet.Measurement) {
			holder := f.Locker(t, redlock.WithTTL(fleet.Long)) // which no standstill ends
			k, err := holder.Lock(t.Context(), name)
			fleet.Must(t, err)
			var frozen []*contender
			for range cut {
				c := startContender(t, f.Nodes, 0, 250*time.Millisecond)
				frozen = append(frozen, c)
				fleet.Eventually(t, "it waits", func() bool { _, waits := c.doing(); return waits })
				fleet.Eventually(t, "it is in the queue of each node, and subscribed",
					func() bool { return queued(t, f, len(frozen)) })
				fleet.Must(t, c.Signal(syscall.SIGSTOP))
			}
			next := f.Locker(t, redlock.WithTTL(ttl))
			got := make(chan error, 1)
			go func() {
				k, err := next.Lock(t.Context(), name)
				if err == nil {
					err = k.Unlock()
				}
				got <- err
			}()
			fleet.Eventually(t, "the next one is in the queue", func() bool { return queued(t, f, cut+1) })
			released := time.Now()
			fleet.Must(t, k.Unlock())
			fleet.Must(t, <-got)
			waited, limit := time.Since(released), time.Duration(cut)*(time.Second+backoff)+slack
			m.Bound(waited <= limit, "with %d waiters cut off the next one waited for %v, want at most %v",
				cut, waited.Round(time.Millisecond), limit)
			for _, c := range frozen {
				c.kill(t)
			}
			f.WantCleanAfter(t, ttl)
		})
	}
}

// queued reports whether so many wait in the queue of each node, with a subscription.
func queued(t *testing.T, f fleet.Fleet, want int) bool {
	t.Helper()
	for _, n := range f.Nodes {
		waiting, err := redis.Int(n.Do("ZCARD", "redlock:wait:"+name))
		fleet.Must(t, err)
		info, err := n.Info("clients")
		fleet.Must(t, err)
		if listening, _ := strconv.Atoi(info["pubsub_clients"]); waiting < want ||
			info["pubsub_clients"] != "" && listening < want {
			return false
		}
	}
	return true
}
