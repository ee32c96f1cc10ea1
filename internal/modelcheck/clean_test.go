package modelcheck

import "testing"

// check is one exploration and the least number of states that it must visit: a model that goes nowhere is clean, too.
type check struct {
	name   string
	config config
	states int
}

var anyEntries = []uint8{0, 1, 2}

// The shipped protocol in both forms, and the fall-back, with no assumption about clocks.
var cleanChecks = []check{
	{"script", config{attempts: 2, proposals: 3, entries: anyEntries}, 25_000},
	{"script, raise to all", config{attempts: 2, proposals: 3, entries: anyEntries, raiseAll: true}, 15_000},
	{"script, three attempts", config{attempts: 3, proposals: 1}, 100_000},
	{
		"script, hand-over, repair",
		config{attempts: 2, proposals: 2, entries: anyEntries, handOver: true, repair: true},
		20_000,
	},
	{"script, asks again", config{attempts: 2, proposals: 2, entries: []uint8{0, 1}, asksAgain: true}, 25_000},
	{"script, asks again, raise to all", config{attempts: 2, proposals: 2, asksAgain: true, raiseAll: true}, 5_000},
	{"script, asks again, repair", config{attempts: 2, proposals: 1, asksAgain: true, repair: true}, 5_000},
	{"pipeline", config{form: pipeline, attempts: 2, proposals: 2, entries: []uint8{0, 1}}, 20_000},
	{
		"pipeline, raise to all",
		config{form: pipeline, attempts: 2, proposals: 2, entries: []uint8{0, 1}, raiseAll: true},
		20_000,
	},
	{
		"pipeline, hand-over, repair",
		config{form: pipeline, attempts: 2, proposals: 1, handOver: true, repair: true},
		20_000,
	},
	{"counter", config{form: counter, attempts: 2, proposals: 1, entries: anyEntries}, 5_000},
	{"counter, three attempts", config{form: counter, attempts: 3, proposals: 1, raiseAll: true}, 50_000},
	{
		"counter, a node forgets",
		config{form: counter, attempts: 2, proposals: 1, entries: anyEntries, losses: 1, guard: forever},
		10_000,
	},
}

func TestProtocolIsClean(t *testing.T) { wantClean(t, cleanChecks) }

func wantClean(t *testing.T, checks []check) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			got := explore(&c.config)
			t.Log(got)
			if got.broken != "" {
				t.Fatalf("got %s, want clean\n%s", got.broken, c.config.story(got))
			}
			if got.states < c.states {
				t.Errorf("got %d states, want at least %d", got.states, c.states)
			}
		})
	}
}
