package guard

import (
	"maps"
	"strings"
	"testing"
	"time"
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
	if i := parseInfo(told("kvrocks_version:2.13.0", "master_replid2"), nil); i.Product != "Kvrocks" || i.Promoted {
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
		{[]byte("# Server\r\nrole:master\r\nmaster_host:::1\r\nmaxmemory_policy:\r\n\r\nnone\r\n"), map[string]string{
			"role": "master", "master_host": "::1", "maxmemory_policy": "",
		}},
		{"role:master\x1b[31m\u202e\x9b\r\n", map[string]string{"role": `master\x1b[31m\u202e\x9b`}},
		{[]any{[]byte("save"), []byte("\x1b")}, map[string]string{"save": `\x1b`}},
		{"run_id:1\nconfig_file:x\nloading:0", map[string]string{"run_id": "1", "loading": "0"}},
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
