package tokens

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// steps are what a clock is off by, one after the other.
var steps = []time.Duration{0, 30 * time.Second, -30 * time.Second, 0, -30 * time.Second, 30 * time.Second, 0}

// setClock writes what a preloaded clock is off by.
func setClock(t *testing.T, file string, off int64) {
	t.Helper()
	f := cases.Must(os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600))(t)
	cases.Must(f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(off)), 0))(t)
	cases.NoError(t, f.Close())
}

// needProcesses skips where the masters run in containers, whose clocks this
// test cannot set, and which may be all that this machine has.
func needProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv("REDLOCK_PROVIDER") == masters.Containers || runtime.GOOS != "linux" {
		t.Skip("sets the clocks of redis-server processes on Linux; run it with REDLOCK_PROVIDER=processes")
	}
}

// startShifted starts masters whose wall clocks can be set.
func startShifted(t *testing.T, n int) (nodes []*masters.Node, set func(node int, off time.Duration)) {
	t.Helper()
	needProcesses(t)
	server := cases.Must(redisserver.Find())(t)
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatalf("setting a master's clock takes a C compiler: install gcc (Debian: apt-get install gcc libc6-dev), "+
			"or run with REDLOCK_PROVIDER=containers, which leaves this test out: %v", err)
	}
	dir := t.TempDir()
	compile := exec.CommandContext(t.Context(), gcc, "-O2", "-shared", "-fPIC", "-o", dir+"/clock.so", "testdata/clock.c")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	wrapper := cases.Must(filepath.Abs("testdata/redis-server.sh"))(t)
	t.Setenv("REDLOCK_TEST_SERVER", server)
	t.Setenv("REDLOCK_TEST_CLOCKS", dir)
	t.Setenv("REDLOCK_REDIS_SERVER", wrapper)
	p := cases.Must(masters.NewProcesses())(t)
	nodes = masters.Start(t, p, n, masters.Spec{})
	return nodes, func(node int, off time.Duration) {
		_, port, err := net.SplitHostPort(nodes[node].Addr())
		cases.NoError(t, err)
		setClock(t, dir+"/clock."+port, off.Nanoseconds())
		// What is in hand already may still be answered by the time at which the server took it up.
		var is time.Duration
		for range 3 {
			shown := cases.Must(redis.Int64s(nodes[node].Do("TIME")))(t)
			if is = time.Until(time.Unix(shown[0], shown[1]*1000)); (is - off).Abs() <= 2*time.Second {
				return
			}
		}
		t.Fatalf("the clock was to be off by %s and is off by %s", off, is)
	}
}

// recorder acquires locks from many goroutines until it is stopped.
type recorder struct {
	granted atomic.Int64
	stop    func() []Hold
}

func record(ctx context.Context, lockers []atomic.Pointer[redlock.Locker], names int) *recorder {
	r := &recorder{}
	ctx, cancel := context.WithCancel(ctx)
	start := time.Now()
	const each = 4
	histories := make([][]Hold, each*len(lockers))
	var workers sync.WaitGroup
	for i := range histories {
		workers.Go(func() {
			for ctx.Err() == nil {
				h := Hold{Name: fmt.Sprint(rand.IntN(names)), Asked: time.Since(start)}
				waiting, cancel := context.WithTimeout(ctx, 3*time.Second)
				k, err := lockers[i%len(lockers)].Load().Lock(waiting, h.Name)
				cancel()
				if err != nil {
					continue // what counts is who gets it
				}
				h.Granted, h.Token = time.Since(start), k.Token()
				time.Sleep(rand.N(2 * time.Millisecond))
				h.Ended = min(time.Since(start), k.Deadline().Sub(start))
				_ = k.Unlock() // lost, perhaps
				histories[i] = append(histories[i], h)
				r.granted.Add(1)
			}
		})
	}
	r.stop = func() []Hold {
		cancel()
		workers.Wait()
		return slices.Concat(histories...)
	}
	return r
}

func TestTokensGrowWhenANodesClockIsSet(t *testing.T) {
	nodes, set := startShifted(t, 5)
	f := fleet.Fleet{Nodes: nodes}
	// A client measures the clocks every 5 to 15 s: in the full size it does in each step.
	length := fleet.Sized(300*time.Millisecond, 17*time.Second)
	lockers := make([]atomic.Pointer[redlock.Locker], 3)
	for i := range lockers {
		lockers[i].Store(f.Locker(t, redlock.WithTTL(time.Second)))
	}
	r := record(t.Context(), lockers, 6)
	for i, off := range steps {
		set(0, off)
		before := r.granted.Load()
		if i == len(steps)-2 { // a client that begins when the clocks disagree
			lockers[0].Store(f.Locker(t, redlock.WithTTL(time.Second)))
		}
		time.Sleep(length)
		fleet.Eventually(t, "50 holds while the clock was off", func() bool { return r.granted.Load()-before >= 50 })
		t.Logf("clock of one node of five off by %4s: %d holds", off, r.granted.Load()-before)
	}
	v := Judge(r.stop(), false)
	t.Log(v)
	if len(v.Broken) > 0 {
		fleet.Unsafe(t, "tokens are not in order: %v", v)
	}
}

// buildShifted builds the client with a library that takes its wall clock from
// a file. In Go, no preload can do that; but all of the library's time comes from clock.go.
func buildShifted(t *testing.T) string {
	t.Helper()
	needProcesses(t)
	root := cases.Must(filepath.Abs("../.."))(t)
	source := cases.Must(os.ReadFile(filepath.Join(root, "clock.go")))(t)
	shifted := bytes.Replace(source, []byte("newClock(time.Now,"), []byte("newClock(shiftedNow,"), 1)
	if bytes.Equal(source, shifted) {
		t.Fatal("clock.go takes the wall clock in a way that is new to this test")
	}
	wall := cases.Must(filepath.Abs("testdata/wall.go.txt"))(t)
	dir := t.TempDir()
	cases.NoError(t, os.WriteFile(dir+"/clock.go", shifted, 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "clock.go"): dir + "/clock.go", filepath.Join(root, "clock_shifted.go"): wall,
	}})
	cases.NoError(t, err)
	cases.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o600))
	build := exec.CommandContext(t.Context(),
		"go", "build", "-overlay", dir+"/overlay.json", "-o", dir+"/client", "./client")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir + "/client"
}

func TestTokensGrowWhenAClientsWallClockIsSet(t *testing.T) {
	t.Parallel()
	binary := buildShifted(t)
	f := fleet.StartSpec(t, 5, masters.Spec{})
	length := fleet.Sized(300*time.Millisecond, 17*time.Second)
	var holds []Hold
	var mu sync.Mutex // protects holds and offs
	offs := map[time.Duration]int{}
	var clocks []string
	var clients []*child.Process
	start := time.Now()
	for i := range 2 { // the first one's clock is set, the other's is right
		clocks = append(clocks, filepath.Join(t.TempDir(), "clock"))
		setClock(t, clocks[i], 0)
		p, err := child.Start(t.Context(), binary, []string{"REDLOCK_TEST_CLOCK=" + clocks[i]}, masters.URLs(f.Nodes),
			func(line []byte) {
				var h Hold
				var at [4]int64
				if _, err := fmt.Sscan(string(line), &h.Name, &h.Token, &at[0], &at[1], &at[2], &at[3]); err != nil {
					t.Error(err)
					return
				}
				since := func(at int64) time.Duration { return time.Duration(at - start.UnixNano()) }
				h.Asked, h.Granted, h.Ended = since(at[0]), since(at[1]), since(at[2])
				mu.Lock()
				defer mu.Unlock()
				holds = append(holds, h)
				if i == 0 {
					offs[time.Duration(at[3]).Round(30*time.Second)]++
				}
			})
		cases.NoError(t, err)
		clients = append(clients, p)
	}
	for _, off := range steps {
		seen := func() int {
			mu.Lock()
			defer mu.Unlock()
			return offs[off]
		}
		before := seen()
		setClock(t, clocks[0], int64(off/time.Second))
		time.Sleep(length)
		fleet.Eventually(t, "30 holds while the clock was off", func() bool { return seen()-before >= 30 })
	}
	for _, p := range clients {
		cases.NoError(t, p.End())
	}
	var seen []string
	for _, off := range []time.Duration{-30 * time.Second, 0, 30 * time.Second} {
		seen = append(seen, fmt.Sprintf("%d with its clock off by %s", offs[off], off))
	}
	v := Judge(holds, true)
	t.Logf("holds of the client whose wall clock is set, beside one whose is right: %s", strings.Join(seen, ", "))
	t.Log(v)
	if len(v.Broken) > 0 {
		fleet.Unsafe(t, "tokens are not in order, or holds overlap: %v", v)
	}
}
