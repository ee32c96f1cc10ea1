package modelcheck

import (
	"fmt"
	"testing"
)

// The guard is tight: outage + guard ≥ TTL keeps holds apart, one tick less does not.
func TestGuardKeepsHoldsApart(t *testing.T) { explored(t, guardChecks(2)) }

func guardChecks(ttl uint8) (checks []check) {
	for outage := range ttl + 1 {
		for guard := range ttl + 1 {
			c := clean(fmt.Sprintf("ttl %d outage %d guard %d", ttl, outage, guard), 5_000,
				&guardModel{ttl: ttl, outage: outage, guard: guard, horizon: 2 * ttl})
			if outage+guard < ttl {
				c.broken, c.steps = "exclusion:", 9+int(outage+guard)
			}
			checks = append(checks, c)
		}
	}
	return checks
}
