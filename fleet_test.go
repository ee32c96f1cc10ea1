package redlock

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/sim"
)

func TestMain(m *testing.M) {
	boottime.Now = boottime.None // virtual time has no boot clock
	os.Exit(m.Run())
}

// fleet is a set of simulated masters on a simulated network, in virtual time.
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

// sized returns full, or raced under the race detector, where tests take five times as long. make unit runs both.
func sized[T any](full, raced T) T {
	if raceDetector {
		return raced
	}
	return full
}

// collectWhenTold turns garbage collection off, except for calls of runtime.GC, until the test ends.
func collectWhenTold(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// locker returns a Locker of the named client, which is closed when the test ends.
func (fl *fleet) locker(client string, opts ...Option) *Locker {
	fl.t.Helper()
	l, err := New(fl.urls, append([]Option{WithDialer(fl.net.Dialer(client))}, opts...)...)
	if err != nil {
		fl.t.Fatal(err)
	}
	fl.t.Cleanup(func() { _ = l.Close() })
	return l
}

// holding returns the number of nodes on which the key exists.
func (fl *fleet) holding(key string) int {
	count := 0
	for _, n := range fl.nodes {
		if n.Do("EXISTS", key) == int64(1) {
			count++
		}
	}
	return count
}

// isHeld fails the test unless the key exists on so many nodes. what says when or why.
func (fl *fleet) isHeld(key string, want int, what ...string) {
	fl.t.Helper()
	if got := fl.holding(key); got != want {
		fl.t.Errorf("%s%s is on %d nodes, want %d", strings.Join(append(what, ""), ": "), key, got, want)
	}
}

// settleNetwork waits until all messages in flight have arrived.
func settleNetwork() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

// must(f())(t) returns f's value, and ends the test if f fails.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// succeeds fails the test if err is one. what says what it is of.
func succeeds(t testing.TB, err error, what ...string) {
	t.Helper()
	if err != nil {
		t.Error(strings.Join(append(what, err.Error()), ": "))
	}
}

// fails fails the test unless err is another, as errors.Is says. what says what it is of, or why it is wanted.
func fails(t testing.TB, err, want error, what ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%sgot %v, want %v", strings.Join(append(what, ""), ": "), err, want)
	}
}

// errOf returns the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }

// within fails the test unless f returns within d of virtual time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	begun := time.Now()
	f()
	if took := time.Since(begun); took > d {
		t.Errorf("%s took %v, want at most %v", what, took, d)
	}
}

// link0 names a client's connection to a node of the fleet.
func link0(client string, node int) sim.Link {
	return sim.Link{Client: client, Node: fmt.Sprintf("n%d:6379", node)}
}

// unreachable cuts a node off from a client, for good.
func (fl *fleet) unreachable(client string, node int) {
	fl.net.Refuse(link0(client, node))
	fl.net.Cut(link0(client, node))
}

// says reports whether an error, with its nodes, contains a text.
func says(err error, part string) bool { return strings.Contains(fmt.Sprintf("%+v", err), part) }
