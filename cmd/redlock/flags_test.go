package main

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestParseNodes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  {},
		" , \n":                             {},
		"redis://a,redis://b":               {"redis://a", "redis://b"},
		"redis://a redis://b\tredis://c\n":  {"redis://a", "redis://b", "redis://c"},
		"redis://a, rediss://u:p@b:6380/2,": {"redis://a", "rediss://u:p@b:6380/2"},
		"a,b:6380":                          {"a", "b:6380"},
		"unix:///run/redis.sock":            {"unix:///run/redis.sock"},
	} {
		if got := parseNodes(text); !slices.Equal(got, want) {
			t.Errorf("parseNodes(%q): got %q, want %q", text, got, want)
		}
	}
}

// A node that may evict locks is used when that is allowed, and doctor goes on telling of it.
func TestAllowEviction(t *testing.T) {
	c := redlocktest.New(t, 3)
	for _, url := range c.URLs() {
		conn, err := redis.DialURL(url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, set := range [][]any{{"SET", "maxmemory", "1000000000"}, {"SET", "maxmemory-policy", "allkeys-lru"}} {
			if _, err := conn.Do("CONFIG", set...); err != nil {
				t.Fatal(err)
			}
		}
	}
	nodes := "--nodes=" + strings.Join(c.URLs(), ",")
	evicts := "maxmemory-policy allkeys-lru may evict locks"
	code, out, _ := doctor(t, nodes)
	if code != exitUnavailable || strings.Count(out, "[refused]") != 3 ||
		!strings.Contains(out, evicts+": CONFIG SET maxmemory-policy noeviction, or see --allow-eviction") {
		t.Errorf("without: got %d,\n%s", code, out)
	}
	code, out, _ = doctor(t, nodes, "--allow-eviction")
	if code != exitUnsafe || strings.Count(out, "[evicts]") != 3 || !strings.Contains(out, evicts+" that are held") ||
		!strings.Contains(out, "unsafe: 3 of 3 nodes vote") {
		t.Errorf("with --allow-eviction: got %d,\n%s", code, out)
	}
	for want, args := range map[exitCode][]string{exitNoQuorum: nil, exitOK: {"--allow-eviction"}} {
		var said bytes.Buffer
		args = append(append([]string{"redlock", "top", nodes}, args...), "name")
		if got := run(t.Context(), args, &said, &said); got != want {
			t.Errorf("top %q: got %d, want %d: %s", args, got, want, said.String())
		}
	}
}

// A node that refuses INFO is used when that is allowed, once it has been known for the restart guard.
func TestWithoutNodeInfo(t *testing.T) {
	c := redlocktest.New(t, 1)
	nodes := "--nodes=" + withoutInfo(t, c.Addr(0))
	code, out, _ := doctor(t, nodes)
	if code != exitUnavailable || !strings.Contains(out, "[refused]") || !strings.Contains(out, "or see --no-node-info") {
		t.Errorf("without: got %d,\n%s", code, out)
	}
	code, out, _ = doctor(t, nodes, "--no-node-info")
	if code != exitUnavailable || !strings.Contains(out, "[abstains]") || !strings.Contains(out, "[info-refused]") {
		t.Errorf("with --no-node-info: got %d,\n%s", code, out)
	}
	code, out, _ = doctor(t, nodes, "--no-node-info", "--restart-guard=0s")
	if code != exitDegraded || !strings.Contains(out, "degraded: 1 of 1 node votes") {
		t.Errorf("with no guard either: got %d,\n%s", code, out)
	}
}

// withoutInfo returns the address of a node that knows no INFO and is otherwise the one at addr.
func withoutInfo(t *testing.T, addr string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			node, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(client, node) // until one of them has gone
				client.Close()
			}()
			go func() {
				defer node.Close()
				for buf := make([]byte, 1<<16); ; {
					n, err := client.Read(buf)
					if err != nil {
						return
					}
					// The client sees it if this fails.
					node.Write(bytes.ReplaceAll(buf[:n], []byte("\r\nINFO\r\n"), []byte("\r\nNONE\r\n")))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// What takes no lock has no use for a TTL, so it does not refuse one that does not fit the other settings; nor the
// default, which nobody gave. Doctor, which is asked about the settings, does refuse what it was given.
func TestATTLThatIsNotUsed(t *testing.T) {
	c := redlocktest.New(t, 3)
	nodes := "--nodes=" + strings.Join(c.URLs(), ",")
	verbs := [][]string{
		{"ls"}, {"status", "x"}, {"top"}, {"wait", "--no-wait"}, {"unlock", "--force", "--yes", "x"}, {"doctor"},
	}
	settings := [][]string{
		{"--restart-guard=5s"},
		{"--fence-retention=5s"},
		{"--restart-guard=2s", "--fence-retention=3s"},
		{"--restart-guard=5s", "--ttl=20s"},
		{"--fence-retention=2500ms", "--ttl=1s"},
	}
	for _, verb := range verbs {
		for _, setting := range settings {
			want := exitOK
			if verb[0] == "doctor" && len(setting) > 1 && strings.HasPrefix(setting[1], "--ttl") {
				want = exitUsage
			}
			var said bytes.Buffer
			args := append(append([]string{"redlock", verb[0], nodes, "--node-timeout=5s"}, setting...), verb[1:]...)
			if got := run(t.Context(), args, &said, &said); got != want {
				t.Errorf("%q: got %d, want %d: %s", args, got, want, said.String())
			}
		}
	}
	for _, args := range [][]string{
		{"redlock", "run", nodes, "--restart-guard=5s", "x", "true"},
		{"redlock", "forget", nodes, "--restart-guard=5s", "x"},
		{"redlock", "ls", nodes, "--ttl=0s"},
		{"redlock", "ls", nodes, "--restart-guard=1s"},
	} {
		var said bytes.Buffer
		if got := run(t.Context(), args, &said, &said); got != exitUsage {
			t.Errorf("%q: got %d, want 64: %s", args, got, said.String())
		}
	}
	// A long TTL makes the guard as long, also for what only looks.
	args := []string{"redlock", "top", nodes, "--ttl=8000h", "--json"}
	var said bytes.Buffer
	if run(t.Context(), args, &said, &said); !strings.Contains(said.String(), `"abstains_until"`) {
		t.Errorf("%q: nobody abstains: %s", args, said.String())
	}
}
