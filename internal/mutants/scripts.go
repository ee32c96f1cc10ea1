package main

// inScripts are wrong decisions on the nodes.
var inScripts = []mutant{
	{name: "acquire overwrites", changes: []change{{
		"lua/acquire.lua", `ARGV[i], 'NX', 'PX'`, `ARGV[i], 'PX'`,
	}}},
	{name: "a token as large as ours counts as accepted", changes: []change{{
		"lua/acquire.lua", `replies[i] = { 2, known }`, `replies[i] = { 1 }`,
	}}},
	{name: "raise without the owner check", changes: []change{{
		"lua/raise.lua", `if holders[i] ~= ARGV[3 * i - 2] then`, `if false then`,
	}}},
	{name: "raise says yes whatever the node knows", changes: []change{{
		"lua/raise.lua", `replies[i] = { 2, call('ZSCORE', tokens, KEYS[i]) }`, `replies[i] = { 1 }`,
	}}},
	{name: "extend overwrites somebody else's key", changes: []change{{
		"lua/extend.lua", "  elseif holders[i] then\n    codes[i] = 0\n", "  elseif holders[i] then\n    call('SET', key, owner, 'PX', ttl)\n    codes[i] = 1\n",
	}}},
	{
		name: "extend repairs a hold that was overtaken", test: "TestAnOvertakenHoldIsNotRepaired",
		why: "the repaired node does not vote, so nothing comes of it but a delay", changes: []change{{
			"lua/extend.lua", `if known and tonumber(known) > tonumber(token) then`, `if false then`,
		}},
	},
	{name: "release without the owner check", changes: []change{{
		"lua/release.lua", `if holders[i] == owners[i] then`, `if holders[i] then`,
	}}},
	{name: "a hand-over that does not look at the token", changes: []change{{
		"lua/queue.lua", `token == reading and reading or propose(token, key)`, `token == reading and reading or false`,
	}}},
	{name: "enqueue takes what is somebody else's", changes: []change{{
		"lua/enqueue.lua", `  elseif not holder and call('EXISTS', key) == 0 then`, `  elseif true then
    call('DEL', key)
    holder = false`,
	}}},
	{
		name: "enqueue takes a key of another type for none", test: "TestWaitersLeaveForeignKeysAlone",
		why: "all keys of a simulation are ours", changes: []change{{
			"lua/enqueue.lua", `not holder and call('EXISTS', key) == 0 then`, `not holder then`,
		}},
	},
	{
		name: "a release that makes no larger token known", test: "TestALateExtensionBringsNothingBack",
		why: "", changes: []change{{
			"lua/release.lua", `if above ~= '' and`, `if false and`,
		}},
	},
	{
		name: "one TTL for all locks that are asked for together", test: "TestLocksThatAreAskedForTogetherHaveTheirOwnTTL",
		why: "all holds of a simulation have the same", changes: []change{{
			"layout.go", `same = same && r.call.args[1] == ttl`, `same = true`,
		}},
	},
	{
		name: "adopt from whoever holds it", test: "TestAdoptionByTwoAtOnce",
		why: "the simulation hands no ticket on", changes: []change{{
			"lua/adopt.lua", `if holders[i] ~= ARGV[4 * i] then`, `if not holders[i] then`,
		}},
	},
}
