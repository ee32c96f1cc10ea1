// Package several_test shows on real masters that holds of several names, and of single ones among them,
// exclude each other name by name while masters are killed, emptied and frozen.
package several_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
)

// What runs always takes some seconds.
var long = flag.Bool("long", os.Getenv("REDLOCK_LONG") != "", "run at full size: minutes instead of seconds")

func TestMain(m *testing.M) { fleet.Main(m) }

const (
	ttl   = 1500 * time.Millisecond
	names = 6
)

// history is who held what, by the clock of this process.
type history struct {
	begun time.Time

	mu      sync.Mutex // guards the fields below
	holds   []tokens.Hold
	several int
	lost    int
}

// record adds a hold of each of the lock's names.
func (h *history) record(wanted []int, k *redlock.Lock, asked, granted, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(wanted) > 1 {
		h.several++
	}
	for _, name := range wanted {
		h.holds = append(h.holds, tokens.Hold{
			Name: int32(name), Token: k.Token(),
			Asked: asked.Sub(h.begun), Granted: granted.Sub(h.begun), Ended: ended.Sub(h.begun),
		})
	}
}

// contend locks random sets of names until ctx is done.
func (h *history) contend(ctx context.Context, t *testing.T, l *redlock.Locker, r *rand.Rand) {
	t.Helper()
	for ctx.Err() == nil {
		wanted := r.Perm(names)[:1+r.IntN(names)]
		var called []string
		for _, i := range wanted {
			called = append(called, fmt.Sprint("name:", i))
		}
		asked := time.Now()
		k, err := l.LockAll(ctx, called)
		granted := time.Now()
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("LockAll failed before its context ended: %v", err)
			}
			return
		}
		select {
		case <-k.Done():
		case <-time.After(time.Duration(r.IntN(int(8 * time.Millisecond)))):
		}
		ended, until := time.Now(), k.Until()
		if ended.After(until) {
			ended = until
		}
		h.record(wanted, k, asked, granted, ended)
		if err := k.Unlock(context.WithoutCancel(ctx)); errors.Is(err, redlock.ErrLost) {
			h.mu.Lock()
			h.lost++
			h.mu.Unlock()
		}
	}
}

func TestSeveralNamesExcludeEachOther(t *testing.T) {
	f := fleet.StartSpec(t, 5, masters.Spec{})
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	// At least so long, and until enough has happened to prove something.
	least := time.Now().Add(8 * time.Second)
	if *long {
		least = time.Now().Add(2 * time.Minute)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := &history{begun: time.Now()}
	var contenders sync.WaitGroup
	for p := range 4 {
		// One master at a time is emptied, and is up again before the next: so a majority remembers, without the guard.
		l := f.Locker(t, redlock.WithTTL(ttl), redlock.WithNodeTimeout(250*time.Millisecond))
		for g := range 2 {
			r := rand.New(rand.NewPCG(seed, uint64(1+10*p+g)))
			contenders.Go(func() { h.contend(ctx, t, l, r) })
		}
	}
	kills, freezes := 0, 0
	enough := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.several >= 100 && kills >= 2 && freezes >= 2
	}
	for turn := 0; ctx.Err() == nil && (time.Now().Before(least) || !enough()); turn++ {
		n := f.Nodes[random.IntN(len(f.Nodes))]
		if turn%2 == 0 {
			fleet.Must(t, n.Kill())
			time.Sleep(time.Duration(random.IntN(int(ttl / 3))))
			// What it has forgotten has ended when its votes count again.
			time.Sleep(ttl)
			fleet.Must(t, n.StartEmpty())
			kills++
		} else {
			fleet.Must(t, n.Pause())
			time.Sleep(time.Duration(random.IntN(int(ttl))))
			fleet.Must(t, n.Resume())
			freezes++
		}
		time.Sleep(ttl / 3)
	}
	cancel()
	contenders.Wait()
	v := tokens.Judge(h.holds)
	t.Logf("seed %d: %d masters killed and emptied, %d frozen; %d holds of several names, %d lost; %v",
		seed, kills, freezes, h.several, h.lost, v)
	if v.Overlaps+v.Duplicates+v.Inversions+v.LateGrants > 0 {
		fleet.Unsafe(t, "holds are not in order: %v", v)
	}
	if !enough() {
		t.Error("too little happened to prove anything")
	}
	f.WantCleanAfter(t, ttl+100*time.Millisecond)
}
