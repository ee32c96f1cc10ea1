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
	explored(t, []check{
		clean("script", 3_000_000, &config{attempts: 3, proposals: 3}),
		clean("raise to all", 1_000_000, &config{attempts: 3, proposals: 3, raiseAll: true}),
		clean("hand-over, repair", 5_000_000, &config{attempts: 3, proposals: 2, handOver: true, repair: true}),
		clean("asks again", 10_000_000, &config{attempts: 3, proposals: 1, asksAgain: true}),
		clean("asks again, a loss, D=1 G=2", 5_000_000, &config{
			attempts: 2, horizon: 3, skew: 1, losses: 1, guard: 2, asksAgain: true,
		}),
		clean("two losses, trimming, repair", 5_000_000, &config{
			attempts: 2, horizon: 5, skew: 1, lifetime: 2, losses: 2, guard: 2, trim: true, retention: 3, repair: true,
		}),
		clean("a loss, D=2 G=3", 1_000_000, &config{attempts: 2, horizon: 5, skew: 2, losses: 2, guard: 3}),
		clean("three attempts, a loss", 10_000_000, &config{attempts: 3, horizon: 2, losses: 1, guard: 1}),
	})
	explored(t, guardChecks(3))
	t.Run("permits", func(t *testing.T) { // clients that may give up one slot and ask for the other
		explored(t, []check{clean("two slots", 5_000_000, &permitModel{places: 2, each: 1, clients: 3, tries: 2})})
	})
	t.Run("migration", func(t *testing.T) {
		explored(t, []check{
			clean("one replaced", 2_000_000, &migration{a: abc, b: abd, attempts: 3, proposals: 2, repair: true}),
			clean("one replaced, 3 proposals", 5_000_000, &migration{a: abc, b: abd, attempts: 3, proposals: 3}),
			clean("all replaced", 2_000_000, &migration{a: abc, b: def, attempts: 3, proposals: 2, repair: true}),
			clean("three and five", 2_000_000, &migration{a: abc, b: abcde, attempts: 3, proposals: 2}),
			clean("one of five replaced", 2_000_000, &migration{a: abcde, b: abcdf, attempts: 3, proposals: 1}),
			clean("keys go at any moment, rolling", 1_500_000, &migration{
				a: abc, b: abd, attempts: 3, proposals: 2, lapses: true, with: rolling,
			}),
			clean("keys go at any moment, backed out", 4_000_000, &migration{
				a: abc, b: abd, attempts: 3, proposals: 1, lapses: true, with: backedOut,
			}),
			clean("D=0, one tick", 4_000_000, &migration{a: abc, b: abd, attempts: 3, horizon: 2, middle: 1, across: true}),
			clean("D=1, keys go at any moment", 1_000_000, &migration{
				a: abc, b: abd, attempts: 2, horizon: 3, skew: 1, middle: 2, across: true, lapses: true,
			}),
		})
	})
}
