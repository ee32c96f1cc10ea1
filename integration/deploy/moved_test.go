package deploy_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// history is what a Locker's observer was told of its nodes.
type history struct {
	mu     sync.Mutex // protects events
	events []redlock.Event
}

func (h *history) observe(e redlock.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// since returns the number of events until now, and those of the node from the given one on.
func (h *history) since(from int, node string) (now int, events []redlock.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events[from:] {
		if e.Node == node {
			events = append(events, e)
		}
	}
	return len(h.events), events
}

// wantOtherMaster waits until the node votes again. Before that it must have abstained, for a reason that begins so: it
// is another master, which may lack what the former one had granted.
func (h *history) wantOtherMaster(t *testing.T, from int, node, reason string) {
	t.Helper()
	abstained := false
	voted := func() bool {
		_, events := h.since(from, node)
		for _, e := range events {
			switch {
			case errors.Is(e.Err, redlock.ErrNodeAbstains) && strings.HasPrefix(e.Err.Error(), reason):
				abstained = true
			case e.Kind == redlock.EventNode && e.Err == nil && abstained:
				return true
			}
		}
		return false
	}
	for range 2 { // a Sentinel takes its time, and so does the guard
		if fleet.Soon(voted) {
			return
		}
	}
	_, events := h.since(from, node)
	t.Fatalf("%s: got %+v, want that it abstains since it %s…, and votes then", node, events, reason)
}

// A pod that is rescheduled keeps its name and gets another address. A Locker hands the name to the dialer whenever it
// connects, so it finds the new master, which abstains; a hold outlives this.
func TestAMasterThatMovesIsFoundByItsName(t *testing.T) {
	t.Parallel()
	const node = "redis-0.redis.locks.svc:6379"
	f := fleet.StartSpec(t, 4, masters.Spec{})
	var at atomic.Pointer[masters.Node] // where the name leads
	at.Store(f.Nodes[0])
	resolve := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == node {
			address = at.Load().Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	var h history
	l := fleet.Guarded(t, []string{node, f.Nodes[1].URL(), f.Nodes[2].URL()}, period,
		redlock.WithTTL(period), redlock.WithObserver(h.observe),
		redlock.WithNodeConfig(redlock.NodeConfig{Dial: resolve}))
	fleet.Eventually(t, "three healthy nodes", func() bool { return fleet.Healthy(t, l) })
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)

	before, _ := h.since(0, node)
	at.Store(f.Nodes[3])
	fleet.Must(t, f.Nodes[0].Kill())
	h.wantOtherMaster(t, before, node, "restarted ")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "three healthy nodes again", func() bool { return fleet.Healthy(t, l) })
	if got := fleet.Holder(t, f.Nodes[3], "job"); got != k.Owner() {
		t.Errorf("the new master has the owner %q, want the hold's %q", got, k.Owner())
	}
	fleet.Must(t, k.Unlock())
}
