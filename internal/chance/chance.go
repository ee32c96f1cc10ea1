// Package chance draws the random pauses that keep competitors apart.
package chance

import (
	"math/rand/v2"
	"time"
)

// Duration returns a random duration in [0, limit). It is a variable for the
// sake of simulations, which replace it once, before the first Locker is made, so
// that a seed can be replayed.
var Duration = rand.N[time.Duration]
