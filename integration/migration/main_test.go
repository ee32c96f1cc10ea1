// Package migration_test moves client processes under load from one list of masters to another, one by one, as a
// rolling deployment does: with redlock.WithNewNodes in between.
package migration_test

import (
	"os"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/boottime"
)

// What all clients must agree about. Masters that have just been started, and the one that is restarted under way,
// abstain for the guard's period.
const (
	ttl   = 3 * time.Second
	guard = ttl
)

// TestMain is also main of the clients' processes.
func TestMain(m *testing.M) {
	if text := os.Getenv(clientVariable); text != "" {
		os.Exit(runClient(text))
	}
	fleet.Main(m)
}

// now is a clock that all processes of the machine share. Nobody sets it, where the system has such a one.
func now() time.Duration {
	if d := boottime.Now(); d != 0 {
		return d
	}
	return time.Duration(time.Now().UnixNano())
}
