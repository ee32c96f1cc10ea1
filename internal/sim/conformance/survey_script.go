package conformance

import "time"

var surveyCases = []Case{
	{Name: "survey of free slots", Do: "@survey s: r:tokens | 3", Want: []any{[]any{-2, 0, -2, 0, -2, 0}}, Left: ""},
	{
		Name: "survey of slots of each sort", Given: "SET s:0 alice PX 5000; SET s:2 bob",
		Do: "@survey s: r:tokens | 3", Want: []any{[]any{TTL(5 * time.Second), 0, -2, 0, -1, 0}},
		Left: "s:0=alice 5s; s:2=bob",
	},
	{
		Name: "survey sees no slot beyond the last", Given: "SET s:2 alice PX 5000",
		Do: "@survey s: r:tokens | 2", Want: []any{[]any{-2, 0, -2, 0}}, Left: "s:2=alice 5s",
	},
	{
		Name: "survey of what has expired", Given: "SET s:0 alice PX 100", After: 150 * time.Millisecond,
		Do: "@survey s: r:tokens | 1", Want: []any{[]any{-2, 0}}, Left: "",
	},
	{
		Name: "survey where a hash is", Given: "HSET s:0 f v",
		Do: "@survey s: r:tokens | 1", Want: []any{[]any{-1, 0}}, Left: "s:0={f:v}",
	},
	{
		Name: "survey counts who waits",
		Given: "SET s:0 alice PX 5000; ZADD r:wait:s:0 0 '" + annWaits + "' 0 '" + bobWaits + "'; ZADD r:wait:s:1 0 '" +
			annWaits + "'; SADD r:waiting s:0 s:1; PEXPIRE r:waiting 30000",
		Do: "@survey s: r:tokens | 2", Want: []any{[]any{TTL(5 * time.Second), 2, -2, 1}},
		Left: "r:wait:s:0=[" + annWaits + ":0 " + bobWaits + ":0]; r:wait:s:1=[" + annWaits +
			":0]; r:waiting=<s:0 s:1> 30s; s:0=alice 5s",
	},
	{
		Name: "survey counts nobody without the mark", Given: "ZADD r:wait:s:0 0 '" + annWaits + "'",
		Do: "@survey s: r:tokens | 1", Want: []any{[]any{-2, 0}}, Left: "r:wait:s:0=[" + annWaits + ":0]",
	},
	{
		Name: "survey of two semaphores", Given: "SET s:1 alice PX 5000; SET t:0 bob PX 5000",
		Do:   "@survey s: t: r:tokens | 2 1",
		Want: []any{[]any{-2, 0, TTL(5 * time.Second), 0}, []any{TTL(5 * time.Second), 0}}, Left: "s:1=alice 5s; t:0=bob 5s",
	},
}
