// Package chance draws random durations: the jitter that keeps competing clients apart.
package chance

import (
	"math/rand/v2"
	"time"
)

// Duration returns a random duration in [0, limit). It is a variable so that simulations can replace it, once, before
// the first Locker is made, and replay a seed.
var Duration = rand.N[time.Duration]
