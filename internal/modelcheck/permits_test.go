package modelcheck

import "testing"

// k slots, each a lock of its own, let k in and never more. A counter of k on each node does not: N·k votes
// are enough for N·k / majority holders.
func TestPermitsAreSlots(t *testing.T) {
	explored(t, []check{
		clean("one slot", 3_000, &permitModel{places: 1, each: 1, clients: 3, tries: 1}),
		clean("two slots", 40_000, &permitModel{places: 2, each: 1, clients: 3, tries: 1}),
		breaks("a counter of 2", "3 holders of 2 permits", 12, &permitModel{places: 1, each: 2, clients: 3, tries: 1}),
		breaks("a counter of 3", "4 holders of 3 permits", 16, &permitModel{places: 1, each: 3, clients: 4, tries: 1}),
	})
}
