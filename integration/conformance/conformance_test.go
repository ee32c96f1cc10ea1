// Package conformance_test holds real servers to the table of node behaviour that the
// model of the simulation and miniredis are held to, so that these cannot drift from them.
package conformance_test

import (
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim/conformance"
)

func TestMain(m *testing.M) { fleet.Main(m) }

func TestServer(t *testing.T) {
	scripts := cases.Must(conformance.ReadScripts("../../internal/lua"))(t)
	node := fleet.Start(t, 1).Nodes[0]
	conformance.Run(t, conformance.Target{
		Dial: func(t testing.TB) conformance.Conn {
			c := cases.Must(redis.Dial("tcp", node.Addr()))(t)
			t.Cleanup(func() { _ = c.Close() })
			return c
		},
		Except: exceptions(t, node.Addr()),
	}, scripts)
}

func TestServerSpeaksRESP3(t *testing.T) {
	node := fleet.Start(t, 1).Nodes[0]
	conformance.RESP3(t, func() net.Conn { return cases.Must(net.Dial("tcp", node.Addr()))(t) })
}

// exceptions returns what is not so at this server.
func exceptions(t *testing.T, addr string) map[string]conformance.Exception {
	t.Helper()
	c := cases.Must(redis.Dial("tcp", addr))(t)
	defer c.Close()
	info := cases.Must(redis.String(c.Do("INFO", "server")))(t)
	_, version, valkey := strings.Cut(info, "valkey_version:")
	if !valkey {
		return nil
	}
	not := maps.Clone(valkeyExceptions)
	if major, _, _ := strings.Cut(version, "."); major != "8" {
		maps.Copy(not, valkey9Exceptions)
	}
	return not
}

// valkeyExceptions: how Valkey 8 words errors whose code is the same. Only the code is ever looked at.
var valkeyExceptions = map[string]conformance.Exception{
	"EVAL unknown command": {Why: "without the word Redis", Want: "error ERR Unknown command called from script…"},
	"EVAL wrong number of arguments": {
		Why:  "without the word Redis",
		Want: "error ERR Wrong number of args calling command from script…",
	},
	"EVAL argument of a wrong type": {
		Why:  "no more than what must be",
		Want: "error ERR Command arguments must be strings or integers…",
	},
	"EVALSHA unknown": {Why: "without the advice to use EVAL", Want: "error NOSCRIPT No matching script.…"},
}

// valkey9Exceptions: what Valkey 9 words differently besides.
var valkey9Exceptions = map[string]conformance.Exception{
	"EVAL not allowed from script": {
		Why:  "with its own name",
		Want: "error ERR This Valkey command is not allowed from script…",
	},
}
