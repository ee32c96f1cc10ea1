package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/cases"
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

// startSentinel starts a Sentinel that knows the master's replica.
func startSentinel(t *testing.T, name, master string) string {
	t.Helper()
	addr := fleet.StartSentinel(t, name, master)
	// It asks a master for its role every 10 s, and thinks for 8 s before it makes the former one a replica. Redis 7 can
	// be told to be quicker, for tests.
	_, _ = fleet.Ask(addr, "SENTINEL", "DEBUG", "info-period", 500, "publish-period", 250)
	fleet.Eventually(t, "the Sentinel knows a replica", func() bool {
		replicas, err := redis.Values(fleet.Ask(addr, "SENTINEL", "REPLICAS", name))
		return err == nil && len(replicas) == 1
	})
	return addr
}

// follow is the dialer of docs/operations.md: the host of a URL is the name of a master, which the Sentinel watches.
func follow(sentinels map[string]string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		c, err := redis.DialContext(ctx, "tcp", sentinels[name])
		if err != nil {
			return nil, err
		}
		defer c.Close()
		master, err := redis.Strings(redis.DoContext(c, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(master[0], master[1]))
	}
}

// A real failover by a real Sentinel, of one master of three: the Locker follows, the promoted replica abstains for the
// guard period and counts then, and the hold is never lost.
func TestALockerFollowsAFailoverOfSentinel(t *testing.T) {
	t.Parallel()
	groups := startPairs(t, 3)
	sentinels := map[string]string{}
	var urls []string
	for i, group := range groups {
		name := fmt.Sprintf("group-%d", i)
		urls = append(urls, "redis://"+name)
		sentinels[name] = startSentinel(t, name, group.master.Addr())
	}
	var h history
	l := fleet.Guarded(t, urls, period, redlock.WithTTL(period), redlock.WithObserver(h.observe),
		redlock.WithNodeConfig(redlock.NodeConfig{Dial: follow(sentinels)}))
	fleet.Eventually(t, "all nodes vote", func() bool { return fleet.AllVote(t, l) })
	k := cases.Must(l.Lock(t.Context(), "job"))(t)

	const node = "group-0:6379"
	before, _ := h.since(0, node)
	fleet.Eventually(t, "the Sentinel begins the failover", func() bool {
		_, err := fleet.Ask(sentinels["group-0"], "SENTINEL", "FAILOVER", "group-0")
		return err == nil
	})
	h.wantOtherMaster(t, before, node, "is a promoted replica")
	at, err := redis.Strings(fleet.Ask(sentinels["group-0"], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group-0"))
	if want := groups[0].replica.Addr(); err != nil || strings.Join(at, ":") != want {
		t.Errorf("got the master %v, %v; want %s", at, err, want)
	}
	cases.NoError(t, k.Err())
	cases.NoError(t, k.Extend(t.Context()))
	fleet.Eventually(t, "the promoted replica has the hold", func() bool {
		return fleet.Holder(t, groups[0].replica, "job") == k.Owner()
	})
	if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("got %v, want that it is taken", err)
	}
	cases.NoError(t, k.Unlock())
}
