package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a connection on which two answers take nearly too long: so many are in a handshake of TLS 1.2.
type slow struct {
	net.Conn
	asked atomic.Bool
}

func (s *slow) Write(b []byte) (int, error) { s.asked.Store(true); return s.Conn.Write(b) }

func (s *slow) Read(b []byte) (int, error) {
	if s.asked.Swap(false) {
		time.Sleep(450 * ms)
	}
	return s.Conn.Read(b)
}

// The steps of a connection have owners of their own: name servers, the network, a proxy, the server. Each is blamed
// for its own step alone: where it is silent, or slower than it may be; where it refuses; and where it is slow, it does
// not use up the time of the next. No error has the password.
func TestWhoIsBlamed(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	known := x509.NewCertPool()
	known.AddCert(web.Certificate())
	// A server that speaks TLS 1.2 alone.
	theirs := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
	speaks := func(least uint16) setup {
		return func(_ *fake, c *Config) { c.TLS = &tls.Config{RootCAs: known, MinVersion: least} }
	}
	proxy := func(fails func(ctx context.Context) error) setup {
		return func(_ *fake, c *Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, fails(ctx) }
		}
	}
	leads := func(to string) func(*host) { return func(h *host) { h.set(0, nil, to) } }
	const plain, secure = "redis://ann:hunter2@example.com/1", "rediss://ann:hunter2@example.com/1"
	const notYet = "dial tcp: lookup example.com: the name is not resolved yet"
	const silent = ": it accepts connections, but did not answer for 1 s"
	for _, c := range []struct {
		step, how, url string
		host           func(*host) // nil: as usual
		get            setup       // nil: likewise
		want           string      // "": it is connected
	}{
		{"each", "slow", secure, func(h *host) { h.set(900*ms, nil, here); h.slow = true }, speaks(tls.VersionTLS12), ""},
		{"name", "slow", plain, func(h *host) { h.set(10*time.Second, nil, here) }, nil, notYet},
		{"name", "silent", plain, func(h *host) { h.set(-1, nil) }, nil, notYet},
		{"name", "refused", plain, func(h *host) {
			h.set(0, &net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true})
		}, nil, "dial tcp: lookup example.com: no such host"},
		{"dial", "silent", plain, leads(dead), nil, "no connection within 1 s"},
		{"dial", "refused", plain, leads(shut), nil, "connection refused"},
		{"proxy", "silent", plain, nil, proxy(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), "no connection from NodeConfig.Dial within 1 s"},
		{"proxy", "slow to find the way", plain, nil, proxy(func(ctx context.Context) error {
			<-ctx.Done()
			return &net.OpError{Op: "ask", Net: "s1:26379", Err: ctx.Err()}
		}), "no connection from NodeConfig.Dial within 1 s: ask s1:26379: context canceled"},
		{"proxy", "with a time limit of its own", plain, nil, proxy(func(context.Context) error {
			return &net.OpError{Op: "ask", Net: "s1:26379", Err: context.DeadlineExceeded}
		}), "ask s1:26379: context deadline exceeded"},
		{"proxy", "refused", plain, nil, proxy(func(context.Context) error { return errRefused }), "connection refused"},
		{
			"TLS", "silent", secure, nil, func(f *fake, c *Config) { speaks(tls.VersionTLS12)(f, c); f.pause() },
			"no answer to the TLS handshake (a node that does not speak TLS wants redis://)" + silent,
		},
		{
			"TLS", "refused", secure, nil, speaks(tls.VersionTLS13),
			"it does not accept the TLS handshake: protocol version not supported",
		},
		{"AUTH", "silent", plain, nil, answersAll("", silence), "at AUTH" + silent},
		{"AUTH", "refused", plain, nil, answersAll("AUTH", "-WRONGPASS no\r\n"), "WRONGPASS no"},
		{"SELECT", "silent", plain, nil, answersAll("SELECT", silence), "at SELECT" + silent},
		{"SELECT", "refused", plain, nil, answersAll("SELECT", "-ERR no DB\r\n"), "ERR no DB"},
		{"INFO", "silent", plain, nil, answersAll("INFO", silence), "at INFO" + silent},
		{"INFO", "refused", plain, nil, answersAll("INFO", "-NOPERM for 'info'\r\n"), "NOPERM for 'info'"},
		{"HELLO", "silent", plain, nil, func(f *fake, _ *Config) {
			f.answerAll("HELLO", silence)
			f.answerAll("SCRIPT", silence) // in order
		}, "at HELLO" + silent},
		{"HELLO", "refused", plain, nil, answersAll("HELLO", noPerm), ""}, // RESP2 does, too
		{"SCRIPT", "silent", plain, nil, answersAll("SCRIPT", silence), "at SCRIPT" + silent},
		{"SCRIPT", "refused", plain, nil, answersAll("SCRIPT", "-OOM full\r\n"), "OOM full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := resolves(here)
			h.modern = true
			if c.url == secure {
				h.tls = theirs
			}
			if c.host != nil {
				c.host(h)
			}
			k := h.start(t, c.url, func(f *fake, config *Config) {
				loads(first)(f, config)
				config.Handshake = func(do Do) error {
					replies, err := do([]any{"INFO"})
					if err == nil {
						err, _ = replies[0].(error)
					}
					return err
				}
				if c.get != nil {
					c.get(f, config)
				}
			})
			after := 1200 * ms
			if c.how == "slow" && c.want == "" {
				after = 10 * time.Second
			}
			time.Sleep(after)
			synctest.Wait()
			up, err := k.State()
			if up != (c.want == "") || !up && err.Error() != "not connected: "+c.want {
				t.Errorf("%s, %s: connected %t, says %v, want %q", c.step, c.how, up, err, c.want)
			}
			if c.step == "each" {
				h.wantsAttempts(t, 1)
			}
			if len(h.gate) > 0 {
				h.resume()
			}
		})
	}
}
