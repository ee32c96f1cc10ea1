package redlock

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/sim"
)

func TestMain(m *testing.M) {
	boottime.Now = boottime.None // virtual time has no such clock
	os.Exit(m.Run())
}

// fleet is a number of modelled masters on a modelled network, in virtual time.
type fleet struct {
	t     *testing.T
	net   *sim.Network
	nodes []*sim.Node
	urls  []string
}

// bubble runs f in virtual time with a fleet of n masters.
func bubble(t *testing.T, n int, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{t: t, net: sim.NewNetwork(1)}
		for i := range n {
			node := sim.NewNode(fmt.Sprintf("n%d:6379", i), uint64(i))
			fl.net.Attach(node)
			fl.nodes = append(fl.nodes, node)
			fl.urls = append(fl.urls, "redis://"+node.Addr())
		}
		t.Cleanup(func() {
			for _, node := range fl.nodes {
				node.Close()
			}
		})
		f(t, fl)
	})
}

// sized is how much of something a test does: less under the race detector, which takes five times as long. make unit
// runs both.
func sized[T any](full, raced T) T {
	if raceDetector {
		return raced
	}
	return full
}

// collectWhenTold leaves garbage alone until somebody calls runtime.GC.
func collectWhenTold(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// locker returns a Locker of the named client; it is closed at the end.
func (fl *fleet) locker(client string, opts ...Option) *Locker {
	fl.t.Helper()
	l, err := New(fl.urls, append([]Option{WithDialer(fl.net.Dialer(client))}, opts...)...)
	if err != nil {
		fl.t.Fatal(err)
	}
	fl.t.Cleanup(func() { _ = l.Close() })
	return l
}

// holding returns on how many nodes the key exists.
func (fl *fleet) holding(key string) int {
	count := 0
	for _, n := range fl.nodes {
		if n.Do("EXISTS", key) == int64(1) {
			count++
		}
	}
	return count
}

// settle lets everything that is on its way arrive.
func settleNetwork() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// within fails the test unless f returns within d of virtual time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	begun := time.Now()
	f()
	if took := time.Since(begun); took > d {
		t.Errorf("%s took %v, want at most %v", what, took, d)
	}
}

// link names one client's connection to one node of the fleet.
func link0(client string, node int) sim.Link {
	return sim.Link{Client: client, Node: fmt.Sprintf("n%d:6379", node)}
}
