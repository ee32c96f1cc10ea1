package modelcheck

import "testing"

// One node restarts without its data. The guard must outlast the clocks' disagreement, by a single tick.
func TestAbstentionAndClockOutrunALoss(t *testing.T) {
	wantClean(t, []check{
		{"D=0 G=1", config{attempts: 2, horizon: 2, skew: 0, losses: 1, guard: 1}, 10_000},
		{"D=0 G=1, asks again", config{attempts: 2, horizon: 2, skew: 0, losses: 1, guard: 1, asksAgain: true}, 10_000},
		{"D=1 G=2", config{attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2}, 50_000},
		{
			"D=0 L=1 G=2, late guard",
			config{attempts: 2, horizon: 3, skew: 0, lifetime: 1, losses: 1, guard: 2, lateGuard: true},
			20_000,
		},
	})
	wantBroken(t, []breach{
		{"no abstention", config{attempts: 2, horizon: 3, skew: 1, losses: 1}, "unique", 9},
		{"no abstention, one clock", config{attempts: 2, horizon: 3, skew: 0, losses: 1}, "unique", 9},
		{"D=1 G=1", config{attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 1}, "unique", 10},
		{"D=2 G=2", config{attempts: 2, horizon: 3, skew: 2, losses: 1, guard: 2}, "unique", 11},
		{"D=1 G=2, late guard", config{attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2, lateGuard: true}, "unique", 11},
		{
			"D=0 L=1 G=1, late guard",
			config{attempts: 2, horizon: 3, skew: 0, lifetime: 1, losses: 1, guard: 1, lateGuard: true},
			"unique", 10,
		},
		{
			"D=0 G=1, asks again without the clock",
			config{attempts: 2, horizon: 2, skew: 0, losses: 1, guard: 1, asksAgain: true, flaw: staleAgain},
			"order", 13,
		},
		{"loss unnoticed", config{attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2, silentLoss: true}, "unique", 9},
	})
}

// Trimming needs the retention to cover the clocks' disagreement and the life of an attempt.
func TestRetentionCoversDisagreementAndAttempt(t *testing.T) {
	wantClean(t, []check{
		{"D=1 L=1 R=2", config{attempts: 2, horizon: 3, skew: 1, trim: true, retention: 2, lifetime: 1}, 50_000},
		{
			"D=0 L=2 R=2",
			config{attempts: 2, horizon: 4, skew: 0, trim: true, retention: 2, lifetime: 2, raiseAll: true},
			10_000,
		},
	})
	wantBroken(t, []breach{
		{"D=1 L=1 R=1", config{attempts: 2, horizon: 4, skew: 1, trim: true, retention: 1, lifetime: 1}, "unique", 10},
		{"D=1 L=2 R=2", config{attempts: 2, horizon: 4, skew: 1, trim: true, retention: 2, lifetime: 2}, "unique", 11},
		{"D=1 R=3, an attempt without end", config{attempts: 2, horizon: 4, skew: 1, trim: true, retention: 3}, "unique", 12},
	})
}
