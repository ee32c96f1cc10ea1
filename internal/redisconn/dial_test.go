package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/endpoint"
)

// abort resets a connection, so that bytes which the kernel has not sent yet never arrive; close delivers everything.
func TestADroppedConnectionIsReset(t *testing.T) {
	listener := cases.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	plain := func(c net.Conn) net.Conn { return c }
	secure := func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12}) }
	for _, c := range []struct {
		name string
		over func(net.Conn) net.Conn
		end  func(*wire)
		want error
	}{
		{"dropped", plain, (*wire).abort, syscall.ECONNRESET},
		{"dropped, TLS", secure, (*wire).abort, syscall.ECONNRESET},
		{"closed", plain, (*wire).close, nil},
	} {
		conn := cases.Must(net.Dial("tcp", listener.Addr().String()))(t)
		node := cases.Must(listener.Accept())(t)
		cases.Must(conn.Write([]byte("PING\r\n")))(t)
		w := &wire{net: c.over(conn)}
		c.end(w)
		w.close()
		if _, err := io.ReadAll(node); !errors.Is(err, c.want) {
			t.Errorf("%s: the node reads to the end and gets %v, want %v", c.name, err, c.want)
		}
		_ = node.Close()
	}
}

// A new connection authenticates as the URL's user, selects its database, and loads the scripts.
func TestConnecting(t *testing.T) {
	for _, c := range []struct {
		url  string
		want []string
	}{
		{"redis://fake", nil},
		{"redis://:secret@fake", []string{"AUTH secret"}},
		{"redis://user:p%40ss@fake/3", []string{"AUTH user p@ss", "SELECT 3"}},
		{"unix:///fake?db=2", []string{"SELECT 2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			config := f.config()
			loads(first, third)(f, &config)
			config.Handshake = func(do Do) error {
				replies, err := do([]any{"ECHO", "a"}, []any{"ECHO", 1})
				if err != nil || fmt.Sprint(replies) != "[OK OK]" {
					t.Errorf("the handshake is told %v, %v", replies, err)
				}
				return nil
			}
			client := start(t, c.url, config)
			f.wants(t, append(c.want, "ECHO a", "ECHO 1",
				"SCRIPT EXISTS first third", "SCRIPT LOAD first", "SCRIPT LOAD third")...)
			time.Sleep(time.Hour) // an idle connection stays
			client.is(up, nil)
			f.wantsAttempts(t, 1)
		})
	}
}

// State says why a server cannot be used, and the Conn tries again.
func TestConnectingFails(t *testing.T) {
	unfit := errors.New("wanted a better one")
	const full = "-ERR max number of clients reached\r\n"
	const web = "HTTP/1.1 400 Bad Request\r\n\r\n"
	for _, c := range []struct {
		name string
		url  string
		get  setup
		is   error // nil: any
		want string
	}{
		{"dial takes too long", "fake", func(_ *fake, c *Config) { c.Dial = nobody }, ErrTimeout, ""},
		{"AUTH refused", ":p@fake", answersAll("AUTH", "-WRONGPASS no\r\n"), nil, `(explained ""): WRONGPASS no`},
		{
			"AUTH not known", ":hunter2@fake",
			answersAll("AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n"),
			nil, "ERR unknown command 'AUTH'",
		},
		{"unfit", "fake", func(_ *fake, c *Config) { c.Handshake = func(Do) error { return unfit } }, unfit, ""},
		{"hung up on", "fake", answersAll("ECHO", hangUp), io.EOF, "wants TLS (rediss://)"},
		// It says why in place of the first reply.
		{"hung up on as one too many", "fake", func(f *fake, c *Config) {
			f.answerAll("ECHO a", full)
			f.answerAll("ECHO b", hangUp)
			c.Handshake = func(do Do) error {
				_, err := do([]any{"ECHO", "a"}, []any{"ECHO", "b"})
				return err
			}
		}, nil, "ERR max number of clients reached"},
		{"a web server", "fake", answersAll("ECHO", web), nil, "but answers HTTP"},
		{"a web server, AUTH", ":hunter2@fake", answersAll("AUTH", web), nil, "but answers HTTP"},
		{"hung up on at AUTH", ":hunter2@fake", answersAll("AUTH", hangUp), io.EOF, "wants TLS (rediss://)"},
		{"SCRIPT LOAD refused", "fake", answersAll("SCRIPT", "-OOM no\r\n"), nil, `(explained "script"): OOM no`},
		{"hung up on later", "fake", answersAll("SCRIPT", hangUp), io.EOF, `(explained "script"): at SCRIPT: EOF`},
		{"TLS takes too long", "rediss://fake", func(f *fake, _ *Config) { f.pause() }, ErrTimeout, "TLS handshake"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			config := f.config()
			loads(first)(f, &config)
			config.Handshake = echo
			config.Explain = func(err error, command string) error { return fmt.Errorf("(explained %q): %w", command, err) }
			c.get(f, &config)
			client := start(t, c.url, config)
			time.Sleep(config.ConnectTimeout)
			client.is(down, ErrDown, c.want)
			if _, err := client.State(); c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", c.name, err)
			}
			if len(f.gate) > 0 {
				f.resume()
			}
			f.recover()
			f.refuse(false)
			time.Sleep(2 * time.Second)
			lasting := errors.Is(c.is, unfit) || c.name == "dial takes too long" || strings.HasPrefix(c.url, "rediss")
			if up, err := client.State(); up == lasting {
				t.Errorf("%s: later connected %t, %v", c.name, up, err)
			}
		})
	}
}

// Whatever a server answers in the handshake, before it was authenticated or after, on the second connection as on the
// first: it loses the connection, and the client neither what is announced as memory nor its life.
func TestAHandshakeIsBounded(t *testing.T) {
	for _, answer := range []string{
		"*9223372036854775807\r\n", "$9223372036854775807\r\n", "*300000000\r\n", "$3000000000\r\n", "$-2\r\n",
		strings.Repeat("*1\r\n", 100_000), strings.Repeat("|1\r\n+a\r\n+b\r\n", 100_000),
		"+" + strings.Repeat("x", 1<<20), ":99999999999999999999999\r\n",
		fmt.Sprintf("$%d\r\n%s\r\n", 1<<18, strings.Repeat("x", 1<<18)),
		strings.Repeat(":1\r\n", 100), strings.Repeat(">1\r\n+x\r\n", 100),
	} {
		for _, command := range []string{"AUTH", "SELECT", "ECHO", "HELLO", "SCRIPT EXISTS", "SCRIPT LOAD"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.modern = true
				c := f.config()
				loads(first)(f, &c)
				echoes(f, &c)
				f.answerAll(command, answer)
				conn := start(t, "redis://user:secret@fake/1", c)
				synctest.Wait()
				_, err := conn.State()
				if !isBreach(err) || !errors.Is(err, ErrDown) {
					t.Errorf("%s: %.20q: got %v, want a breach", command, answer, err)
				}
				f.recover()
				time.Sleep(2 * time.Second)
				conn.is(up, nil)
			})
		}
		for _, command := range []string{"ECHO", "SUBSCRIBE"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.answerAll(command, answer)
				l := &listener{}
				c := cases.Must(New("redis://fake", f.config()))(t)
				c.protocol = resp2
				ctx, cancel := context.WithCancel(t.Context())
				ended := c.Subscribe(ctx, &Subscription{
					Channel: "wake", Needed: l.needed.Load, Denied: func(error) {}, Handshake: echo,
					Message: func(string, bool) { t.Errorf("%s: %.20q: a message", command, answer) },
				})
				time.Sleep(5 * time.Second)
				cancel()
				ended()
				if got := f.attempts(); got < 2 && command == "ECHO" || got > 30 {
					t.Errorf("%s: %.20q: %d attempts in 5 s", command, answer, got)
				}
			})
		}
	}
}

// The function for credentials is asked at each attempt to connect, so that a password may change. While it fails, its
// error is the reason why there is no connection.
func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := errors.New("the vault is sealed")
		var mu sync.Mutex // guards the next two lines
		user, password, failure := "ann", "one", sealed
		asked := 0
		// becomes sets what the function returns, and returns how often it was asked since the last change.
		becomes := func(nextUser, nextPassword string) int {
			mu.Lock()
			defer mu.Unlock()
			before := asked
			user, password, failure, asked = nextUser, nextPassword, nil, 0
			return before
		}
		f := newFake()
		config := f.config()
		config.Explain = func(err error, _ string) error { return fmt.Errorf("explained: %w", err) }
		config.Credentials = func(ctx context.Context, addr string) (string, string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if end, ok := ctx.Deadline(); addr != "fake:6379" || !ok || time.Until(end) != credentialsTimeout {
				t.Errorf("asked for %s, until %v", addr, end)
			}
			return user, password, failure
		}
		c := start(t, "redis://fake", config)
		c.is(down, ErrDown)
		c.is(down, sealed)
		f.wantsAttempts(t, 0)
		if _, err := c.State(); !errors.As(err, new(endpoint.CredentialsError)) ||
			err.Error() != "not connected: credentials: the vault is sealed" {
			t.Errorf("got %v", err)
		}
		for range 10 * 60 {
			time.Sleep(100 * ms)
			c.Wanted()
		}
		if got := becomes("ann", "one"); got < 60 || got > 140 {
			t.Errorf("asked %d times in a minute, want about once a second", got)
		}
		time.Sleep(time.Second)
		f.wants(t, "AUTH ann one")
		for _, next := range []struct{ user, password, want string }{
			{"ann", "two", "AUTH ann two"}, {"", "three", "AUTH three"}, {"ann", "", "PING"},
		} {
			becomes(next.user, next.password)
			f.cut()
			time.Sleep(100 * ms)
			_, err := c.Do(t.Context(), []any{"PING"})
			asked := becomes(next.user, next.password)
			if got := f.received(); err != nil || asked != 1 || len(got) == 0 || got[0] != next.want {
				t.Errorf("%+v: %v, asked %d times, got %q", next, err, asked, got)
			}
		}
	})
}

// The second connection asks, too.
func TestCredentialsOfTheSecondConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		config := f.config()
		config.Credentials = func(context.Context, string) (string, string, error) { return "ann", "one", nil }
		c := cases.Must(New("redis://fake", config))(t)
		c.protocol = resp2
		listenTo(t, c)
		f.wants(t, "AUTH ann one", "ECHO hello", "SUBSCRIBE wake")
	})
}

// A function for credentials may take longer than a connection. Meanwhile, and when it has taken too long, which is no
// deadline of a caller's, the state names it. It need not obey its context: what it returns late is for the next
// attempt, and it does not delay the end.
func TestCredentialsThatTakeLong(t *testing.T) {
	obeys := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("ask the vault: %w", ctx.Err())
		}
	}
	ignores := func(_ context.Context, d time.Duration) error { time.Sleep(d); return nil }
	for _, c := range []struct {
		name   string
		takes  time.Duration
		within func(ctx context.Context, d time.Duration) error
		up     time.Duration // 0: never
		asked  int           // until then, or within 25 s
	}{
		{"longer than a connection", 1500 * ms, obeys, 1500 * ms, 1},
		{"too long", time.Hour, obeys, 0, 3},
		{"too long, and it obeys nobody", 12 * time.Second, ignores, 12 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			config := f.config()
			var asked atomic.Int32
			config.Credentials = func(ctx context.Context, _ string) (string, string, error) {
				asked.Add(1)
				return "ann", "one", c.within(ctx, c.takes)
			}
			conn := start(t, "redis://fake", config)
			for begun := time.Now(); time.Since(begun) < 25*time.Second; time.Sleep(50 * ms) {
				up, err := conn.State()
				switch after := time.Since(begun); {
				case up && (c.up == 0 || after < c.up):
					t.Errorf("%s: connected after %v", c.name, after)
				case !up && c.up > 0 && after > c.up+time.Second:
					t.Errorf("%s: not connected after %v: %v", c.name, after, err)
				case !up && after > config.ConnectTimeout && (!errors.As(err, new(endpoint.CredentialsError)) ||
					!errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded)):
					t.Errorf("%s: after %v got %v, want a CredentialsError and ErrTimeout", c.name, after, err)
				}
				if up {
					break
				}
				conn.Wanted()
			}
			if got := int(asked.Load()); got != c.asked {
				t.Errorf("%s: asked %d times, want %d", c.name, got, c.asked)
			}
			takes(t, 0, conn.Close)
		})
	}
}

// A server that does not know AUTH quotes what came with it. Nobody may see that.
func TestRepliesToAUTHAreRedacted(t *testing.T) {
	const usual = "ERR AUTH <password> called without any password configured for the default user."
	const hidden = " (the reply to AUTH quotes what was sent, so it is not shown)"
	for reply, want := range map[string]string{
		"ERR unknown command 'AUTH', with args beginning with: 'app' 'S3CRET' ": "ERR unknown command 'AUTH'",
		"ERR unknown command `AUTH`, with args beginning with: `S3CR":           "ERR unknown command `AUTH`",
		"DENIED nobody is called S3CRET":                                        "DENIED" + hidden,
		"ERR no such user: app":                                                 "ERR" + hidden,
		"WRONGPASS invalid username-password pair or user is disabled.":         "",
		"ERR DB index is out of range":                                          "",
	} {
		if want == "" {
			want = reply
		}
		if got := redacted(redis.Error(reply), "app", "S3CRET"); got.Error() != want {
			t.Errorf("%s: got %s, want %s", reply, got, want)
		}
		if got := redacted(redis.Error(usual), "default", "S3CRET"); got.Error() != usual {
			t.Errorf("got %s, want %s", got, usual)
		}
	}
	network := errors.New("dial tcp: S3CRET.example: no such host") // the user's own address
	if got := redacted(network, "", "S3CRET"); !errors.Is(got, network) {
		t.Errorf("got %v", got)
	}
}

// TLS with a known server works; if only one side speaks TLS, the error says so.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	theirs := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	known := x509.NewCertPool()
	known.AddCert(web.Certificate())
	ours := &tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		name   string
		scheme string
		theirs *tls.Config
		ours   *tls.Config
		get    func(f *fake)
		want   string // a part of the error
	}{
		{"both", "rediss", theirs, ours, nil, ""},
		{"neither", "redis", nil, nil, nil, ""},
		{"with a stranger", "rediss", theirs, nil, nil, "its certificate is not accepted: certificate signed by unknown"},
		{"the client alone", "rediss", nil, ours, nil, "TLS handshake (a node that does not speak TLS wants redis://)"},
		{"the server alone", "redis", theirs, nil, nil, "closes it without an answer, as a proxy does"},
		{"reset", "redis", nil, nil, func(f *fake) { f.answerAll("ECHO", reset) }, "closes it without an answer, as a proxy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			if c.get != nil {
				c.get(f)
			}
			config := patient()
			config.TLS, config.Handshake = c.ours, echo
			client := start(t, c.scheme+"://"+f.listen(t, c.theirs), config)
			cases.Eventually(t, "an outcome", func() bool {
				_, err := client.State()
				return !errors.Is(err, errConnecting)
			})
			up, err := client.State()
			if up != (c.want == "") || !up && !strings.Contains(err.Error(), c.want) {
				t.Errorf("connected %t, %v, want %q", up, err, c.want)
			}
			if up {
				r := client.send(first, "a")
				cases.Eventually(t, "a reply", r.isDone)
				r.wants("as usual")
			}
		})
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f := newFake()
	f.serve(t, cases.Must(net.Listen("unix", path))(t))
	c := start(t, "unix://"+path, patient())
	if got := c.Addr(); got != "unix://"+path {
		t.Errorf("named %s", got)
	}
	cases.Eventually(t, "a reply", func() bool {
		got, err := c.Do(t.Context(), []any{"PING"})
		return err == nil && got[0] == "PONG"
	})
}
