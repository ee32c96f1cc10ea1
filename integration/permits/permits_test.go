// Package permits_test shows on real masters that a semaphore never has more holders than permits, whatever becomes of
// the masters one at a time.
package permits_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
)

// A hundred thousand acquisitions instead of a few thousand.
var long = flag.Bool("long", os.Getenv("REDLOCK_LONG") != "", "run at full size: minutes instead of seconds")

func TestMain(m *testing.M) { fleet.Main(m) }

const (
	nodes   = 5
	permits = 4
	lockers = 4
	workers = 8 // of each
	ttl     = time.Second
	guard   = 2 * time.Second
)

// size is what a run must reach: with less of anything it proves nothing.
type size struct {
	acquisitions, kills, freezes int64
}

// run is what happens.
type run struct {
	*testing.T
	size
	fleet                    fleet.Fleet
	start                    time.Time
	acquired, kills, freezes atomic.Int64
	taken, noQuorum, ended   atomic.Int64 // how attempts and holds failed
	outlived                 atomic.Int64 // holds kept to the end of their validity

	mu    sync.Mutex
	holds []tokens.Hold // Name is the slot
}

func TestNeverMoreHoldersThanPermits(t *testing.T) {
	r := &run{T: t, size: size{3000, 1, 1}, fleet: fleet.StartSpec(t, nodes, masters.Spec{}), start: time.Now()}
	if *long {
		r.size = size{100_000, 10, 10}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seed := rand.Uint64()
	var all sync.WaitGroup
	for i := range lockers {
		l := r.fleet.Locker(t, redlock.WithTTL(ttl), redlock.WithRestartGuard(guard),
			redlock.WithNodeTimeout(200*time.Millisecond))
		s := l.Semaphore("gpu", permits)
		for j := range workers {
			random := rand.New(rand.NewPCG(seed, uint64(i*workers+j)))
			all.Go(func() {
				for ctx.Err() == nil {
					r.take(ctx, s, random)
				}
			})
		}
	}
	time.Sleep(guard + 1500*time.Millisecond) // masters that have just been started do not vote
	r.breakNodes(rand.New(rand.NewPCG(seed, 1<<32)))
	stop()
	all.Wait()
	took := time.Since(r.start)

	most, over := crowd(r.holds)
	verdict := tokens.Judge(r.holds)
	t.Logf("seed %d: %d acquisitions of %d permits in %v (%d kept to the end, %d ended early), "+
		"%d attempts found all taken, %d found too few nodes; "+
		"%d masters killed and restarted empty, %d frozen; %d holders at most, %d violations; %s",
		seed, r.acquired.Load(), permits, took.Round(time.Second), r.outlived.Load(), r.ended.Load(), r.taken.Load(),
		r.noQuorum.Load(), r.kills.Load(), r.freezes.Load(), most, over, verdict)
	if over != 0 {
		fleet.Unsafe(t, "%d holders at most and %d grants to too many, want %d and 0", most, over, permits)
	}
	if most != permits {
		t.Errorf("%d holders at most: %d permits were never all held", most, permits)
	}
	if !verdict.Ordered() || verdict.Overlaps != 0 || verdict.LateGrants != 0 {
		fleet.Unsafe(t, "the slots' histories: %s", verdict)
	}
	if r.acquired.Load() < r.acquisitions || r.kills.Load() < r.size.kills || r.freezes.Load() < r.size.freezes {
		t.Errorf("too little happened, want %+v", r.size)
	}
	r.fleet.WantClean(t)
}

// take acquires, holds and unlocks once.
func (r *run) take(ctx context.Context, s *redlock.Semaphore, random *rand.Rand) {
	var opts []redlock.Option
	stay := time.Duration(random.IntN(2000)) * time.Microsecond
	switch random.IntN(500) {
	case 0: // outlived
		opts = append(opts, redlock.WithTTL(ttl/4), redlock.WithoutRenewal())
		stay = ttl
	case 1: // renewed, through faults
		stay = 2 * ttl
	}
	acquire := s.Acquire
	if random.IntN(10) == 0 {
		acquire = s.TryAcquire
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	h := tokens.Hold{Asked: time.Since(r.start)}
	k, err := acquire(waiting, opts...)
	h.Granted = time.Since(r.start)
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrTaken):
		r.taken.Add(1)
		time.Sleep(time.Millisecond)
		return
	default:
		r.noQuorum.Add(1)
		time.Sleep(time.Millisecond)
		return
	}
	timer := time.NewTimer(stay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.Done():
	}
	h.Ended = min(time.Since(r.start), k.Until().Sub(r.start))
	switch {
	case k.Err() == nil:
	case opts != nil:
		r.outlived.Add(1)
	default:
		r.ended.Add(1)
	}
	_ = k.Unlock(ctx)
	slot, err := strconv.Atoi(k.Name()[strings.LastIndexByte(k.Name(), ':')+1:])
	if err != nil {
		r.Errorf("a permit's name is %q", k.Name())
	}
	h.Name, h.Token = int32(slot), k.Token()
	r.acquired.Add(1)
	r.mu.Lock()
	r.holds = append(r.holds, h)
	r.mu.Unlock()
}

// breakNodes kills or freezes one master at a time until there is enough of everything. A killed one is left alone
// until it votes again.
func (r *run) breakNodes(random *rand.Rand) {
	deadline := time.Now().Add(20 * time.Minute)
	for turn := 0; time.Now().Before(deadline); turn++ {
		if r.acquired.Load() >= r.acquisitions && r.kills.Load() >= r.size.kills && r.freezes.Load() >= r.size.freezes {
			return
		}
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		n := r.fleet.Nodes[random.IntN(nodes)]
		down := time.Duration(random.Int64N(int64(ttl)))
		if turn%2 == 0 {
			fleet.Must(r.T, n.Kill())
			time.Sleep(down)
			fleet.Must(r.T, n.Start())
			r.kills.Add(1)
			time.Sleep(guard + 1100*time.Millisecond)
		} else {
			fleet.Must(r.T, n.Pause())
			time.Sleep(2 * down)
			fleet.Must(r.T, n.Resume())
			r.freezes.Add(1)
		}
	}
}

// crowd returns how many held at once at most, by the intervals in which they trusted their holds, and how often
// one was granted to too many. Where a hold ends and another begins at one moment, they did not meet.
func crowd(holds []tokens.Hold) (most, over int) {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, h := range holds {
		if h.Granted < h.Ended {
			changes = append(changes, change{h.Granted, 1}, change{h.Ended, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by
	})
	now := 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
		if c.by > 0 && now > permits {
			over++
		}
	}
	return most, over
}

// The judge finds what is wrong.
func TestACrowdIsSeen(t *testing.T) {
	hold := func(from, to time.Duration) tokens.Hold { return tokens.Hold{Granted: from, Ended: to} }
	holds := []tokens.Hold{hold(0, 10), hold(1, 10), hold(2, 10), hold(3, 10), hold(10, 20)}
	if most, over := crowd(holds); most != permits || over != 0 {
		t.Errorf("got %d and %d, want %d and 0", most, over, permits)
	}
	if most, over := crowd(append(holds, hold(9, 10))); most != permits+1 || over != 1 {
		t.Errorf("one too many: got %d and %d", most, over)
	}
}
