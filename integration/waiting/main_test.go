// Package waiting_test shows on real masters what those who wait for a lock may
// rely on while others who wait, or hold, are killed, cut off or not told.
package waiting_test

import (
	"os"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
)

const (
	name = "turn"
	ttl  = 1500 * time.Millisecond
	// The longest that the default back-off gets for who is next.
	backoff = 250 * time.Millisecond
	// What a busy machine may take to run a process that is ready to run.
	slack = 500 * time.Millisecond
)

// TestMain is also main of the processes that contend.
func TestMain(m *testing.M) {
	if os.Getenv(contenderNodes) != "" {
		os.Exit(runContender())
	}
	fleet.Main(m)
}
