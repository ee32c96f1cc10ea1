// Package boottime reads the clock that also counts the time for which the machine was suspended. Go's own monotonic
// clock stops meanwhile (golang/go#24595).
package boottime

import (
	"sync/atomic"
	"time"
)

var disabled atomic.Bool

// Disable has Now return 0 from here on: virtual time has no such clock.
func Disable() { disabled.Store(true) }

// Now returns the time since boot, suspension included, or always 0 if the system has no such clock.
func Now() time.Duration {
	if disabled.Load() {
		return 0
	}
	return read()
}
