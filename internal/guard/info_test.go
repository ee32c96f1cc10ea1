package guard

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// told is the INFO of a healthy master, with changes: "key:value", or "key" for a field that it lacks.
func told(changes ...string) map[string]string {
	all := newNode().info
	all["redis_version"], all["redis_mode"] = "7.0.15", "standalone"
	for _, change := range changes {
		key, value, ok := strings.Cut(change, ":")
		if all[key] = value; !ok {
			delete(all, key)
		}
	}
	return all
}

// What makes a node unfit to vote, and the error that says so.
func TestUnfit(t *testing.T) {
	blind, lax := Rules{WithoutInfo: true}, Rules{MayEvict: true}
	replica := told("role:slave", "master_host:h", "master_port:1")
	evicts := told("maxmemory:5", "maxmemory_policy:allkeys-lru")
	for _, c := range []struct {
		name  string
		told  map[string]string
		rules Rules
		want  string // a part of the error; "": it is fit
		is    error
	}{
		{"a master", told(), Rules{}, "", nil},
		{"a replica", replica, Rules{}, "it is a replica of h:1: use its master", ErrRefused},
		{"a replica, though it need not tell", replica, blind, "it is a replica of h:1", ErrRefused},
		{"a sentinel", told("role:sentinel"), Rules{}, "its role is sentinel, not master", ErrRefused},
		{"a cluster", told("redis_mode:cluster"), Rules{}, "it runs in cluster mode", ErrRefused},
		{"a cluster of Valkey", told("redis_mode", "server_mode:cluster"), Rules{}, "it runs in cluster mode", ErrRefused},
		{"loading", told("loading:1"), Rules{}, "LOADING", redis.Error("LOADING the node is loading its data")},
		{"loading beside", told("async_loading:1"), Rules{}, "LOADING", nil},
		{"not loading", told("loading:0", "async_loading:0"), Rules{}, "", nil},
		{"evicts", evicts, Rules{}, "maxmemory-policy allkeys-lru may evict locks", ErrRefused},
		{"evicts, and may", evicts, lax, "", nil},
		{"limited, and does not evict", told("maxmemory:5", "maxmemory_policy:noeviction"), Rules{}, "", nil},
		{"limited, and does not say", told("maxmemory:5"), Rules{}, "", nil},
		{"a policy without a limit", told("maxmemory:0", "maxmemory_policy:allkeys-lru"), Rules{}, "", nil},
		{"tells no role", told("role"), Rules{}, "INFO lacks role, replid or uptime; allow it", ErrRefused},
		{"tells no uptime", told("uptime_in_seconds:long"), Rules{}, "INFO lacks", ErrRefused},
		{"tells a short replid", told("master_replid:abc"), Rules{}, "INFO lacks", ErrRefused},
		{"tells nothing", nil, Rules{}, "INFO lacks", ErrRefused},
		{"tells nothing, and need not", nil, blind, "", nil},
	} {
		err := parseInfo(c.told, nil).unfit(&c.rules)
		if !strings.Contains(text(err), c.want) || (err == nil) != (c.want == "") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %q (%v)", c.name, err, c.want, c.is)
		}
	}
}

// How a node persists its data, and whether that is durable.
func TestPersistence(t *testing.T) {
	aof := told("aof_enabled:1")
	fsync := func(always, lazy string) map[string]string {
		return map[string]string{"appendfsync": always, "no-appendfsync-on-rewrite": lazy}
	}
	for _, c := range []struct {
		told    map[string]string
		config  map[string]string
		blind   string
		want    string
		durable bool
	}{
		{told(), map[string]string{"save": ""}, "", "none", false},
		{told(), nil, "NOPERM", "no append-only file", false},
		{told(), map[string]string{"save": "900 1"}, "", "snapshots", false},
		{aof, nil, "NOPERM", "append-only", false},
		{aof, fsync("everysec", "no"), "", "append-only, fsync everysec", false},
		{aof, fsync("always", "no"), "", "append-only, fsync always", true},
		{aof, fsync("always", "yes"), "", "append-only, fsync always but not during rewrites", false},
		{aof, map[string]string{"appendfsync": "always"}, "", "append-only, fsync always but not during rewrites", false},
		{told("aof_enabled:0"), fsync("always", "no"), "", "none", false},
		{nil, map[string]string{"appendfsync": "always"}, "", "", false},
	} {
		i := parseInfo(c.told, c.config)
		i.Blind = c.blind
		if got := i.Persistence(); got != c.want || i.durable() != c.durable {
			t.Errorf("%v: got %q, durable %t, want %q, %t", c.config, got, i.durable(), c.want, c.durable)
		}
	}
}

// The remaining fields.
func TestParseInfo(t *testing.T) {
	promoted := "master_replid2:" + strings.Repeat("c", 40)
	i := parseInfo(told("used_memory:7", "maxmemory:9", "maxmemory_policy:x", promoted), nil)
	want := Info{
		Product: "Redis", Version: "7.0.15", mode: "standalone", Role: "master",
		runID: strings.Repeat("r", 40), replID: strings.Repeat("a", 40), Promoted: true, Uptime: time.Hour,
		UsedMemory: 7, MaxMemory: 9, Policy: "x",
	}
	if *i != want {
		t.Errorf("got  %+v\nwant %+v", *i, want)
	}
	if i.epoch() != strings.Repeat("a", 16) || i.age() != time.Hour-time.Second {
		t.Errorf("epoch %s, age %s", i.epoch(), i.age())
	}
	i = parseInfo(told("valkey_version:8.1.0", "uptime_in_seconds:0"), nil)
	if i.Product != "Valkey" || i.Version != "8.1.0" || i.Promoted || i.age() != 0 {
		t.Errorf("got %+v", i)
	}
	if i.Refused = "NOPERM"; i.epoch() != unknownEpoch {
		t.Errorf("epoch %s", i.epoch())
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		reply any
		want  map[string]string // nil: an error
	}{
		{[]byte("# Server\r\nrole:master\r\nconfig_file:C:\\x\r\nempty:\r\n\r\nnone\r\n"), map[string]string{
			"role": "master", "config_file": `C:\x`, "empty": "",
		}},
		{"a:1\nb:2", map[string]string{"a": "1", "b": "2"}},
		{[]any{[]byte("save"), []byte("900 1"), []byte("x"), []byte("")}, map[string]string{"save": "900 1", "x": ""}},
		{[]any{}, map[string]string{}},
		{[]any{[]byte("save")}, nil},
		{[]any{[]byte("save"), []any{}}, nil},
		{int64(7), nil},
		{nil, nil},
	} {
		got := map[string]string{}
		if err := parseFields(c.reply, got); (err != nil) != (c.want == nil) || err == nil && !maps.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.reply, got, err, c.want)
		}
	}
}
