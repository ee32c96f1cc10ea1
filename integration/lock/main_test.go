// Package lock_test tests what only real masters and the real clock can show of a single lock: what it costs while
// masters are frozen or refuse, and the ways to reach a server.
package lock_test

import (
	"testing"

	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }
