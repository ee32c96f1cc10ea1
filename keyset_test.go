package redlock

import (
	"math"
	"testing"
)

// A set knows what was added since it was emptied, and nothing else.
func TestKeySet(t *testing.T) {
	s := keySet{round: math.MaxUint32 - 3}
	collide := uint64(len(s.slots)) // hashes that far apart share a slot
	for round := range 6 {
		for i := uint64(0); s.hasRoom(1); i++ {
			for _, h := range []uint64{i, i + collide} {
				if s.has(h) {
					t.Fatalf("round %d: %d is in before it was added", round, h)
				}
				if !s.add(h) || s.add(h) || !s.has(h) {
					t.Fatalf("round %d: %d is not new, or not in once it was added", round, h)
				}
			}
		}
		if s.n < len(s.slots)/2 {
			t.Fatalf("round %d: full with %d", round, s.n)
		}
		s.clear()
	}
}
