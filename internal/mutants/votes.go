package main

// inVotes are wrong counts.
var inVotes = []mutant{
	{name: "half of the nodes are a majority", changes: []change{{
		"quorum.go", `return n/2 + 1`, `return n / 2`,
	}}},
	{
		name: "a repaired node votes", test: "TestARepairedNodeDoesNotVoteInThatRound",
		why: "300 seeds did not show it", changes: []change{{
			"commands.go", `		// The node has the key again but did not have it all the time: no vote in this round.
		return answer{vote: voteAbsent}`, `		return answer{vote: voteGranted}`,
		}},
	},
	{
		name: "a repaired reader votes", test: "TestARepairedReaderDoesNotVoteInThatRound",
		why: "300 seeds did not show it", changes: []change{{
			"internal/lua/keep_reading.lua", `codes[i] = leases.has(owner) and 1 or 2`, `codes[i] = 1`,
		}},
	},
	{name: "a node that abstains votes", changes: []change{{
		"quorum.go", `case a.vote == voteGranted, a.vote == voteOutbid:`, `case false:`,
	}}},
}

// inGuard are nodes that are trusted though they may have forgotten.
var inGuard = []mutant{
	{name: "no restart guard", changes: []change{{
		"internal/guard/guard.go", `if r.Period <= 0 || of.epoch == "" || !now.Before(until.Add(r.Late)) {`, `if true {`,
	}}},
	{name: "a promoted replica trusted for its uptime", changes: []change{{
		"internal/guard/incarnation.go", "	case said.Promoted:\n		next.since", "	case said.Promoted && false:\n		next.since",
	}}},
	{
		name: "a durable node's record is a proof for everybody", test: "TestADurableNodeStartedFromAnOldFileAbstains",
		why: "no durable node of the simulation is started from an old file", changes: []change{{
			"internal/guard/incarnation.go", `return i.trusted && !i.Promoted && old.epoch != ""`,
			`return !i.Promoted && old.epoch != ""`,
		}},
	},
	{
		name: "a durable node trusted with a record that nobody knew", test: "internal/guard.TestReconcile",
		why: "no durable node of the simulation is started from an old file", changes: []change{{
			"internal/guard/incarnation.go", `old.durable && old.record.durable && old.record.since == i.record.since`, `true`,
		}},
	},
	{
		name: "an extension counts on a node whose clock is wrong", test: "TestAnExtensionIsNotCountedWhereTheClockIsWrong",
		why: "300 seeds did not show it", changes: []change{{
			"internal/guard/guard.go", `t == TrustAll || t == TrustOurs && a.reason != ""`, `t == TrustAll || t == TrustOurs`,
		}},
	},
	{
		name: "a vote requested while the node abstained counts",
		test: "TestAVoteRequestedWhileAbstainingDoesNotCount",
		why:  "the answer must be under way when the guard's period ends", changes: []change{{
			"pool.go", `case !a.Over(asked):`, `case !a.Over(n.opts.clock.local()):`,
		}},
	},
	{
		name: "an abstention ends for requests sent during it", test: "TestAVoteRequestedWhileAbstainingDoesNotCount",
		why: "the answer must be under way when the guard's period ends, and a probe be faster", changes: []change{{
			"internal/guard/guard.go", `!now.Before(until.Add(r.Late))`, `!now.Before(until)`,
		}},
	},
	{
		name: "an abstaining node's vote for another holder counts for that holder", test: "TestDiscount",
		why: "it makes waiters keep votes that they should give back, for a while", changes: []change{{
			"quorum.go", `a.uncounted = true`, `a.uncounted = false`,
		}},
	},
	{
		name: "a client that is slower to write the node record ignores the faster one's record",
		test: "internal/guard.TestWhoWasFasterWithTheRecordKnowsBetter",
		why:  "two must notice the same within one round trip, and disagree", changes: []change{{
			"internal/guard/probe.go", "		next = old.reconcile(said, next.at)\n", "",
		}},
	},
	{
		name: "a slow answer from an earlier connection is believed",
		test: "internal/guard.TestWhatWasLearntBeforeIsNotBelieved",
		why:  "an answer must be slower than a new connection to the same node", changes: []change{{
			"internal/guard/probe.go", `stale := now.Before(old.at)`, `stale := now.Before(old.at) && false`,
		}},
	},
	{
		name: "the message of a node that abstains counts", test: "TestNotificationOfAnAbstainingNodeAbstains",
		why: "a node that abstains is not asked for a place in its queue, so it hardly ever has a message",
		changes: []change{{
			"wait_notify.go", `a != nil && !a.Over(now) {`, `a != nil && !a.Over(now) && false {`,
		}},
	},
	{
		name: "the message of a node not yet met counts", test: "TestNotificationBeforeTheHandshakeAbstains",
		why: "60 seeds did not show it", changes: []change{{
			"wait_notify.go", `n.opts.guard > 0 && !(connected && known) {`,
			`n.opts.guard > 0 && !(connected && known) && false {`,
		}},
	},
	{
		name: "FLUSHALL goes unnoticed", test: "TestFlushIsNoticed",
		why: "nothing is promised where a node is emptied under live connections", changes: []change{{
			"internal/guard/incarnation.go", "		return next.at, reasonEmptied\n",
			"		return old.since, old.reason\n",
		}},
	},
}
