package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// A node that may evict locks is used when that is allowed, and doctor goes on telling of it.
func TestAllowEviction(t *testing.T) {
	c := redlocktest.New(t, 3)
	for _, url := range c.URLs() {
		conn := cases.Must(redis.DialURL(url))(t)
		defer conn.Close()
		for _, set := range [][]any{{"SET", "maxmemory", "1000000000"}, {"SET", "maxmemory-policy", "allkeys-lru"}} {
			cases.Must(conn.Do("CONFIG", set...))(t)
		}
	}
	nodes := "--nodes=" + strings.Join(c.URLs(), ",")
	evicts := "maxmemory-policy allkeys-lru may evict locks"
	code, out, _ := redlocks(t, "doctor", nodes)
	if code != exitUnavailable || strings.Count(out, "[refused]") != 3 ||
		!strings.Contains(out, evicts+": CONFIG SET maxmemory-policy noeviction, or see --allow-eviction") {
		t.Errorf("without: got %d,\n%s", code, out)
	}
	code, out, _ = redlocks(t, "doctor", nodes, "--allow-eviction")
	if code != exitUnsafe || strings.Count(out, "[evicts]") != 3 || !strings.Contains(out, evicts+" that are held") ||
		!strings.Contains(out, "unsafe: 3 of 3 nodes vote") {
		t.Errorf("with --allow-eviction: got %d,\n%s", code, out)
	}
	for want, args := range map[exitCode][]string{exitNoQuorum: nil, exitOK: {"--allow-eviction"}} {
		if got, _, said := redlocks(t, append([]string{"top", nodes, "name"}, args...)...); got != want {
			t.Errorf("top %q: got %d, want %d: %s", args, got, want, said)
		}
	}
}

// A node that refuses INFO is used when that is allowed, once it has been known for the restart guard.
func TestWithoutNodeInfo(t *testing.T) {
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "INFO" {
			c.WriteError("ERR unknown command 'INFO'")
		}
		return cmd == "INFO"
	})
	for _, c := range []struct {
		flags string
		code  exitCode
		want  []string
	}{
		{"", exitUnavailable, []string{"[refused]", "or see --no-node-info"}},
		{"--no-node-info", exitUnavailable, []string{"[abstains]", "[info-refused]"}},
		{"--no-node-info --no-restart-guard", exitDegraded, []string{"degraded: 1 of 1 node votes"}},
	} {
		code, out, _ := redlocks(t, append([]string{"doctor", "--nodes=" + m.Addr()}, strings.Fields(c.flags)...)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%q: got %d, want %d and %q in\n%s", c.flags, code, c.code, want, out)
			}
		}
	}
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
		{"--max-ttl=5s"},
		{"--max-ttl=1s"},
		{"--max-ttl=5s", "--ttl=20s"},
	}
	for _, verb := range verbs {
		for _, setting := range settings {
			want := exitOK
			if verb[0] == "doctor" && len(setting) > 1 && strings.HasPrefix(setting[1], "--ttl") {
				want = exitUsage
			}
			args := slices.Concat(verb[:1], []string{nodes, "--node-timeout=5s"}, setting, verb[1:])
			if got, _, said := redlocks(t, args...); got != want {
				t.Errorf("%q: got %d, want %d: %s", args, got, want, said)
			}
		}
	}
	for _, args := range [][]string{
		{"run", nodes, "--max-ttl=5s", "x", "true"},
		{"forget", nodes, "--max-ttl=5s", "x"},
		{"ls", nodes, "--ttl=0s"},
		{"ls", nodes, "--max-ttl=-1s"},
	} {
		if got, _, said := redlocks(t, args...); got != exitUsage {
			t.Errorf("%q: got %d, want 64: %s", args, got, said)
		}
	}
	// A long TTL makes the guard as long, also for what only looks.
	if _, out, _ := redlocks(t, "top", nodes, "--ttl=8000h", "--json"); !strings.Contains(out, `"abstains_until"`) {
		t.Errorf("nobody abstains: %s", out)
	}
}
