// Package holding_test shows on real masters, and on the real clock, what a
// holder may rely on: that it is told of the end in time, whatever happens to it.
package holding_test

import (
	"os"
	"testing"

	"github.com/quorumlock/redlock/integration/fleet"
)

// TestMain is also main of the processes that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv(holderNodes) != "" {
		os.Exit(runHolder())
	}
	if os.Getenv(commandMarks) != "" {
		os.Exit(runCommand(os.Args[1], os.Args[2]))
	}
	fleet.Main(m)
}
