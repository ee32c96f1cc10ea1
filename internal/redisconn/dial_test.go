package redisconn

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

func TestParseServer(t *testing.T) {
	for _, c := range []struct {
		url  string
		want server
	}{
		{"redis://h", server{network: "tcp", address: "h:6379"}},
		{"redis://H:7001/3", server{network: "tcp", address: "h:7001", db: 3}},
		{"redis://u:p%40ss@h:1/", server{network: "tcp", address: "h:1", username: "u", password: "p@ss"}},
		{"redis://:p@h", server{network: "tcp", address: "h:6379", password: "p"}},
		{"redis://p@h", server{network: "tcp", address: "h:6379", password: "p"}},
		{"rediss://h:1", server{network: "tcp", address: "h:1", tls: true}},
		{"valkey://h:1", server{network: "tcp", address: "h:1"}},
		{"redis://[::1]:7", server{network: "tcp", address: "[::1]:7"}},
		{"h", server{network: "tcp", address: "h:6379"}},
		{"h:7001", server{network: "tcp", address: "h:7001"}},
		{"h:7001/3", server{network: "tcp", address: "h:7001", db: 3}},
		{"u:p@h:7001", server{network: "tcp", address: "h:7001", username: "u", password: "p"}},
		{"10.0.0.1:7001", server{network: "tcp", address: "10.0.0.1:7001"}},
		{"[::1]:7001", server{network: "tcp", address: "[::1]:7001"}},
		{"[::1]", server{network: "tcp", address: "[::1]:6379"}},
		{"redis://u:p@ss@h", server{network: "tcp", address: "h:6379", username: "u", password: "p@ss"}},
		{"unix:///run/r@1.sock", server{network: "unix", address: "/run/r@1.sock"}},
		{"unix:///run/r.sock", server{network: "unix", address: "/run/r.sock"}},
		{"unix://u:p@/run/r.sock?db=2", server{network: "unix", address: "/run/r.sock", username: "u", password: "p", db: 2}},
	} {
		got, err := parseServer(c.url)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.url, got, err, c.want)
		}
	}
}

// Without user and password, a URL leads to the same server.
func TestSplitURL(t *testing.T) {
	for raw, want := range map[string][4]string{
		"h":                             {"redis://h", "h:6379", "", ""},
		"u:p@h:7001/3":                  {"redis://h:7001/3", "h:7001", "u", "p"},
		"redis://h":                     {"redis://h", "h:6379", "", ""},
		"rediss://u:p%40@H:1/":          {"rediss://H:1/", "h:1", "u", "p@"},
		"redis://u:p@ss@[::1]:7":        {"redis://[::1]:7", "[::1]:7", "u", "p@ss"},
		"redis://p@h":                   {"redis://h", "h:6379", "", "p"},
		"redis://u:@h":                  {"redis://h", "h:6379", "u", ""},
		"unix:///run/r@1.sock":          {"unix:///run/r@1.sock", "unix:///run/r@1.sock", "", ""},
		"unix://u:p@/run/r@1.sock?db=2": {"unix:///run/r@1.sock?db=2", "unix:///run/r@1.sock", "u", "p"},
	} {
		bare, addr, user, password, err := SplitURL(raw)
		if got := [4]string{bare, addr, user, password}; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", raw, got, err, want)
		}
		of, _ := parseServer(raw)
		of.username, of.password = "", ""
		if got, err := parseServer(bare); err != nil || got != of {
			t.Errorf("%s: %s leads to %+v, %v, want %+v", raw, bare, got, err, of)
		}
	}
	if _, _, _, _, err := SplitURL("redis://u:p/w@h"); !errors.Is(err, errUnescaped) {
		t.Errorf("got %v, want %v", err, errUnescaped)
	}
}

// The error for a bad URL says what is wrong, and quotes no part of a password.
func TestBadURLs(t *testing.T) {
	const secret = "hunter2"
	for url, want := range map[string]string{
		"":                                          "not a URL",
		" ":                                         "not a URL",
		secret + "://rest@h:6379":                   "unknown scheme: use redis",
		"::1":                                       "needs brackets",
		"localhost:port":                            "and not host:port",
		"/run/r.sock":                               "no host",
		"h:" + secret + "@":                         "no host",
		"redis://u:%zz" + secret + "@h":             "percent-encode",
		"redis://u:" + secret + "@h:" + secret:      "percent-encode",
		"redis://:p@" + secret + "/wo#rd@h:6379":    "percent-encode",
		"redis://u:" + secret + "/w@h":              "percent-encode",
		"redis://u:" + secret + "#w@h":              "percent-encode",
		"redis://u:" + secret + "?w@h":              "percent-encode",
		"redis://u:" + secret + "%@h":               "percent-encode",
		"redis://" + secret + "/w@h":                "percent-encode",
		"redis://" + secret + "#w@h":                "percent-encode",
		"redis://" + secret + "?w@h":                "percent-encode",
		"redis://u:12/" + secret + "@h":             "percent-encode",
		"redis://u:12?" + secret + "@h":             "percent-encode",
		"redis://u:12#" + secret + "@h":             "percent-encode",
		"redis://u:12/" + secret + "%40@h":          "percent-encode",
		"u:" + secret + "/w@h:6379":                 "percent-encode",
		"unix://u:" + secret + "/w@/run/r.sock":     "percent-encode",
		"unix://u:12/" + secret + "@/run/r.sock":    "percent-encode",
		"unix://u:p@/run/r.sock?db=" + secret + "@": "percent-encode",
		"redis://u:" + secret + "@h:99999":          "port",
		"redis://u:" + secret + "@":                 "no host",
		"redis://u:" + secret + "@h/" + secret:      "database",
		"redis://u:" + secret + "@h/-1":             "database",
		"redis://u:" + secret + "@h/0?t=" + secret:  "query",
		"http://u:" + secret + "@h":                 `scheme "http"`,
		"a,b,c":                                     "more than one node",
		"a:1 b:2":                                   "more than one node",
		"redis://u:" + secret + "@a/0,b":            "more than one node",
		"u:" + secret + "@a, u:" + secret + "@b":    "more than one node",
		"redis://a:6379,redis://b:6379":             "more than one node",
		"unix://run/r.sock":                         "three slashes",
		"unix:///r.sock?database=" + secret:         "query",
	} {
		_, err := New(url, Config{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func FuzzParseServer(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/2", "unix:///a?db=1", "rediss://[::1]", "h:1", "redis://%", "",
		"redis://:p@ss/wo#rd@host:6379", "[::1]:6379", "unix:///a@b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseServer(raw)
		if err != nil {
			return
		}
		if got.address == "" || got.network != "tcp" && got.network != "unix" {
			t.Errorf("%q: accepted as %+v", raw, got)
		}
		tells := strings.Contains(got.String(), got.password) && !strings.Contains(got.address, got.password)
		if len(got.password) > 3 && tells {
			t.Errorf("%q: String tells the password", raw)
		}
	})
}

// abort resets a connection, so that bytes which the kernel has not sent yet never arrive; close delivers everything.
func TestADroppedConnectionIsReset(t *testing.T) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	plain := func(c net.Conn) net.Conn { return c }
	secure := func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12}) }
	for _, c := range []struct {
		name string
		over func(net.Conn) net.Conn
		end  func(*link)
		want error
	}{
		{"dropped", plain, (*link).abort, syscall.ECONNRESET},
		{"dropped, TLS", secure, (*link).abort, syscall.ECONNRESET},
		{"closed", plain, (*link).close, nil},
	} {
		conn := must(net.Dial("tcp", listener.Addr().String()))(t)
		node := must(listener.Accept())(t)
		must(conn.Write([]byte("PING\r\n")))(t)
		l := &link{net: c.over(conn)}
		c.end(l)
		l.close()
		if _, err := io.ReadAll(node); !errors.Is(err, c.want) {
			t.Errorf("%s: the node reads to the end and gets %v, want %v", c.name, err, c.want)
		}
		_ = node.Close()
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
