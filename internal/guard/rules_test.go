package guard

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

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
		{"Garnet", told("garnet_version:1.0.84"), Rules{}, "it is Garnet, whose scripts are not atomic", ErrRefused},
		{"Garnet, which tells no more", map[string]string{"garnet_version": "1"}, blind, "it is Garnet", ErrRefused},
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
