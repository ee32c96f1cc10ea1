// Package boottime reads the clock that also counts the time a machine spends
// suspended. Go's own monotonic clock stops meanwhile (golang/go#24595).
package boottime

import "time"

// Now returns the time since boot, suspension included; always 0 where the
// system has no such clock. It is a variable for the sake of simulations in
// virtual time, which replace it once, before the first Locker is made.
var Now = read

// None is the replacement for a simulation: no such clock.
func None() time.Duration { return 0 }
