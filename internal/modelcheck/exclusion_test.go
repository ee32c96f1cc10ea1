package modelcheck

import "testing"

// The guard is tight: outage + guard ≥ TTL keeps holds apart, one tick less does not.
func TestGuardKeepsHoldsApart(t *testing.T) { wantTightGuard(t, 2) }

func wantTightGuard(t *testing.T, ttl uint8) {
	t.Helper()
	for outage := uint8(0); outage <= ttl; outage++ {
		for guard := uint8(0); guard <= ttl; guard++ {
			m := &guardModel{ttl: ttl, outage: outage, guard: guard, horizon: 2 * ttl}
			got := explore(m)
			safe := outage+guard >= ttl
			t.Logf("ttl %d, outage %d, guard %d: %s", ttl, outage, guard, got)
			switch {
			case safe && got.broken != "":
				t.Errorf("outage %d + guard %d ≥ TTL %d: %s, want clean", outage, guard, ttl, got.broken)
				for _, st := range got.trace {
					t.Logf("  %s n%d: %s", name(st.act.attempt), st.act.node, st.act.what)
				}
			case safe && got.states < 5_000:
				t.Errorf("only %d states explored", got.states)
			case !safe && got.broken == "":
				t.Errorf("outage %d + guard %d < TTL %d: clean, want an overlap", outage, guard, ttl)
			}
		}
	}
}
