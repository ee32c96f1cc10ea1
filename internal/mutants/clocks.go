package main

// inClocks are clocks that are believed, or not, for the wrong reasons, and tokens that are forgotten.
var inClocks = []mutant{
	{
		name: "a node whose clock was set forward has forgotten nothing", test: "TestACorrectedClockDoesNotAddToTheUptime",
		why: "nothing is promised where a clock is set forward", changes: []change{{
			"internal/guard/incarnation.go", `case old.jump != (jump{}) && !noted:`, `case false:`,
		}},
	},
	{
		name: "a pause of our own machine taken for a leap of the nodes' clocks", test: "internal/token.TestJumps",
		why: "virtual time goes on for all", changes: []change{{
			"internal/token/token.go", `if read < c.majority() {`, `if false {`,
		}},
	},
	{
		name: "the clocks are read until a leap can be judged", test: "TestAnUndecidedClockLeapCausesNoBusyProbing",
		why: "a majority must be away when a clock is set", changes: []change{{
			"internal/token/token.go", `found = found || o.jumpedAt == c.readings`, `found = true`,
		}},
	},
	{
		name: "a node does not note the largest token it drops", test: "TestNewTokensAreLargerThanDroppedOnes",
		why: "it takes clocks that are set back by more than the retention", changes: []change{{
			"internal/lua/trim.lua", `redis.pcall('SET', KEYS[1], floor)`, ``,
		}},
	},
	{
		name: "the largest token a node has dropped is not read", test: "TestNewTokensAreLargerThanDroppedOnes",
		why: "it takes clocks that are set back by more than the retention", changes: []change{{
			"pool.go", "		n.tokens.Dropped(info.Floor)\n", "",
		}},
	},
	{
		name: "the largest token a node has dropped counts as too far ahead", test: "TestNewTokensAreLargerThanDroppedOnes",
		why: "no clocks of the simulation are set back by more than the retention", changes: []change{{
			"internal/token/token.go", `token > max(c.Time(now), c.floor.Load())+`, `token > c.Time(now)+`,
		}},
	},
	{
		name: "the slower of two clocks that disagree is the time", test: "TestTheSlowerOfTwoClocksIsNotTheTime",
		why: "no clock of the simulation is wrong by half the retention", changes: []change{{
			"internal/token/token.go", `= c.maxSkew > 0 && ahead`, `= false && ahead`,
		}},
	},
	{
		name: "a node's own clock does not delay the dropping of tokens", test: "TestANodesClockDelaysDropping",
		why: "it takes a clock that is wrong by minutes", changes: []change{{
			"internal/lua/trim.lua", `math.min(theirs, math.max(mine[1] * 1000000 + mine[2], theirs - 3600000000))`, `theirs`,
		}},
	},
	{
		name: "a clock that is years behind keeps tokens for years", test: "TestANodesClockDelaysDropping",
		why: "no clock of the simulation is wrong by an hour", changes: []change{{
			"internal/lua/trim.lua", `theirs - 3600000000)`, `0)`,
		}},
	},
}
