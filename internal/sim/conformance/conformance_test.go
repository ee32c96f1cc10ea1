package conformance_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim"
	"github.com/quorumlock/redlock/internal/sim/conformance"
)

func scripts(t *testing.T) map[string]string {
	t.Helper()
	return cases.Must(conformance.ReadScripts("../../lua"))(t)
}

func TestModel(t *testing.T) {
	var nw *sim.Network
	conformance.Run(t, conformance.Target{
		Around: func(t *testing.T, body func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				node := sim.NewNode("n0:6379", 1)
				nw = sim.NewNetwork(1)
				nw.Attach(node)
				t.Cleanup(node.Close)
				body(t)
			})
		},
		Dial: func(t testing.TB) conformance.Conn {
			conn := cases.Must(nw.Dial(context.Background(), "test", "n0:6379"))(t)
			c := redis.NewConn(conn, 0, 0)
			t.Cleanup(func() { _ = c.Close() })
			return c
		},
	}, scripts(t))
}

func TestMiniredis(t *testing.T) {
	var m *miniredis.Miniredis
	conformance.Run(t, conformance.Target{
		Around: func(t *testing.T, body func(*testing.T)) {
			m = miniredis.RunT(t)
			body(t)
		},
		Dial:   func(t testing.TB) conformance.Conn { return dial(t, m.Addr()) },
		Sleep:  func(d time.Duration) { m.FastForward(d) }, // its clock stands still by itself
		Except: miniredisExceptions,
	}, scripts(t))
}

func dial(t testing.TB, address string) redis.Conn {
	t.Helper()
	c := cases.Must(redis.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEveryScriptHasCases(t *testing.T) {
	cases := cases.Must(conformance.Cases())(t)
	for name := range scripts(t) {
		if len(cases[name]) == 0 {
			t.Errorf("internal/lua/%s.lua has no cases: add them to internal/sim/conformance/cases/%[1]s.txt", name)
		}
	}
}

// miniredisExceptions: what is not so in miniredis 2.40. None of it concerns a lock that is used as it should be, but
// it means that a script which prints a token by accident passes there and fails on a real server.
var miniredisExceptions = map[string]conformance.Exception{
	"SET PX 0":              {"another wording", "error ERR invalid expire time in set…"},
	"SET PX without number": {"another wording", "error ERR value is not an integer or out of range…"},

	"EVAL call error leaves the script": scriptError("1: WRONGTYPE"),
	"EVAL writes before an error stay":  scriptError("1: WRONGTYPE"),
	"EVAL Lua error":                    scriptError("1: boom"),
	"EVAL unknown command":              scriptError("1: Unknown Redis command called from script"),
	"EVAL wrong number of arguments":    scriptError("1: ERR wrong number of arguments for 'get' command"),
	"EVAL argument of a wrong type":     scriptError("1: Lua redis lib command arguments must be strings or integers"),
	"EVAL not allowed from script":      scriptError("1: This Redis command is not allowed from script"),
	"EVAL unknown global": scriptError(
		"16: Script attempted to access nonexistent global variable 'nosuch'"),
	"acquire with a TTL of 0":               scriptError(""),
	"acquire where the tokens are a string": scriptError(""),
	"acquire all with a TTL of 0":           scriptError(""),
	"EVALSHA in upper case":                 {"the hash is compared as it is written", "error NOSCRIPT…"},
	"Lua tostring of a token":               allDigits("1763700000000001"),
	"Lua concatenation of a token":          allDigits("1763700000000001"),
	"Lua concatenation of a sum":            allDigits("t1763700000000002!"),
	"Lua table.concat of a token":           allDigits("1763700000000001,x"),
	"Lua %s of a token":                     allDigits("1763700000000001"),
}

// scriptError is the error that leaves a script, from the number of its line on; "": our own scripts have no fixed
// lines.
func scriptError(from string) conformance.Exception {
	return conformance.Exception{
		Why:  "an error that leaves a script is reported as one of compiling it, its code lost",
		Want: "error ERR Error compiling script (new function): :" + from + "…",
	}
}

func allDigits(text string) conformance.Exception {
	return conformance.Exception{Why: "gopher-lua prints all digits of a number, Lua 5.1 14", Want: strconv.Quote(text)}
}

func TestModelSpeaksRESP3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := sim.NewNode("n0:6379", 1)
		nw := sim.NewNetwork(1)
		nw.Attach(node)
		t.Cleanup(node.Close)
		conformance.RESP3(t, func() net.Conn { return cases.Must(nw.Dial(context.Background(), "test", "n0:6379"))(t) })
	})
}
