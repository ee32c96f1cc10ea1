package simtest_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim/simtest"
)

var (
	seed   = flag.Uint64("seed", 0, "run this seed alone, and print its trace")
	seeds  = flag.Uint64("seeds", 0, "number of seeds to run, beginning with -first; 0: as many as fit into -budget, and 20 at least")
	budget = flag.Duration("budget", 15*time.Second, "real time for -seeds 0")
	most   = flag.Int64("most", 5, "stop after so many seeds with violations")
	first  = flag.Uint64("first", 1, "first seed")
)

// run runs one seed in a bubble of its own.
func run(t *testing.T, s simtest.Scenario) (r *simtest.Result) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil { // synctest's way to report a deadlock or a goroutine that was left behind
			fmt.Printf("panic in %s\n", s)
			panic(p)
		}
	}()
	synctest.Test(t, func(*testing.T) { r = simtest.Run(s) })
	return r
}

func TestSimulation(t *testing.T) {
	if *seed != 0 {
		r := run(t, simtest.NewScenario(*seed))
		fmt.Println(r.Scenario)
		fmt.Println(strings.Join(r.Trace(), "\n"))
		report(t, r, false)
		return
	}
	var next, done, calls, grants, faults, commands, bad atomic.Int64
	next.Store(int64(*first) - 1)
	start := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				s := uint64(next.Add(1))
				n := s - *first
				enough := *seeds > 0 && n >= *seeds || *seeds == 0 && n >= 20 && time.Since(start) > *budget
				if enough || bad.Load() >= *most {
					return
				}
				r := run(t, simtest.NewScenario(s))
				done.Add(1)
				calls.Add(r.Calls.Load())
				grants.Add(int64(r.Grants))
				faults.Add(int64(r.Faults))
				commands.Add(r.Commands)
				if report(t, r, true) {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %d calls of Lock and TryLock, %d holds, %d faults, %d commands", done.Load(), calls.Load(), grants.Load(), faults.Load(), commands.Load())
	// A simulation in which nothing happens proves nothing.
	if n := done.Load(); bad.Load() == 0 && (grants.Load() < 10*n || faults.Load() < 5*n) {
		t.Errorf("too little happened: want at least 10 holds and 5 faults a seed")
	}
}

// report fails the test for a run's violations and says how to see more.
func report(t *testing.T, r *simtest.Result, brief bool) bool {
	t.Helper()
	if len(r.Violations) == 0 {
		return false
	}
	var b strings.Builder
	for i, v := range r.Violations {
		if brief && i == 3 {
			fmt.Fprintf(&b, "… and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "%s\n", v)
	}
	t.Errorf("%s\n%sreplay: go test ./internal/sim/simtest -run TestSimulation -seed %d", r.Scenario, b.String(), r.Scenario.Seed)
	return true
}

// Without the guard the same seeds show holds that overlap: so it is the guard that the others are safe by.
func TestWithoutTheGuardHoldsOverlap(t *testing.T) {
	tried := 0
	for s := uint64(1); s < 400; s++ {
		scenario := simtest.NewScenario(s)
		if !scenario.Sound || !scenario.Forgets() {
			continue
		}
		tried++
		scenario.Guard = 0
		for _, v := range run(t, scenario).Violations {
			if v.Invariant == "exclusion" {
				t.Logf("after %d scenarios in which nodes forget, seed %d: %s", tried, s, v)
				return
			}
		}
	}
	t.Errorf("%d scenarios in which nodes forget, and no harm without the guard: they prove nothing", tried)
}

// TestReplay runs seeds twice and compares the traces. They are the same, but for one thing that no seed can decide: where two
// goroutines of one Locker are woken at one instant, by one reply or by the end of a connection, the Go scheduler orders what
// they do next. It shows in about one seed in forty with one worker for each client, and in more with two.
func TestReplay(t *testing.T) {
	const runs, equal = 8, 6
	same := 0
	for s := *first; s < *first+runs; s++ {
		alone := simtest.NewScenario(s)
		alone.Workers = 1
		a, b := run(t, alone), run(t, alone)
		if a.Digest() == b.Digest() {
			same++
			continue
		}
		x, y := a.Trace(), b.Trace()
		for i := range x {
			if i >= len(y) || x[i] != y[i] {
				t.Logf("seed %d: two runs differ from line %d:\n%s\n%s", s, i, x[i], strings.Join(y[i:min(i+1, len(y))], ""))
				break
			}
		}
	}
	if same < equal {
		t.Errorf("%d of %d seeds gave the same trace twice, want at least %d", same, runs, equal)
	}
}
