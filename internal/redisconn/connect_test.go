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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

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
		{"refused", "fake", func(f *fake, _ *Config) { f.refuse(true) }, errRefused, `(explained ""): connection refused`},
		{"dial takes too long", "fake", func(_ *fake, c *Config) { c.Dial = nobody }, ErrTimeout, ""},
		{"AUTH refused", ":p@fake", answersAll("AUTH", "-WRONGPASS no\r\n"), nil, `(explained ""): WRONGPASS no`},
		{
			"AUTH not known", ":hunter2@fake",
			answersAll("AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n"),
			nil, "ERR unknown command 'AUTH'",
		},
		{"AUTH takes too long", ":p@fake", answersAll("AUTH", silence), ErrTimeout, ""},
		{"SELECT refused", "fake/5", answersAll("SELECT", "-ERR no\r\n"), nil, `(explained ""): ERR no`},
		{"unfit", "fake", func(_ *fake, c *Config) { c.Handshake = func(Do) error { return unfit } }, unfit, ""},
		{"first command takes too long", "fake", answersAll("ECHO", silence), ErrTimeout, ""},
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
		{"bad reply", "fake", answersAll("ECHO", "hello\r\n"), nil, "it is no Redis server: check host and port"},
		{"a web server", "fake", answersAll("ECHO", web), nil, "but answers HTTP"},
		{"a web server, AUTH", ":hunter2@fake", answersAll("AUTH", web), nil, "but answers HTTP"},
		{"hung up on at AUTH", ":hunter2@fake", answersAll("AUTH", hangUp), io.EOF, "wants TLS (rediss://)"},
		{"SCRIPT LOAD refused", "fake", answersAll("SCRIPT", "-OOM no\r\n"), nil, `(explained "script"): OOM no`},
		{"hung up on later", "fake", answersAll("SCRIPT", hangUp), io.EOF, `(explained "script"): EOF`},
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
		if _, err := c.State(); !errors.As(err, new(CredentialsError)) ||
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

// What is asked before the first attempt to connect has ended waits for it, and fails with its reason.
func TestTheFirstErrorHasTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := errors.New("the vault is sealed")
		config := newFake().config()
		config.Credentials = func(ctx context.Context, _ string) (string, string, error) {
			return "", "", errors.Join(sealed, sleep(ctx, config.Timeout/2))
		}
		r := start(t, "redis://fake", config).send(first, "job")
		time.Sleep(config.Timeout)
		r.fails(sealed)
	})
}

// A connection that lasted for a while and was closed is about to return. One that is broken at once, again and again,
// is an outage, and so is one that is refused.
func TestWhatReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var returned []bool
		var c *client
		c = start(t, "redis://fake", f.config(), func(up bool, _ error) {
			if !up {
				returned = append(returned, c.Returns())
			}
		})
		for _, lasted := range []time.Duration{2 * time.Second, 500 * ms} {
			time.Sleep(lasted)
			f.cut()
			time.Sleep(50 * ms)
		}
		if c.is(up, nil); !slices.Equal(returned, []bool{true, false}) {
			t.Errorf("got %v, want true, and false", returned)
		}
	})
}

// The second connection asks, too.
func TestCredentialsOfTheSecondConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		config := f.config()
		config.Credentials = func(context.Context, string) (string, string, error) { return "ann", "one", nil }
		c := must(New("redis://fake", config))(t)
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
				case !up && after > config.ConnectTimeout && (!errors.As(err, new(CredentialsError)) ||
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

// There must be one source of credentials.
func TestCredentialsBesideThoseOfTheURL(t *testing.T) {
	config := Config{Credentials: func(context.Context, string) (string, string, error) { return "", "", nil }}
	for url, fits := range map[string]bool{
		"redis://fake": true, "unix:///fake": true,
		"redis://hunter2@fake": false, "redis://:hunter2@fake": false, "redis://hunter2:@fake": false,
		"unix://ann:hunter2@/fake": false,
	} {
		_, err := New(url, config)
		if (err == nil) != fits || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// A user that has no permission to load scripts can still use them, also where the server does not know SCRIPT.
func TestScriptsThatMayNotBeLoaded(t *testing.T) {
	both := []string{"SCRIPT LOAD first", "SCRIPT LOAD second"}
	for refusal, tried := range map[string][]string{
		noPerm: both,
		"-ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.\r\n":                   both,
		"-ERR unknown command 'SCRIPT', with args beginning with: 'EXISTS' \r\n": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, c := connect(t, loads(first, second), answersAll("SCRIPT", refusal), answers("EVALSHA", noScript))
			c.send(first, "a").wants("as usual")
			f.wants(t, slices.Concat([]string{"SCRIPT EXISTS first second"}, tried,
				[]string{"EVALSHA first 1 a #0", "EVAL first 1 a #0"})...)
		})
	}
}

// A server gets only the scripts that it does not have. One that cannot say gets all.
func TestScriptsThatTheServerHas(t *testing.T) {
	for reply, want := range map[string][]string{
		"*2\r\n:1\r\n:0\r\n": {"SCRIPT LOAD third"},
		"*2\r\n:1\r\n:1\r\n": nil,
		"*1\r\n:1\r\n":       {"SCRIPT LOAD third"},
		"-ERR no\r\n":        {"SCRIPT LOAD first", "SCRIPT LOAD third"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, c := connect(t, loads(first, third), answers("SCRIPT", reply))
			c.is(up, nil)
			f.wants(t, append([]string{"SCRIPT EXISTS first third"}, want...)...)
		})
	}
}

// The tests below use real sockets. eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func patient() Config {
	return Config{Timeout: 20 * time.Second, ConnectTimeout: 20 * time.Second, Now: time.Now}
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
			eventually(t, "an outcome", func() bool {
				_, err := client.State()
				return !errors.Is(err, errConnecting)
			})
			up, err := client.State()
			if up != (c.want == "") || !up && !strings.Contains(err.Error(), c.want) {
				t.Errorf("connected %t, %v, want %q", up, err, c.want)
			}
			if up {
				r := client.send(first, "a")
				eventually(t, "a reply", r.isDone)
				r.wants("as usual")
			}
		})
	}
}

// The functions of a TLS configuration are asked at each connect. What they fail with is told for what it is: no file
// of the client is the server's fault. One that verifies the server learns which host it should be, an IP address, too.
func TestCertificatesThatChange(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate, for 127.0.0.1 and example.com
	web.Close()
	f := newFake()
	addr := f.listen(t, &tls.Config{
		Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert,
	})
	var mu sync.Mutex // guards the next lines
	var names []string
	var refused, missing error
	becomes := func(verdict, own error) {
		mu.Lock()
		defer mu.Unlock()
		refused, missing = verdict, own
	}
	untrusted := x509.UnknownAuthorityError{}
	becomes(untrusted, nil)
	config := patient()
	config.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, state.ServerName)
			return refused
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			mu.Lock()
			defer mu.Unlock()
			return &web.TLS.Certificates[0], missing
		},
	}
	client := start(t, "rediss://"+addr, config)
	fails := func(want string, kind any) {
		t.Helper()
		eventually(t, want, func() bool {
			_, err := client.State()
			client.Wanted()
			return err != nil && err.Error() == ErrDown.Error()+": "+want && errors.As(err, kind)
		})
	}
	fails("its certificate is not accepted: certificate signed by unknown authority", new(MismatchError))
	becomes(fmt.Errorf("read ca.pem: %w", io.ErrUnexpectedEOF), nil)
	fails("its certificate is not accepted: read ca.pem: unexpected EOF", new(MismatchError))
	becomes(nil, fmt.Errorf("read key.pem: %w", io.ErrUnexpectedEOF))
	fails("credentials: read key.pem: unexpected EOF", new(CredentialsError))
	becomes(nil, nil)
	eventually(t, "a connection", func() bool { client.Wanted(); up, _ := client.State(); return up })
	mu.Lock()
	defer mu.Unlock()
	for _, name := range names {
		if name != "127.0.0.1" {
			t.Errorf("asked to verify %q, want the IP address of the URL", name)
		}
	}
	if config.TLS.ServerName != "" {
		t.Errorf("the caller's configuration has changed: %q", config.TLS.ServerName)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f := newFake()
	f.serve(t, must(net.Listen("unix", path))(t))
	c := start(t, "unix://"+path, patient())
	if got := c.Addr(); got != "unix://"+path {
		t.Errorf("named %s", got)
	}
	eventually(t, "a reply", func() bool {
		got, err := c.Do(t.Context(), []any{"PING"})
		return err == nil && got[0] == "PONG"
	})
}

// Over sockets that break again and again, each request gets one reply, and all undos arrive.
func TestManyCallersShareAConnection(t *testing.T) {
	f := newFake()
	config := patient()
	config.Scripts = append(config.Scripts, first.Script, undo.Script)
	c := start(t, "redis://"+f.listen(t, nil), config)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 100 {
				key := fmt.Sprint(i, "/", n)
				r := c.send(first, key)
				u := c.send(undo, key)
				eventually(t, "two replies", func() bool { return r.isTold() && u.isTold() })
				if i == 0 && n%10 == 9 {
					f.cut()
				}
			}
		})
	}
	callers.Wait()
	eventually(t, "all is done with", func() bool { return c.Backlog() == 0 && c.rounds[len(c.rounds)-1].isDone() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c.Drain(ctx)
	undone := map[string]bool{}
	for _, command := range f.received() {
		words := strings.Fields(command)
		for _, word := range words[1:] {
			if words[0] != "SCRIPT" && words[1] == "undo" {
				undone[word] = true
			} else if undone[word] && strings.Contains(word, "/") {
				t.Errorf("%s is sent behind its undo", word)
			}
		}
	}
	for _, r := range c.rounds {
		if number := fmt.Sprint("#", r.Node); r.Command == undo && !undone[number] {
			t.Errorf("undo %s was never sent", number)
		}
	}
}

// The error code of an error reply, wherever it stands.
func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("NOPERM no"), ""},
		{redis.Error("NOPERM no"), "NOPERM"},
		{fmt.Errorf("it says: %w", redis.Error("OOM no")), "OOM"},
		{redis.Error("ERR no"), "ERR"},
		{redis.Error("no such thing"), "ERR"},
		{redis.Error("NOSCRIPT"), "NOSCRIPT"},
		{redis.Error("ERR max number of clients reached"), "MAXCLIENTS"},
		{redis.Error("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed"), "OOM"},
		{redis.Error("ERR Error running script (call to f_1): @user_script:1: no"), "ERR"},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
