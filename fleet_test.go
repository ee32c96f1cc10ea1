package redlock

import (
	"context"
	"fmt"
	"os"
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

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestLockAndUnlock(t *testing.T) {
	for _, mode := range []struct {
		name string
		opts []Option
	}{{"fenced", nil}, {"plain", []Option{WithoutFencing()}}} {
		t.Run(mode.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, fl *fleet) {
				l := fl.locker("a", mode.opts...)
				k := must(l.Lock(t.Context(), "job"))(t)
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
				if got := fl.holding("job"); got != 5 {
					t.Errorf("held on %d nodes, want 5", got)
				}
				if _, err := l.TryLock(context.Background(), "job"); err == nil {
					t.Error("a second hold")
				} else {
					t.Log(err)
				}
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
				if got := fl.holding("job"); got != 0 {
					t.Errorf("left on %d nodes", got)
				}
			})
		})
	}
}
