// Package waiting_test shows on real masters what those who wait for a lock may
// rely on while others who wait, or hold, are killed, cut off or not told.
package waiting_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
)

// What runs always takes half a minute.
var long = flag.Bool("long", os.Getenv("REDLOCK_LONG") != "", "run at full size: minutes instead of seconds")

// sized returns the size of a measurement.
func sized[T any](short, full T) T {
	if *long {
		return full
	}
	return short
}

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
