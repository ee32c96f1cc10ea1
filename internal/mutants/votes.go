package main

// inVotes are wrong counts.
var inVotes = []mutant{
	{name: "half of the nodes are a majority", changes: []change{{
		"quorum.go", `return n/2 + 1`, `return n / 2`,
	}}},
	{
		name: "a repaired node votes", test: "TestARepairedNodeDoesNotVoteInThatRound",
		why: "300 seeds did not show it", changes: []change{{
			"answer.go", `		// It is ours again but has not been all the time: no vote in this round.
		return answer{vote: voteAbsent}`, `		return answer{vote: voteGranted}`,
		}},
	},
	{
		name: "a repaired reader votes", test: "TestARepairedReaderDoesNotVoteInThatRound",
		why: "300 seeds did not show it", changes: []change{{
			"lua/keep_reading.lua", `codes[i] = of.has(owner) and 1 or 2`, `codes[i] = 1`,
		}},
	},
	{name: "a node that abstains votes", changes: []change{{
		"guard.go", `case said.vote == voteGranted, said.vote == voteOutbid:`, `case false:`,
	}}},
}

// inGuard are nodes that are trusted though they may have forgotten.
var inGuard = []mutant{
	{name: "no restart guard", changes: []change{{
		"guard.go", `if period <= 0 || is.epoch == "" || !now.Before(until) {`, `if true {`,
	}}},
	{name: "a promoted replica trusted for its uptime", changes: []change{{
		"guard.go", "	case f.promoted:\n		is.since", "	case f.promoted && false:\n		is.since",
	}}},
	{
		name: "a node believed that it is durable before it has shown it", test: "TestRecall",
		why: "60 seeds did not show it", changes: []change{{
			"guard.go", `case f.durable() && here.durable && !f.promoted:`, `case f.durable() && !f.promoted:`,
		}},
	},
	{
		name: "the message of a node that abstains counts", test: "TestAMessageOfANodeThatAbstainsAbstains",
		why: "a node that abstains is not asked for a place in its queue, so it hardly ever has a message", changes: []change{{
			"standing.go", `a != nil && !a.over(now) {`, `a != nil && !a.over(now) && false {`,
		}},
	},
	{
		name: "the message of a node not yet met counts", test: "TestAMessageOfANodeThatIsNotMetAbstains",
		why: "60 seeds did not show it", changes: []change{{
			"standing.go", `n.opts.guard > 0 && !(connected && same) {`, `n.opts.guard > 0 && !(connected && same) && false {`,
		}},
	},
	{
		name: "FLUSHALL goes unnoticed", test: "TestFlushIsNoticed",
		why: "nothing is promised where a node is emptied under live connections", changes: []change{{
			"guard.go", "		is.since, is.doubt = is.at, doubtEmptied\n", "		is.since, is.doubt = was.since, was.doubt\n",
		}},
	},
}
