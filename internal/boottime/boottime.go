// Package boottime reads the clock that also counts the time for which the machine was suspended. Go's own monotonic
// clock stops meanwhile (golang/go#24595).
package boottime

import "time"

// Now returns the time since boot, suspension included, or always 0 if the system has no such clock. It is a variable
// so that simulations in virtual time can replace it, once, before the first Locker is made.
var Now = read

// None is a replacement for Now in simulations: the system has no such clock.
func None() time.Duration { return 0 }
