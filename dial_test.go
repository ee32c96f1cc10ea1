package redlock

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		url  string
		want target
	}{
		{"redis://h", target{network: "tcp", address: "h:6379"}},
		{"redis://H:7001/3", target{network: "tcp", address: "h:7001", db: 3}},
		{"redis://u:p%40ss@h:1/", target{network: "tcp", address: "h:1", username: "u", password: "p@ss"}},
		{"redis://:p@h", target{network: "tcp", address: "h:6379", password: "p"}},
		{"redis://p@h", target{network: "tcp", address: "h:6379", password: "p"}},
		{"rediss://h:1", target{network: "tcp", address: "h:1", tls: true}},
		{"valkey://h:1", target{network: "tcp", address: "h:1"}},
		{"redis://[::1]:7", target{network: "tcp", address: "[::1]:7"}},
		{"unix:///run/r.sock", target{network: "unix", address: "/run/r.sock"}},
		{"unix://u:p@/run/r.sock?db=2", target{network: "unix", address: "/run/r.sock", username: "u", password: "p", db: 2}},
	} {
		got, err := parseTarget(c.url)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.url, got, err, c.want)
		}
	}
}

func TestBadNodesAreRefusedWithoutTheirSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		nodes []string
		want  string // a part of the error
	}{
		{nil, "no nodes"},
		{[]string{""}, "node 1: not a URL"},
		{[]string{"localhost:6379"}, "not a URL"},
		{[]string{"redis://h:1", "h:" + secret + "@2"}, "node 2: not a URL"},
		{[]string{"redis://u:" + secret + "@h:99999"}, "port"},
		{[]string{"redis://u:" + secret + "@h:" + secret}, "not a URL"},
		{[]string{"redis://u:" + secret + "@"}, "no host"},
		{[]string{"redis://u:" + secret + "@h/" + secret}, "database"},
		{[]string{"redis://u:" + secret + "@h/0?timeout=" + secret}, "query"},
		{[]string{"http://u:" + secret + "@h"}, `scheme "http"`},
		{[]string{"unix://run/r.sock"}, "three slashes"},
		{[]string{"redis://u:%zz" + secret + "@h"}, "not a URL"},
		{[]string{"redis://h:1", "redis://h:2", "redis://u:" + secret + "@H:1/5"}, "nodes 1 and 3 are the same server h:1"},
		{make([]string, maxNodes+1), "at most 31"},
	} {
		l, err := New(c.nodes)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q: no error", c.nodes)
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %q, want ErrInvalid with %q", c.nodes, err, c.want)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error tells the secret: %v", c.nodes, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"redis://u:p@h:1/2", "unix:///a?db=1", "rediss://[::1]", "h:1", "redis://%", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseTarget(raw)
		if err != nil {
			return
		}
		if got.address == "" || got.network != "tcp" && got.network != "unix" {
			t.Errorf("%q: accepted as %+v", raw, got)
		}
		if len(got.password) > 3 && strings.Contains(got.String(), got.password) && !strings.Contains(got.address, got.password) {
			t.Errorf("%q: String tells the password", raw)
		}
	})
}

// A connection that is given up is reset, so that nothing which the kernel still has to send arrives later; one that is
// closed in order delivers everything.
func TestADroppedConnectionIsReset(t *testing.T) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	for _, c := range []struct {
		name string
		over func(net.Conn) net.Conn
		end  func(*link)
		want error
	}{
		{"dropped", func(c net.Conn) net.Conn { return c }, (*link).drop, syscall.ECONNRESET},
		{"dropped, TLS", func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12}) }, (*link).drop, syscall.ECONNRESET},
		{"closed", func(c net.Conn) net.Conn { return c }, (*link).close, nil},
	} {
		conn := must(net.Dial("tcp", listener.Addr().String()))(t)
		node := must(listener.Accept())(t)
		must(conn.Write([]byte("PING\r\n")))(t)
		l := &link{wire: &wire{Conn: c.over(conn)}}
		c.end(l)
		l.close()
		if _, err := io.ReadAll(node); !errors.Is(err, c.want) {
			t.Errorf("%s: the node reads to the end and gets %v, want %v", c.name, err, c.want)
		}
		_ = node.Close()
	}
}
