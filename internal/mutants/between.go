package main

// inBetween are bugs of what stands between a hold and the wire: its tenure, local queues, batches, replies, and undos that a
// node refuses.
var inBetween = []mutant{
	{name: "a limit that is not shown", changes: []change{{
		"hold.go", `limit.Before(end) {`, `limit.Before(end) && false {`,
	}}},
	{
		name: "a postponed undo is not sent again", test: "TestARefusedReleaseIsRetried",
		why: "one TTL later it makes no difference", changes: []change{{
			"internal/redisconn/timeout.go", "		c.retry.Reset(undoRetryDelay)\n", "",
		}},
	},
	{
		name: "an undo that a busy node refuses is given up", test: "TestARefusedReleaseIsRetried",
		why: "one TTL later it makes no difference", changes: []change{{
			"internal/redisconn/redisconn.go", `"BUSY", "LOADING"`, `"LOADING"`,
		}},
	},
	{name: "two requests for one key in a batch", changes: []change{{
		"internal/redisconn/batch.go", ` || slices.ContainsFunc(hashes, b.keys.has)`, ``,
	}}},
	{
		name: "all releases in a batch use the places and tokens of the first",
		test: "TestReleasesInOneBatchLeaveTheirOwnTokens",
		why:  "its clients release one at a time", changes: []change{{
			"commands.go", `e.Add(q.args[1+arg])`, `e.Add(of(all[0]).args[1+arg])`,
		}},
	},
	{name: "several locks are all handed over from the first one's owner", changes: []change{{
		"commands.go", "			for _, owner := range q.names.from {\n				e.Add(owner)\n",
		"			for range q.names.from {\n				e.Add(q.names.from[0])\n",
	}}},
	{name: "a turn in the queue of the process is not passed on", changes: []change{{
		"wait.go", "			defer turn.Release(1)\n", "",
	}}},
	{
		name: "the rest of a long value is the next reply", test: "internal/redisconn.TestALongValueIsCutShort",
		why: "no key of a simulation holds a long value", changes: []change{{
			"internal/redisconn/resp.go", `d.r.Discard(n - kept)`, `d.r.Discard(0)`,
		}},
	},
	{
		name: "a reply counts as whole when its head has come",
		test: "internal/redisconn.TestRepliesThatHaveComeAreTakenTogether",
		why:  "its network brings replies whole", changes: []change{{
			"internal/redisconn/resp.go", `len(there) > 2 && (there[0] != '*' && there[0] != '$' || there[1] == '-') && bytes`,
			`len(there) > 2 && bytes`,
		}},
	},
	{name: "a tenure keeps the fields of its last hold", changes: []change{{
		"hold.go", "	*t = tenure{} // all fields: the pool must keep nothing alive, and the next hold must find nothing\n", "",
	}}},
	{name: "the end of a hold is not kept behind its unlock", changes: []change{{
		"hold.go", "	h.lastEnd = h.end().UnixNano()\n", "",
	}}},
}
