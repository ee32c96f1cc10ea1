package deploy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

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
			var why *redlock.AbstainError
			if errors.As(e.Err, &why) && strings.HasPrefix(why.Reason, reason) {
				abstained = true
			}
			if e.Kind == redlock.EventNodeUp && abstained {
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

// nameServer answers questions for IPv4 addresses of names, over UDP.
type nameServer struct {
	mu    sync.Mutex // protects addrs
	addrs map[string][4]byte
}

func (n *nameServer) set(name string, addr [4]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name+"."] = addr
}

// serve answers until the test ends. The dialer that it returns asks for each name, as net.Dialer does by default; the
// resolver of the whole process stays as it is.
func (n *nameServer) serve(t *testing.T) *net.Dialer {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	fleet.Must(t, err)
	var answering sync.WaitGroup
	answering.Go(func() {
		question := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := n.answer(question[:size]); err == nil {
				_, _ = conn.WriteTo(answer, from) // whoever gets none asks again
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		answering.Wait()
	})
	ask := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}
	return &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: ask}}
}

func (n *nameServer) answer(question []byte) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative = true, true
	m.Additionals = nil
	asked := m.Questions[0]
	addr, known := n.addrs[asked.Name.String()]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case asked.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: asked.Class, TTL: 5},
			Body:   &dnsmessage.AResource{A: addr},
		}}
	}
	return m.Pack()
}

// forward passes connections at the address on to a master, until it is stopped.
func forward(t *testing.T, addr, to string) (at string, stop func(), err error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			end := func() { _, _ = client.Close(), server.Close() }
			context.AfterFunc(ctx, end)
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				running.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // until either is closed
					end()
				})
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		_ = l.Close()
		running.Wait()
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop, nil
}

// A pod that is rescheduled keeps its name and gets another address. A Locker asks for the address whenever it
// connects, so it finds the new master, which abstains; a hold outlives this.
func TestAMasterThatMovesIsFoundByItsName(t *testing.T) {
	t.Parallel()
	const name = "redis-0.redis.locks.svc"
	f := fleet.StartSpec(t, 4, masters.Spec{})
	var port string
	var stop func()
	for range 100 { // a port that is free at both addresses
		at, stopFirst, err := forward(t, "127.0.0.1:0", f.Nodes[0].Addr())
		fleet.Must(t, err)
		_, port, _ = net.SplitHostPort(at)
		if _, _, err = forward(t, "127.0.0.2:"+port, f.Nodes[3].Addr()); err == nil {
			stop = stopFirst
			break
		}
		stopFirst()
		if strings.Contains(err.Error(), "assign requested address") {
			t.Skip("it needs a second loopback address: 127.0.0.2")
		}
	}
	names := &nameServer{addrs: map[string][4]byte{}}
	names.set(name, [4]byte{127, 0, 0, 1})
	dialer := names.serve(t)
	node := net.JoinHostPort(name, port)
	var h history
	l := fleet.Locker(t, []string{node, f.Nodes[1].URL(), f.Nodes[2].URL()},
		redlock.WithRestartGuard(period), redlock.WithTTL(period), redlock.WithObserver(h.observe),
		redlock.WithDialer(dialer.DialContext))
	fleet.Eventually(t, "three healthy nodes", func() bool { return fleet.Healthy(t, l) })
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)

	before, _ := h.since(0, node)
	fleet.Must(t, f.Nodes[0].Kill())
	stop()
	names.set(name, [4]byte{127, 0, 0, 2})
	h.wantOtherMaster(t, before, node, "restarted ")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "three healthy nodes again", func() bool { return fleet.Healthy(t, l) })
	if got := fleet.Holder(t, f.Nodes[3], "job"); got != k.Owner() {
		t.Errorf("the new master has the owner %q, want the hold's %q", got, k.Owner())
	}
	fleet.Must(t, k.Unlock(t.Context()))
}
