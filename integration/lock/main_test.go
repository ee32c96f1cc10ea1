// Package lock_test tests what only real masters and real networks can show of a single lock: packets that are late or
// lost, connections that break, and the ways to reach a server.
package lock_test

import (
	"testing"

	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }
