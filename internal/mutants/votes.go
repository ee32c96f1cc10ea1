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
			"internal/lua/keep_reading.lua", `codes[i] = of.has(owner) and 1 or 2`, `codes[i] = 1`,
		}},
	},
	{name: "a node that abstains votes", changes: []change{{
		"guard.go", `case said.vote == voteGranted, said.vote == voteOutbid:`, `case false:`,
	}}},
}

// inGuard are nodes that are trusted though they may have forgotten.
var inGuard = []mutant{
	{name: "no restart guard", changes: []change{{
		"guard.go", `if o.guard <= 0 || is.epoch == "" || !now.Before(until.Add(o.connectTimeout())) {`, `if true {`,
	}}},
	{name: "a promoted replica trusted for its uptime", changes: []change{{
		"guard.go", "	case f.promoted:\n		is.since", "	case f.promoted && false:\n		is.since",
	}}},
	{
		name: "a durable node's record is a proof for everybody", test: "TestADurableNodesOldFileGrantsNothing",
		why: "no durable node of the simulation is started from an old file", changes: []change{{
			"guard.go", `return f.trusted && !f.promoted && was.epoch != ""`, `return !f.promoted && was.epoch != ""`,
		}},
	},
	{
		name: "a durable node trusted with a record that nobody knew", test: "TestRecall",
		why: "no durable node of the simulation is started from an old file", changes: []change{{
			"guard.go", `was.durable && was.record.durable && was.record.since == f.record.since`, `true`,
		}},
	},
	{
		name: "an extension counts on a node whose clock is wrong", test: "TestAnExtensionIsNotCountedWhereTheClockIsWrong",
		why: "300 seeds did not show it", changes: []change{{
			"guard.go", `case t == trustAll, t == trustOurs && a.doubt != "":`, `case t == trustAll, t == trustOurs:`,
		}},
	},
	{
		name: "a vote counts that was asked for while the node abstained", test: "TestAVoteThatWasAskedForTooEarlyDoesNotCount",
		why: "the answer must be under way when the guard's period ends", changes: []change{{
			"standing.go", `if a.over(c.asked) {`, `if a.over(n.opts.clock.local()) {`,
		}},
	},
	{
		name: "an abstention ends for what was asked for during it", test: "TestAVoteThatWasAskedForTooEarlyDoesNotCount",
		why: "the answer must be under way when the guard's period ends, and a probe be faster", changes: []change{{
			"guard.go", `!now.Before(until.Add(o.connectTimeout()))`, `!now.Before(until)`,
		}},
	},
	{
		name: "what a node that abstains says of another holder counts for that one", test: "TestAbstention",
		why: "it makes waiters keep votes that they should give back, for a while", changes: []change{{
			"guard.go", `said.doubtful = true`, `said.doubtful = false`,
		}},
	},
	{
		name: "who was slower with the node record knows better", test: "TestWhoWasFasterWithTheRecordKnowsBetter",
		why: "two must notice the same within one round trip, and disagree", changes: []change{{
			"learn.go", "		is = was.recall(f, is.at)\n", "",
		}},
	},
	{
		name: "what was learnt over an earlier connection is believed", test: "TestWhatWasLearntBeforeIsNotBelieved",
		why: "an answer must be slower than a new connection to the same node", changes: []change{{
			"learn.go", `stale := now.Before(was.at)`, `stale := now.Before(was.at) && false`,
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
