package main

// inScripts are wrong decisions on the nodes.
var inScripts = []mutant{
	{name: "acquire overwrites", changes: []change{{
		"internal/lua/acquire.lua", `ARGV[i], 'NX', 'PX'`, `ARGV[i], 'PX'`,
	}}},
	{name: "a token as large as ours counts as accepted", changes: []change{{
		"internal/lua/acquire.lua", `replies[i] = { 2, known }`, `replies[i] = { 1 }`,
	}}},
	{name: "raise without the owner check", changes: []change{{
		"internal/lua/raise.lua", `if holders[i] ~= ARGV[3 * i - 2] then`, `if false then`,
	}}},
	{name: "raise says yes whatever the node knows", changes: []change{{
		"internal/lua/raise.lua", `replies[i] = { 2, call('ZSCORE', tokens, KEYS[i]) }`, `replies[i] = { 1 }`,
	}}},
	{name: "extend overwrites another owner's key", changes: []change{{
		"internal/lua/extend.lua", "  elseif holders[i] then\n    codes[i] = 0\n",
		"  elseif holders[i] then\n    call('SET', key, owner, 'PX', ttl)\n    codes[i] = 1\n",
	}}},
	{
		name: "extend repairs a hold that was overtaken", test: "TestAHoldThatALaterOneReplacedIsNotRepaired",
		why: "the repaired node does not vote, so nothing comes of it but a delay", changes: []change{{
			"internal/lua/extend.lua", `if known and tonumber(known) > tonumber(token) then`, `if false then`,
		}},
	},
	{name: "release without the owner check", changes: []change{{
		"internal/lua/release.lua", `if holders[i] == owners[i] then`, `if holders[i] then`,
	}}},
	{name: "a hand-over that does not look at the token", changes: []change{{
		"internal/lua/queue.lua", `token == reading and reading or propose(token, key)`,
		`token == reading and reading or false`,
	}}},
	{name: "enqueue takes a key that another owner has", changes: []change{{
		"internal/lua/enqueue.lua", `  elseif not holder and call('EXISTS', key) == 0 then`, `  elseif true then
    call('DEL', key)
    holder = false`,
	}}},
	{
		name: "enqueue takes a key of another type for none", test: "TestWaitersLeaveForeignKeysAlone",
		why: "all keys of a simulation are ours", changes: []change{{
			"internal/lua/enqueue.lua", `not holder and call('EXISTS', key) == 0 then`, `not holder then`,
		}},
	},
	{name: "a release that makes no larger token known", changes: []change{{
		"internal/lua/release.lua", `if above ~= '' and`, `if false and`,
	}}},
	{
		name: "one TTL for all locks requested together", test: "TestLocksInOneBatchKeepTheirOwnTTL",
		why: "all holds of a simulation have the same", changes: []change{{
			"commands.go", `same = same && q.args[1] == ttl`, `same = true`,
		}},
	},
	{name: "adopt takes the lock from any holder", changes: []change{{
		"internal/lua/adopt.lua", `if holders[i] ~= ARGV[4 * i] then`, `if not holders[i] then`,
	}}},
	{
		name: "a register accepts a text that a newer holder cannot have read", test: "TestOnceRefusesASmallerToken",
		why: noJobs + ", and where somebody else had the lock since, it is not the writer's any more", changes: []change{{
			"internal/lua/once.lua", `if known and tonumber(known) > token or`, `if`,
		}},
	},
	{
		name: "a register accepts a success from an owner that no longer has the lock", test: "TestOnceLateSuccessDoesNotCount",
		why: noJobs, changes: []change{{
			"internal/lua/once.lua", `elseif owner ~= '' and here[1] ~= owner then`, `elseif false then`,
		}},
	},
	{
		name: "a register keeps a late success for as long as one in time", test: "TestOnceLateSuccessDoesNotCount",
		why: noJobs, changes: []change{{
			"internal/lua/once.lua", `math.min(tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i]) - now)`,
			`tonumber(ARGV[4 * i - 1])`,
		}},
	},
	{
		name: "a register refuses a text that a majority has while others wait", test: "TestOnceSuccessIsDeliveredDespiteWaiters",
		why: noJobs, changes: []change{{
			"internal/lua/once.lua", `owner ~= '' and call('ZSCORE', tokens, key)`, `call('ZSCORE', tokens, key)`,
		}},
	},
	{
		name: "a run begins on answers of nodes that have promised nothing",
		test: "TestOnceCountsOnlyNodesThatRefuseEarlierHolders",
		why:  noJobs, changes: []change{{
			"once_run.go", `r, err = j.read(ctx, lock.Token())`, `r, err = j.read(ctx, 0)`,
		}},
	},
	{
		name: "a success is sent without a look at the clock", test: "TestOnceWritesNothingAfterTheHold",
		why: noJobs, changes: []change{{
			"once_run.go", "	if err := j.valid(lock); err != nil {\n		return 0, err\n	}\n	r := j.ask(", "	r := j.ask(",
		}},
	},
	{
		name: "a success is not delivered to nodes that were away", test: "TestOnceSuccessIsDeliveredToNodesThatWereAway",
		why: noJobs, changes: []change{{
			"once_run.go", `if j.state != RunBegun {`, `if false {`,
		}},
	},
}

const noJobs = "there are no jobs in this simulation, only in `TestJobs`"
