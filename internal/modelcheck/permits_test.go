package modelcheck

import "testing"

type permitCheck struct {
	permitModel
	broken string // what it must find
	states int    // how many it must visit at least, where it finds nothing
}

// k slots, each a lock of its own, let k in and never more. A counter of k on each node does not: N·k votes
// are enough for N·k / majority holders.
var permitChecks = []permitCheck{
	{permitModel{places: 1, each: 1, clients: 3, tries: 1}, "", 3_000},
	{permitModel{places: 2, each: 1, clients: 3, tries: 1}, "", 40_000},
	{permitModel{places: 1, each: 2, clients: 3, tries: 1}, "3 holders of 2 permits", 0},
	{permitModel{places: 1, each: 3, clients: 4, tries: 1}, "4 holders of 3 permits", 0},
}

// Clients that may give up one slot and ask for the other.
var deepPermitChecks = []permitCheck{
	{permitModel{places: 2, each: 1, clients: 3, tries: 2}, "", 5_000_000},
}

func TestPermitsAreSlots(t *testing.T) { wantPermits(t, permitChecks) }

func wantPermits(t *testing.T, checks []permitCheck) {
	t.Helper()
	for _, c := range checks {
		got := explore(&c.permitModel)
		t.Logf("%d places for %d each, %d clients, %d tries: %s", c.places, c.each, c.clients, c.tries, got)
		if got.broken != c.broken {
			t.Errorf("got %q, want %q", got.broken, c.broken)
		}
		for i, st := range got.trace {
			t.Logf("%3d  %s %s place %d at node %d (-1: all)", i+1, name(st.act.client), st.act.what, st.act.place, st.act.node)
		}
		if c.broken == "" && got.states < c.states {
			t.Errorf("only %d states explored, want %d", got.states, c.states)
		}
	}
}
