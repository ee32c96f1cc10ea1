package tokens

import (
	"flag"
	"os"
	"testing"

	"github.com/quorumlock/redlock/integration/fleet"
)

// The sizes that the issue asks for take minutes; what runs always is smaller.
var long = flag.Bool("long", os.Getenv("REDLOCK_LONG") != "", "run at full size: minutes instead of seconds")

// sized returns the size of a measurement.
func sized[T any](short, full T) T {
	if *long {
		return full
	}
	return short
}

func TestMain(m *testing.M) { fleet.Main(m) }
