package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// host is a name, its resolver, and a network with the fake at some addresses.
type host struct {
	*fake

	tls  *tls.Config // of the fake; nil: it does not speak TLS
	slow bool        // connecting takes nearly too long, and each answer

	mu    sync.Mutex
	asked int           // the resolver, so often
	takes time.Duration // as long does it take; below 0: until its context ends
	addrs []string      // it answers so
	err   error         // or so
	to    []string      // what was connected
}

const (
	here  = "192.0.2.1" // the fake
	there = "192.0.2.2" // the fake, too
	dead  = "192.0.2.9" // nobody
	shut  = "192.0.2.8" // refuses
)

func resolves(addrs ...string) *host { return &host{fake: newFake(), addrs: addrs} }

// dial leads to the fake, over TLS if it speaks that.
func (h *host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if h.tls == nil {
		return h.fake.dial(ctx, network, address)
	}
	ours, theirs := net.Pipe()
	server := tls.Server(&gated{theirs, h.gate}, h.tls)
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.dialled++
	h.accept(server, server)
	return ours, nil
}

func (h *host) set(takes time.Duration, err error, addrs ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takes, h.err, h.addrs = takes, err, addrs
}

func (h *host) lookUp(ctx context.Context, name string) ([]string, error) {
	h.mu.Lock()
	h.asked++
	takes := h.takes
	h.mu.Unlock()
	if takes < 0 {
		takes = time.Hour
	}
	if sleep(ctx, takes, nil) != nil {
		return nil, &net.DNSError{Err: "i/o timeout", UnwrapErr: ctx.Err(), Name: name, Server: "ns:53", IsTimeout: true}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addrs, h.err
}

func (h *host) reach(ctx context.Context, network, address string) (net.Conn, error) {
	switch at, _, _ := net.SplitHostPort(address); at {
	case here, there:
		h.mu.Lock()
		h.to = append(h.to, at)
		h.mu.Unlock()
		conn, err := h.dial(ctx, network, address)
		if h.slow && err == nil {
			time.Sleep(900 * ms)
			conn = &slow{Conn: conn}
		}
		return conn, err
	case shut:
		return nil, errRefused
	default:
		return nobody(ctx, network, address)
	}
}

// led returns where connections have led since its last call.
func (h *host) led() (to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to, h.to = strings.Join(h.to, " "), nil
	return to
}

// start returns a client of the host at a URL.
func (h *host) start(t *testing.T, url string, prepare ...setup) *client {
	t.Helper()
	config := h.config()
	config.Dial = nil
	for _, prepare := range prepare {
		prepare(h.fake, &config)
	}
	c := &client{t: t, Conn: cases.Must(New(url, config))(t)}
	c.dialer.network = &network{h.lookUp, h.reach}
	c.Start()
	t.Cleanup(c.end)
	return c
}

// says checks what the client says after a time. "": it is connected.
func (c *client) says(after time.Duration, want string) {
	c.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	said := ""
	up, err := c.State()
	if err != nil {
		said = err.Error()
	}
	if said != want || up != (want == "") {
		c.t.Errorf("connected %t, says %q, want %q", up, said, want)
	}
}

const notYet = "lookup fake: the name is not resolved yet"

// A name has a time of its own, which is not the server's. While it takes long, nobody blames the server: not who
// looks, and no request that times out.
func TestANameTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := resolves(here)
		h.set(7*time.Second, nil, here)
		c := h.start(t, "redis://fake")
		r := c.send(first, "a")
		c.says(200*ms, "not connected yet: dial tcp: "+notYet)
		time.Sleep(100 * ms)
		r.wants("not connected yet: dial tcp: " + notYet)
		c.says(time.Second, "not connected: dial tcp: "+notYet)
		if _, err := c.State(); errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a time-out of others: %v", err)
		}
		r = c.send(first, "a")
		time.Sleep(300 * ms)
		r.wants("not connected: dial tcp: " + notYet)
		c.says(7*time.Second-1600*ms, "")
		if h.asked != 1 {
			t.Errorf("looked up %d times, want once", h.asked)
		}
	})
}

// A resolver that never answers is given up, and asked again. Close does not wait for it.
func TestANameIsNeverResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := resolves()
		h.set(-1, nil)
		c := h.start(t, "redis://fake")
		c.says(lookupTimeout-time.Second, "not connected: dial tcp: "+notYet)
		c.says(time.Second, "not connected: dial tcp: lookup fake on ns:53: the name is not resolved yet")
		time.Sleep(5 * time.Second)
		h.set(0, nil, here)
		c.says(lookupTimeout, "")
		h.set(-1, nil)
		other := h.start(t, "redis://another")
		time.Sleep(500 * ms)
		takes(t, 0, other.Close)
	})
}

// Of several addresses, one that leads nowhere does not use up the time of the others.
func TestAddressesInTurn(t *testing.T) {
	for _, c := range []struct {
		addrs string
		after time.Duration
		want  string // the error; "": connected, to the only living one
	}{
		{dead + " " + here, maxPause, ""},
		{shut + " " + here, 0, ""},
		{strings.Repeat(dead+" ", maxAddrs-1) + here, 500 * ms, ""},
		{dead + " " + shut, time.Second, "not connected: no connection within 1 s"},
		{shut + " " + shut, 0, "not connected: connection refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := resolves(strings.Fields(c.addrs)...)
			k := h.start(t, "redis://fake")
			k.says(c.after, c.want)
		})
	}
}

// Who comes second in a race is closed.
func TestOneConnectionWinsARace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			if addr == "a" {
				return nobody(ctx, "", "")
			}
			time.Sleep(20 * ms)
			open.Add(1)
			ours, _ := net.Pipe()
			return &ending{ours, &open}, nil
		}
		conn, err := race(t.Context(), []string{"a", "b", "c"}, 10*ms, dial)
		if err != nil || open.Load() != 1 {
			t.Errorf("%d connections are open, %v", open.Load(), err)
		}
		_ = conn.Close()
	})
}

// ending counts down when it is closed.
type ending struct {
	net.Conn
	open *atomic.Int32
}

func (e *ending) Close() error { e.open.Add(-1); return e.Conn.Close() }

// A name is looked up again for each connection, and leads to where it has moved. While it cannot be, what was found
// last is tried; but not where the name is gone.
func TestANameMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &net.DNSError{Err: "no such host", Name: "fake", IsNotFound: true}
		h := resolves(here)
		c := h.start(t, "redis://fake")
		for _, next := range []struct {
			what  string
			takes time.Duration
			err   error
			addrs string
			after time.Duration
			want  string
			led   string
		}{
			{"found", 0, nil, here, 0, "", here},
			{"moved", 0, nil, there, 15 * ms, "", there},
			{"silent", -1, nil, "", 1100 * ms, "", there},
			{"moved, and slow", 1500 * ms, nil, here, 1100 * ms, "", there},
			{"the answer has come", 1500 * ms, nil, here, 1100 * ms, "", here},
			{"ill", 0, &net.DNSError{Err: "server misbehaving", Name: "fake", IsTemporary: true}, "", 15 * ms, "", here},
			{"gone", 0, gone, "", 15 * ms, "not connected: dial tcp: lookup fake: no such host", ""},
			{"there again", 0, nil, there, 3 * time.Second, "", there}, // the longest pauses
		} {
			if next.what != "found" {
				time.Sleep(lookupTimeout) // the lookup before is over
				h.set(next.takes, next.err, strings.Fields(next.addrs)...)
				h.cut()
			}
			if c.says(next.after, next.want); t.Failed() {
				t.Fatal(next.what)
			}
			if got := h.led(); got != next.led {
				t.Errorf("%s: led to %q, want %q", next.what, got, next.led)
			}
		}
	})
}

// However many connections are made at one moment, or fail, one name is looked up a few times.
func TestNamesAreNotLookedUpByEach(t *testing.T) {
	for _, c := range []struct {
		err  error
		most int
	}{{nil, 1}, {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, 4 * 5}} {
		synctest.Test(t, func(t *testing.T) {
			h := resolves(here)
			h.set(10*ms, c.err, here)
			all := make([]*client, 1000)
			for i := range all {
				all[i] = h.start(t, "redis://fake")
			}
			time.Sleep(5 * time.Second)
			if synctest.Wait(); h.asked > c.most {
				t.Errorf("%v: %d lookups, want %d at most", c.err, h.asked, c.most)
			}
			all[0].is(c.err == nil, c.err)
		})
	}
}

// An answer may be there at the moment at which the client is stopped: then nobody dials.
func TestANameIsResolvedAsTheClientStops(t *testing.T) {
	h := resolves(here)
	config := h.config()
	config.Dial = nil
	c := cases.Must(New("redis://fake:6379", config))(t)
	c.dialer.network = &network{h.lookUp, h.reach}
	cases.Must(c.dialer.resolve(t.Context()))(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		if at, err := c.dialer.resolve(stopped); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, %v", at, err)
		}
	}
}
