package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// What a scenario does to the masters is kept from a contestant that shows what it would be without.
func TestASparedContestantReachesMastersThatAreWell(t *testing.T) {
	b := &bench{cluster: &cluster{nodes: []string{"late", "refused"}, well: []string{"in time", "two"}}}
	two := contestant{name: "two", nodes: 2}
	for _, of := range []struct {
		c    contestant
		want []string
	}{{two, []string{"late", "refused"}}, {healthy(two), []string{"in time", "two"}}} {
		if got := b.nodesFor(of.c); !slices.Equal(got, of.want) {
			t.Errorf("%s: got %v, want %v", of.c.name, got, of.want)
		}
	}
	if attempt(func() { b.nodesFor(contestant{nodes: 3}) }) == nil {
		t.Error("three of two masters")
	}
}

// Names tell the rows of a scenario apart.
func TestScenariosAndTheirContestantsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, sc := range scenarios {
		if seen[sc.name] {
			t.Errorf("two scenarios %q", sc.name)
		}
		seen[sc.name] = true
		rows := map[string]bool{}
		for _, c := range sc.contestants {
			if rows[c.name] {
				t.Errorf("%s: two contestants %q", sc.name, c.name)
			}
			rows[c.name] = true
		}
	}
}

// Nothing is measured on a fleet with a dead master, nor on one with a foreign process in a master's place.
func TestAMasterThatIsNotOursIsNamed(t *testing.T) {
	servers := startServers(2, redisserver.Config{})
	c := &cluster{servers: servers}
	defer c.stop()
	cases.Equals(t, c.check(), nil, "both are well")
	well, dead := servers[0].Addr(), servers[1].Addr()
	cases.NoError(t, servers[1].Kill(context.Background()))
	names := func(when string) {
		t.Helper()
		err := c.check()
		if err == nil || !strings.Contains(err.Error(), dead) || strings.Contains(err.Error(), well) {
			t.Errorf("%s: got %v, want an error that names %s, and not %s", when, err, dead, well)
		}
	}
	names("dead")
	_, port, _ := strings.Cut(dead, ":")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	foreign := cases.Must(redisserver.Launch(ctx, redisserver.Config{Args: []string{"--port", port}}))(t)
	names("another process answers there")
	cases.NoError(t, foreign.Remove(ctx))
	cases.NoError(t, servers[1].revive())
	cases.Equals(t, c.check(), nil, "both are well again")
}

// The lock key is what the Redis documentation describes, so redsync and redlock
// exclude each other on the same name, in both directions and both modes.
func TestRedsyncAndRedlockExcludeEachOther(t *testing.T) {
	servers := startServers(5, redisserver.Config{})
	t.Cleanup(func() { stopServers(servers) })
	open := func(c contestant) worker {
		cl := c.open(addrs(servers), wish{ttl: lockTTL, goroutines: 1})
		t.Cleanup(cl.close)
		return cl.worker()
	}
	theirs := open(redsyncRedigo5)
	for name, ours := range map[string]worker{"fenced": open(redlockFenced5), "plain": open(redlockPlain5)} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cases.NoError(t, ours.lock(ctx, name))
		var taken *redsync.ErrTaken
		if err := theirs.try(ctx, name); !errors.As(err, &taken) {
			t.Errorf("%s: redsync, while redlock holds: got %v, want ErrTaken", name, err)
		}
		cases.NoError(t, ours.unlock(ctx))
		cases.NoError(t, theirs.lock(ctx, name))
		if err := ours.try(ctx, name); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("%s: redlock, while redsync holds: got %v, want ErrTaken", name, err)
		}
		// A waiter is not told of redsync's release, and notices it all the same.
		waited := make(chan error, 1)
		go func() { waited <- ours.cycle(ctx, name) }()
		cases.NoError(t, theirs.unlock(ctx))
		cases.NoError(t, <-waited)
	}
}

// BenchmarkCycle is one lock and unlock on real masters, in the form that benchstat reads:
//
//	go test -C bench -run '^$' -bench Cycle -count 10 > new.txt
//	benchstat old.txt new.txt
func BenchmarkCycle(b *testing.B) {
	servers := startServers(5, redisserver.Config{})
	defer stopServers(servers)
	for _, c := range []contestant{redlockFenced5, redlockPlain5} {
		for _, goroutines := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("lock=%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				clients, workers := (&bench{cluster: &cluster{nodes: addrs(servers)}}).open(c, 1, goroutines)
				defer clients[0].close()
				names := namesFor(namePrefix, goroutines, usualNames)
				var left atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				before := snapshot(servers)
				for g, w := range workers {
					group.Go(func() {
						for i := 0; left.Add(-1) >= 0; i++ {
							if err := w.cycle(context.Background(), names[g][i%usualNames]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				after := snapshot(servers)
				b.StopTimer()
				b.ReportMetric(us(after.since(before))/float64(b.N), "server-µs/op")
				b.ReportMetric(us(after.client-before.client)/float64(b.N), "client-µs/op")
			})
		}
	}
}
