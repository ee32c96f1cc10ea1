package modelcheck

import "testing"

// Leaving steps out (config.wireStep) changes no verdict.
func TestReductionKeepsVerdicts(t *testing.T) {
	for _, c := range []check{
		{"script", config{attempts: 2, proposals: 2, entries: []uint8{0, 1}}, 0},
		{"script, raise to all", config{attempts: 2, proposals: 2, raiseAll: true}, 0},
		{"script, hand-over, repair", config{attempts: 2, proposals: 1, handOver: true, repair: true}, 0},
		{"script, no order by grant", config{attempts: 2, proposals: 2, beyondValidity: true}, 0},
		{"script, asks again", config{attempts: 2, proposals: 1, asksAgain: true}, 0},
		{"counter", config{form: counter, attempts: 2, proposals: 1, entries: anyEntries}, 0},
		{"a node forgets", config{attempts: 2, horizon: 1, losses: 1, guard: 1}, 0},
		{"a node forgets unnoticed", config{attempts: 2, horizon: 1, losses: 1, silentLoss: true}, 0},
		{"pipeline", config{form: pipeline, attempts: 2, proposals: 1}, 0},
		{"V0", naive[0].config, 0},
		{"V1", naive[2].config, 0},
		{"V2 counter", naive[5].config, 0},
		{"V3 counter", naive[7].config, 0},
		{"A1", naive[9].config, 0},
		{"torn", naive[11].config, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			reduced := explore(&c.config)
			c.config.unreduced = true
			full := explore(&c.config)
			t.Logf("reduced %s; full %s", reduced, full)
			if (reduced.broken == "") != (full.broken == "") {
				t.Errorf("reduced: %q, full: %q\n%s", reduced.broken, full.broken, c.config.story(full))
			}
			if full.broken == "" && full.states <= reduced.states {
				t.Errorf("the full space has %d states, the reduced one %d", full.states, reduced.states)
			}
		})
	}
}
