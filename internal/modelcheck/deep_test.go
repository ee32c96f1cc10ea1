package modelcheck

import (
	"flag"
	"os"
	"testing"
)

var deep = flag.Bool("deep", os.Getenv("REDLOCK_MODELCHECK_DEEP") != "", "explore the deep bounds: minutes, gigabytes")

// The wide spaces: go test ./internal/modelcheck -run Deep -deep -v -timeout 30m.
func TestDeep(t *testing.T) {
	if !*deep {
		t.Skip("takes minutes; ask for it with -deep or REDLOCK_MODELCHECK_DEEP=1")
	}
	wantClean(t, deepChecks)
	wantTightGuard(t, 3)
	t.Run("permits", func(t *testing.T) { wantPermits(t, deepPermitChecks) })
	t.Run("migration", func(t *testing.T) { wantMigrationClean(t, deepMigrationChecks) })
}

var deepChecks = []check{
	{"script, 3 attempts", config{attempts: 3, proposals: 3}, 3_000_000},
	{"script, 3 attempts, raise to all", config{attempts: 3, proposals: 3, raiseAll: true}, 1_000_000},
	{"script, 3 attempts, hand-over, repair", config{attempts: 3, proposals: 2, handOver: true, repair: true}, 5_000_000},
	{"script, 3 attempts, asks again", config{attempts: 3, proposals: 1, asksAgain: true}, 10_000_000},
	{
		"asks again, a loss, D=1 G=2",
		config{attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2, asksAgain: true},
		5_000_000,
	},
	{"pipeline, 3 attempts", config{form: pipeline, attempts: 3, proposals: 1}, 3_000_000},
	{"pipeline, 3 attempts, 2 proposals", config{form: pipeline, attempts: 3, proposals: 2}, 15_000_000},
	{"pipeline, 2 attempts", config{form: pipeline, attempts: 2, proposals: 3, entries: anyEntries}, 100_000},
	{
		"counter, 3 attempts",
		config{form: counter, attempts: 3, proposals: 1, entries: anyEntries, raiseAll: true},
		900_000,
	},
	{
		"counter, 3 attempts, a node forgets",
		config{form: counter, attempts: 3, proposals: 1, entries: []uint8{0, 1}, losses: 1, guard: forever},
		1_000_000,
	},
	{"two losses, trimming, repair", config{
		attempts: 2, horizon: 5, skew: 1, lifetime: 2, losses: 2, guard: 2, trim: true, retention: 3, repair: true,
	}, 5_000_000},
	{"a loss, D=2 G=3", config{attempts: 2, horizon: 5, skew: 2, losses: 2, guard: 3}, 1_000_000},
	{"pipeline, a loss", config{form: pipeline, attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2}, 1_000_000},
	{
		"pipeline, trimming",
		config{form: pipeline, attempts: 2, horizon: 4, skew: 1, lifetime: 1, trim: true, retention: 2},
		500_000,
	},
	{"3 attempts, a loss", config{attempts: 3, horizon: 2, skew: 0, losses: 1, guard: 1}, 10_000_000},
}
