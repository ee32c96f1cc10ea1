package faultproxy_test

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// soon is how long a test waits for something that should happen at once, on a machine that may be busy.
const soon = 30 * time.Second

// server answers every line with the same line, and records it.
type server struct {
	mu   sync.Mutex // protects seen
	seen []string
}

func (s *server) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func serve(t *testing.T) (*server, net.Listener) {
	t.Helper()
	l := cases.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &server{}
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handlers.Go(func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					s.mu.Lock()
					s.seen = append(s.seen, lines.Text())
					s.mu.Unlock()
					if _, err := c.Write([]byte(lines.Text() + "\n")); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // a test may have closed it
		handlers.Wait()
	})
	return s, l
}

// setUp starts a server and a proxy before it, and connects a client.
func setUp(t *testing.T) (*faultproxy.Proxy, *server, client) {
	t.Helper()
	s, l := serve(t)
	p := proxyFor(t, l.Addr().String())
	return p, s, dial(t, p)
}

func proxyFor(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p := cases.Must(faultproxy.New(target))(t)
	t.Cleanup(p.Close)
	return p
}

// client is one connection to the proxy.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) client {
	t.Helper()
	c := cases.Must(net.Dial("tcp", p.Addr()))(t)
	t.Cleanup(func() { _ = c.Close() }) // the test may have broken it
	return client{t, c, bufio.NewReader(c)}
}

func (c client) send(line string) {
	c.t.Helper()
	cases.Must(c.Write([]byte(line + "\n")))(c.t)
}

func (c client) receive(within time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

func (c client) want(line string) {
	c.t.Helper()
	if got, err := c.receive(soon); err != nil || got != line+"\n" {
		c.t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

// echo sends a line, and wants it back.
func (c client) echo(line string) {
	c.t.Helper()
	c.send(line)
	c.want(line)
}

func (c client) wantSilence() {
	c.t.Helper()
	var timeout net.Error
	if got, err := c.receive(50 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		c.t.Fatalf("got %q, %v; want silence", got, err)
	}
}

func (c client) wantReset() {
	c.t.Helper()
	if got, err := c.receive(soon); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %q, %v; want a reset", got, err)
	}
}

func TestHeldRequestsAreCarriedOutLater(t *testing.T) {
	p, s, c := setUp(t)
	p.Hold(faultproxy.Up)
	c.send("one")
	c.send("two")
	c.wantSilence()
	if got := s.lines(); got != 0 {
		t.Fatalf("the server saw %d lines", got)
	}
	p.Pass(faultproxy.Up)
	c.want("one")
	c.want("two")
}

func TestHeldRequestsAreCarriedOutAlthoughTheClientHasGone(t *testing.T) {
	p, s, c := setUp(t)
	p.Hold(faultproxy.Up)
	c.send("late")
	cases.NoError(t, c.Close())
	time.Sleep(20 * time.Millisecond) // so that the proxy sees the end while it holds
	if got := s.lines(); got != 0 {
		t.Fatalf("the server saw %d lines", got)
	}
	p.Pass(faultproxy.Up)
	cases.Eventually(t, "carried out", func() bool { return s.lines() == 1 })
}

func TestHeldAnswersComeLater(t *testing.T) {
	p, s, c := setUp(t)
	p.Hold(faultproxy.Down)
	c.send("one")
	cases.Eventually(t, "carried out", func() bool { return s.lines() == 1 })
	c.wantSilence()
	p.Pass(faultproxy.Down)
	c.want("one")
}

func TestDroppedRequestsNeverArriveAndHealResets(t *testing.T) {
	p, s, c := setUp(t)
	c.echo("before")
	p.Drop(faultproxy.Up)
	c.send("lost")
	c.wantSilence()
	cases.NoError(t, p.Heal())
	c.wantReset()
	if got := s.lines(); got != 1 {
		t.Errorf("the server saw %d lines, want 1", got)
	}
	dial(t, p).echo("after")
}

func TestDroppedAnswersAreLostThoughTheRequestWasCarriedOut(t *testing.T) {
	p, s, c := setUp(t)
	p.Drop(faultproxy.Down)
	c.send("done")
	cases.Eventually(t, "carried out", func() bool { return s.lines() == 1 })
	c.wantSilence()
	p.Pass(faultproxy.Down)
	c.wantReset()
}

func TestHealLeavesAloneWhatHasLostNothing(t *testing.T) {
	p, _, c := setUp(t)
	c.echo("one")
	p.Drop(faultproxy.Up)
	cases.NoError(t, p.Heal())
	c.echo("two")
}

func TestDelayShiftsWithoutSlowing(t *testing.T) {
	p, _, c := setUp(t)
	const lag, lines = 600 * time.Millisecond, 20
	p.Delay(faultproxy.Up, lag)
	before := time.Now()
	for range lines {
		c.send("x")
		time.Sleep(time.Millisecond) // so that they are many packets
	}
	c.want("x")
	if got := time.Since(before); got < lag {
		t.Errorf("the first answer came after %v, want at least %v", got, lag)
	}
	for range lines - 1 {
		c.want("x")
	}
	if got := time.Since(before); got >= lines*lag { // 12 s
		t.Errorf("all answers took %v: the delays add up", got)
	}
}

func TestRefuseAndHealAtTheSameAddress(t *testing.T) {
	p, _, c := setUp(t)
	c.echo("one")
	p.Refuse()
	c.wantReset()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v, want refused", err)
	}
	cases.NoError(t, p.Heal())
	dial(t, p).echo("two")
}

func TestADeadServerLooksDead(t *testing.T) {
	_, l := serve(t)
	p := proxyFor(t, l.Addr().String())
	cases.NoError(t, l.Close())
	c, err := net.Dial("tcp", p.Addr()) // the reset may overtake the end of the dial
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		_ = c.Close() // it is reset
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p, _, c := setUp(t)
	p.Hold(faultproxy.Up)
	p.Drop(faultproxy.Down)
	c.send("held")
	done := make(chan struct{})
	go func() { p.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatal("Close does not return")
	}
}
