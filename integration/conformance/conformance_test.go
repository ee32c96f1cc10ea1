// Package conformance_test holds real servers to the table of node behaviour that the
// model of the simulation and miniredis are held to, so that these cannot drift from them.
package conformance_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/sim/conformance"
)

func TestMain(m *testing.M) { fleet.Main(m) }

func TestServer(t *testing.T) {
	scripts, err := conformance.ReadScripts("../../lua")
	if err != nil {
		t.Fatal(err)
	}
	cases := conformance.Commands()
	byScript := conformance.Scripts()
	for _, name := range slices.Sorted(maps.Keys(byScript)) {
		cases = append(cases, byScript[name]...)
	}
	if len(cases) < 100 {
		t.Fatalf("the table has %d rows: something is missing", len(cases))
	}
	node := fleet.Start(t, 1).Nodes[0]
	conformance.Run(t, conformance.Target{
		Dial: func(t testing.TB) conformance.Conn {
			c, err := redis.Dial("tcp", node.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		},
	}, scripts, cases...)
	t.Logf("%d rows", len(cases))
}
