package main

// inTime are wrong ideas of how long a hold may be trusted.
var inTime = []mutant{
	{name: "no drift subtracted", changes: []change{{
		"drift.go", `return ttl - d.allowance(ttl) - elapsed`, `return ttl - elapsed`,
	}}},
	{name: "validity counted from the end of the attempt", changes: []change{{
		"redlock.go", "	won := err == nil &&", "	h.start = l.opts.clock.now()\n	won := err == nil &&",
	}}},
	{name: "validity of an extension counted from its answers", changes: []change{{
		"hold.go", `h.start, h.validity = x.begun,`, `h.start, h.validity = now,`,
	}}},
	{
		name: "no look at the clock when the answers are there", test: "TestAMajorityThatComesTooLateIsNoHold",
		why: "300 seeds did not show it: answers that late are rare", changes: []change{{
			"redlock.go", `if won && h.left(l.opts.clock.now()) >= leastValidity(o.ttl, o.minValidity, o.maxHold) {`, `if won {`,
		}},
	},
	{name: "the holder's timer late by an hour", changes: []change{{
		"hold_renewal.go", "	end := t.end()\n", "	end := t.end().Add(time.Hour)\n",
	}}},
	{name: "a lost hold brought back by Extend", changes: []change{{
		"hold.go", `	h.expireAt(now)
	if ended := h.ended(); ended != nil {
		return h.over("extend", ended)
	}
	if votes`, `	_ = now
	if h.tenure == nil {
		return h.over("extend", ErrUnlocked)
	}
	if votes`,
	}}},
	{
		name: "a hold won during Close that nobody ends", test: "TestAHoldThatIsWonDuringCloseEnds",
		why: "a call must outlive Close's patience: 2,000 seeds did not show it", changes: []change{{
			"hold_renewal.go", "h.finish(ErrClosed, false) // it was", "_ = 0 // it was",
		}},
	},
	{
		name: "the tenure of an unlocked hold is also the next one's", test: "TestHandlesOutliveTheirHolds",
		why: "its clients drop a handle when they have unlocked it", changes: []change{{
			"hold.go", "	h.tenure = nil\n", "",
		}},
	},
	{
		name: "time that passes while the machine is asleep not counted", test: "TestElapsedIsTheLargestDifferenceOfAnyClock",
		why: "virtual time has one clock", changes: []change{{
			"clock.go", "		b.boot-a.boot,\n", "",
		}},
	},
}

// inOrder are releases and undos that do not follow what they undo, or do not come at all.
var inOrder = []mutant{
	{
		name: "a release goes to the front of the queue", test: "internal/redisconn.TestAnUndoStandsBehindWhatItUndoes",
		why: "no modelled write blocks, so no queue is long", changes: []change{{
			"internal/redisconn/pipeline.go", "	c.queue = append(c.queue, r)\n	first", `	if undo {
		c.queue = append([]*Request{r}, c.queue...)
	} else {
		c.queue = append(c.queue, r)
	}
	first`,
		}},
	},
	{name: "an acquire sent again behind its undo", changes: []change{{
		"quorum.go",
		`return r.abandoned.Load() || r.cancelled != nil && r.cancelled.Load() || r.certain(tally(r.votes.Load()))`,
		`return r.cancelled != nil && r.cancelled.Load()`,
	}}},
	{name: "a waiter's question sent again behind its undo", changes: []change{{
		"wait_queue.go", `			r.abandon()
			w.hold.withdraw()
			return nil, waitEnded(last, err)
`, `			r.Done()
			w.hold.withdraw()
			return nil, waitEnded(last, err)
`,
	}}},
	{name: "an extension sent again behind the release", changes: []change{{
		"quorum.go", `r.cancelled != nil && r.cancelled.Load()`, `r.cancelled != nil && false`,
	}}},
	{
		name: "an extension's nodes not released", test: "TestNodesThatAnExtensionAddedAreReleased",
		why: "one TTL later they have gone by themselves", changes: []change{{
			"hold.go", `h.asked |= r.send(l.nodes, l.all`, `r.send(l.nodes, l.all`,
		}},
	},
	{
		name: "a connection that is given up is closed in order", test: "internal/redisconn.TestADroppedConnectionIsReset",
		why: "its network has no sockets", changes: []change{{
			"internal/redisconn/dial.go", `		_ = tcp.SetLinger(0)
`, `		_ = tcp
`,
		}},
	},
	{
		name: "Close waits for a node that says nothing", test: "TestCloseDoesNotWaitForASilentNode",
		why: "it bounds no Close", changes: []change{{
			"internal/redisconn/dial.go", `stop := context.AfterFunc(ctx, l.close)`, `stop := func() bool { return true }`,
		}},
	},
	{
		name: "New waits for every round trip of a first connection", test: "TestNewReturnsInTimeOverSlowLinks",
		why: "it bounds no New", changes: []change{{
			"pool.go", `		case <-limit.C:
			return
`, ``,
		}},
	},
	{name: "stragglers not undone", changes: []change{{
		"redlock.go", `undo := h.asked &^ r.refusers(votes)`, `undo := h.asked &^ r.refusers(votes)
	for i := range r.answers {
		if !votes.voted(i) {
			undo &^= nodeSet(0).with(i)
		}
	}`,
	}}},
	{
		name: "nothing undone on a node that is away", test: "TestAReleaseWaitsForANodeThatIsAway",
		why: "one TTL later it makes no difference", changes: []change{{
			"internal/redisconn/pipeline.go", `if refusal != nil && !undo {`, `if refusal != nil {`,
		}},
	},
	{name: "Close does not wait for undos", changes: []change{{
		"pool.go", "		n.conn.Drain(ctx)\n", "		_ = n\n",
	}}},
}
