package main

// inScripts are wrong decisions on the nodes.
var inScripts = []mutant{
	{name: "acquire overwrites", changes: []change{{
		"lua/acquire.lua", `ARGV[3 * i - 2], 'NX', 'PX'`, `ARGV[3 * i - 2], 'PX'`,
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
		"lua/release.lua", `if holders[i] == ARGV[2 * i - 1] then`, `if holders[i] then`,
	}}},
	{name: "a hand-over that does not look at the token", changes: []change{{
		"lua/queue.lua", `token == reading and reading or propose(token, key)`, `token == reading and reading or false`,
	}}},
	{name: "enqueue takes what is somebody else's", changes: []change{{
		"lua/enqueue.lua", `  elseif not holder then`, `  elseif true then
    call('DEL', key)
    holder = false`,
	}}},
	{
		name: "adopt from whoever holds it", test: "TestAdoptionByTwoAtOnce",
		why: "the simulation hands no ticket on", changes: []change{{
			"lua/adopt.lua", `if holders[i] ~= ARGV[4 * i] then`, `if not holders[i] then`,
		}},
	},
}
