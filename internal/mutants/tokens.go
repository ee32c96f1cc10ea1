package main

// inTokens are wrong ways to come to a token, on the clients' side.
var inTokens = []mutant{
	{name: "raise skipped: given counts as accepted", changes: []change{{
		"quorum.go", "		return verdictShort\n", "		return verdictWon\n",
	}}},
	{name: "a waiter's raise counted blindly", changes: []change{{
		"wait_queue.go", `votes.verdict(len(l.nodes), l.need) != verdictWon {`, `false {`,
	}}},
	{name: "a grant counts for any token", changes: []change{{
		"wait_votes.go", `if n.accepted[i] == want && (a.vote == voteGranted || a.token == want) {`,
		`if a.vote == voteGranted {`,
	}}},
	{
		name: "token from the client's wall clock", test: "TestNodesTimeIgnoresTheWallClock",
		why: "virtual time has one wall clock for all", changes: []change{{
			"clock.go", `return t.Time(t.micros(now)) }`, `return now.local.UnixMicro() }`,
		}},
	},
	{
		name: "the nodes' time is that of the fastest clock", test: "internal/token.TestMedian",
		why: "tokens are in order all the same", changes: []change{{
			"internal/token/token.go", `return known[(len(known)-1)/2]`, `return known[len(known)-1]`,
		}},
	},
	{
		name: "the highest token seen is forgotten", test: "internal/token.TestProposalsGrowWhateverTheClocksDo",
		why: "it spares a second round, no more", changes: []change{{
			"internal/token/token.go", `max(c.Time(now), c.seen.Load()+1,`, `max(c.Time(now),`,
		}},
	},
}

// inQueue are wrong conclusions of a waiter.
var inQueue = []mutant{
	{name: "a hand-over's validity counted from its message", changes: []change{{
		"wait_queue.go", "	start := h.since\n", "	start := l.opts.clock.now()\n",
	}}},
	{
		name: "votes known by notification count as fresh answers", test: "TestNotifiedVotesKeepTheirAge",
		why: "it took 1,319 seeds", changes: []change{{
			"wait_queue.go", `if v.fresh >= l.need {`, `if v.given >= l.need {`,
		}},
	},
	{
		name: "fresh votes, stale acceptance", test: "TestWinOnFreshAnswersNeedsFreshAcceptance",
		why: "60 seeds did not show it; it was once found by seed 171", changes: []change{{
			"wait_queue.go", "		v.granted = v.freshGranted // votes known by notification may have expired since\n", "",
		}},
	},
	{name: "an outdated token not raised", changes: []change{{
		"wait_queue.go", `(v.granted < l.need || l.outdated(h.token))`, `v.granted < l.need`,
	}}},
	{name: "the maximum hold time counts the wait", changes: []change{{
		"wait_queue.go", `	h.start, h.since = start, now
`, `	h.start = start
`,
	}}},
	{name: "a ticket's owner is forgotten", changes: []change{{
		"ticket.go", `			h.locker.listeners.handOver(h.owner.String(), h.end())`,
		`			h.locker.listeners.forget(h.owner.String())`,
	}}},
	{name: "a caller that asks once joins the local queue", changes: []change{{
		"redlock.go", `wait := wait && o.maxAttempts != 1`, `wait := wait`,
	}}},
	{
		name: "a token too far ahead is taken for another owner's", test: "TestTokenTooFarAheadIsNoQuorumForAWaiter",
		why: "it judges no reasons", changes: []change{{
			"wait_queue.go", `if errors.Is(err, errTokenAhead) {`, `if false {`,
		}},
	},
	{
		name: "votes known by notification grow younger", test: "TestNotifiedVotesKeepTheirAge",
		why: "120 seeds did not show it", changes: []change{{
			"wait_queue.go", "		h.since = began\n", "		_ = began\n",
		}},
	},
	{
		name: "a subscription that leads nowhere is kept", test: "TestDeadSubscriptionIsReplacedWhileWaiting",
		why: "it takes a clock that is wrong for good, too; it was once found by seed 721", changes: []change{{
			"internal/redisconn/subscribe.go", "		if unanswered.Load() {\n", "		if false {\n",
		}},
	},
	{
		name: "a server that refuses a subscription is asked again without a pause",
		test: "internal/redisconn.TestSubscribeThatFails",
		why:  "its nodes have room for every client", changes: []change{{
			"internal/redisconn/subscribe.go", `c.listen(l, s); subscribed {`, `c.listen(l, s); subscribed || true {`,
		}},
	},
	{
		name: "the oldest waiter never gives way", test: "TestWaiterThatOneNodeCannotNotifyBlocksNobody",
		why: "it takes a connection that one node refuses for good", changes: []change{{
			"wait_votes.go", "	stuck := p.partial > stuckAfter && v.deadlocked(need)\n", "	stuck := false\n",
		}},
	},
	{
		name: "Close does not wait for calls that are under way", test: "TestCloseCleansUpAfterWaiters",
		why: "one TTL later it has gone by itself", changes: []change{{
			"locker.go", "		l.calls.wait(l.opts.nodeTimeout)\n", "",
		}},
	},
	{
		name: "a waiter that gives up leaves its places behind", test: "TestCancelledWaitLeavesNothing",
		why: "one TTL later they have gone by themselves", changes: []change{{
			"hold.go", "	h.locker.listeners.forget(h.owner.String())\n	h.locker.undo(h, h.asked)\n",
			"	h.locker.listeners.forget(h.owner.String())\n",
		}},
	},
	{
		name: "a lock handed over to a waiter that has given up is kept", test: "TestHandOverToAnUnknownOwnerIsReturned",
		why: "one TTL later it has gone by itself", changes: []change{{
			"wait_notify.go", `owner, err := uuid.Parse(parts[0]); err == nil {`,
			`owner, err := uuid.Parse(parts[0]); err != nil {`,
		}},
	},
}
