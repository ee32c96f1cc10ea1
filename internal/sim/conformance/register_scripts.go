package conformance

import "time"

// Texts of a register: of tokens 5, 7 and a real one.
const (
	begun5 = "0000000000000005 1 begun"
	done5  = "0000000000000005 1 done"
	fail5  = "0000000000000005 1 failed"
	begun7 = "0000000000000007 2 begun"
	real2  = "1763700000000002 1 begun"
)

// What is written is the writer's, who has the lock: alice.
const (
	held5   = "SET n alice PX 5000"
	left5   = "n=alice 5s; "
	forever = " now+600000"
)

var onceCases = []Case{
	{
		Name: "once where nothing is", Given: held5,
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + begun5 + " 10s",
	},
	{
		Name: "once with a prefix", Given: "SET p:n alice PX 5000",
		Do: "@once p:n p:redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: 1,
		Left: "p:n=alice 5s; p:redlock:once:n=" + begun5 + " 10s",
	},
	{
		Name: "once with our token known", Given: held5 + "; ZADD redlock:tokens 5 n",
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + begun5 + " 10s; redlock:tokens=[n:5]",
	},
	{
		Name: "once with a larger token known", Given: held5 + "; ZADD redlock:tokens 6 n",
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: []any{0},
		Left: left5 + "redlock:tokens=[n:6]",
	},
	{
		Name: "once with a real token one too small", Given: held5 + "; ZADD redlock:tokens 1763700000000003 n",
		Do: "@once n redlock:tokens | alice '" + real2 + "' 10000" + forever, Want: []any{0},
		Left: left5 + "redlock:tokens=[n:1763700000000003]",
	},
	{
		Name: "once with a real token", Given: held5 + "; ZADD redlock:tokens 1763700000000002 n",
		Do: "@once n redlock:tokens | alice '" + real2 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + real2 + " 10s; redlock:tokens=[n:1763700000000002]",
	},
	{
		Name: "once done", Given: held5 + "; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + done5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + done5 + " 10s",
	},
	{
		Name: "once failed", Given: held5 + "; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + fail5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + fail5 + " 10s",
	},
	{
		Name: "once the same again", Given: held5 + "; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + begun5 + " 10s",
	},
	{
		Name: "once begun after done, late", Given: held5 + "; SET redlock:once:n '" + done5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: []any{0},
		Left: left5 + "redlock:once:n=" + done5 + " 5s",
	},
	{
		Name: "once over an older run", Given: held5 + "; SET redlock:once:n '" + fail5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + begun7 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + begun7 + " 10s",
	},
	{
		Name: "once done after another began", Given: held5 + "; SET redlock:once:n '" + begun7 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + done5 + "' 10000" + forever, Want: []any{0},
		Left: left5 + "redlock:once:n=" + begun7 + " 5s",
	},
	{
		Name: "once where a hash is", Given: held5 + "; HSET redlock:once:n f v",
		Do: "@once n redlock:tokens | alice '" + begun5 + "' 10000" + forever, Want: 1,
		Left: left5 + "redlock:once:n=" + begun5 + " 10s",
	},

	{
		Name: "once where the lock is nobody's",
		Do:   "@once n redlock:tokens | alice '" + done5 + "' 10000" + forever, Want: []any{2}, Left: "",
	},
	{
		Name:  "once where the lock is somebody else's",
		Given: "SET n bob PX 5000; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do:    "@once n redlock:tokens | alice '" + done5 + "' 10000" + forever, Want: []any{2},
		Left: "n=bob 5s; redlock:once:n=" + begun5 + " 5s",
	},
	{
		Name: "once where the lock is a hash", Given: "HSET n f v",
		Do: "@once n redlock:tokens | alice '" + done5 + "' 10000" + forever, Want: []any{2}, Left: "n={f:v}",
	},
	{
		Name: "once with less time left than the TTL", Given: held5,
		Do: "@once n redlock:tokens | alice '" + done5 + "' 10000 now+3000", Want: 1,
		Left: left5 + "redlock:once:n=" + done5 + " 3s",
	},
	{
		Name: "once when its time is over", Given: held5 + "; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do: "@once n redlock:tokens | alice '" + done5 + "' 10000 now-1", Want: []any{3},
		Left: left5 + "redlock:once:n=" + begun5 + " 5s",
	},

	{
		Name: "once what a majority has",
		Do:   "@once n redlock:tokens | '' '" + done5 + "' 10000 now+3000", Want: 1, Left: "redlock:once:n=" + done5 + " 3s",
	},
	{
		Name: "once what a majority has, of which little is left",
		Do:   "@once n redlock:tokens | '' '" + done5 + "' 2000 now+3000", Want: 1, Left: "redlock:once:n=" + done5 + " 2s",
	},
	{
		Name: "once what a majority had",
		Do:   "@once n redlock:tokens | '' '" + done5 + "' 10000 now-1", Want: []any{3}, Left: "",
	},
	{
		Name: "once what a majority has, beside a newer holder", Given: "SET n bob PX 5000; ZADD redlock:tokens 6 n",
		Do: "@once n redlock:tokens | '' '" + done5 + "' 10000 now+3000", Want: 1,
		Left: "n=bob 5s; redlock:once:n=" + done5 + " 3s; redlock:tokens=[n:6]",
	},
	{
		Name: "once what a majority had before a later run", Given: "SET redlock:once:n '" + begun7 + "' PX 5000",
		Do: "@once n redlock:tokens | '' '" + done5 + "' 10000 now+3000", Want: []any{0},
		Left: "redlock:once:n=" + begun7 + " 5s",
	},

	{
		Name: "once two", Given: held5,
		Do:   "@once n m redlock:tokens | alice '" + begun5 + "' 10000" + forever + " '' '" + begun7 + "' 20000" + forever,
		Want: 2, Left: left5 + "redlock:once:m=" + begun7 + " 20s; redlock:once:n=" + begun5 + " 10s",
	},
	{
		Name: "once two, one refused", Given: held5 + "; ZADD redlock:tokens 6 n",
		Do:   "@once n m redlock:tokens | alice '" + begun5 + "' 10000" + forever + " '' '" + begun7 + "' 20000" + forever,
		Want: []any{0, 1}, Left: left5 + "redlock:once:m=" + begun7 + " 20s; redlock:tokens=[n:6]",
	},
}

var inspectCases = []Case{
	{
		Name: "inspect nothing",
		Do:   "@inspect n redlock:tokens |", Want: []any{[]any{"", -2, "", 0, "", -2, []any{}}}, Left: "",
	},
	{
		Name: "inspect everything",
		Given: "SET n alice PX 10000; ZADD redlock:tokens 1763700000000002 n; ZADD redlock:wait:n 0 " + ann + " 0 " + bob +
			"; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do:   "@inspect n redlock:tokens |",
		Want: []any{[]any{"alice", TTL(10 * time.Second), "1763700000000002", 2, begun5, TTL(5 * time.Second), []any{}}},
		Left: "n=alice 10s; redlock:once:n=" + begun5 + " 5s; redlock:tokens=[n:1763700000000002]; redlock:wait:n=[" + ann +
			":0 " + bob + ":0]",
	},
	{
		Name: "inspect with a prefix", Given: "SET p:redlock:once:n '" + done5 + "' PX 5000",
		Do: "@inspect p:n p:redlock:tokens |", Want: []any{[]any{"", -2, "", 0, done5, TTL(5 * time.Second), []any{}}},
		Left: "p:redlock:once:n=" + done5 + " 5s",
	},
	{
		Name: "inspect where hashes are", Given: "HSET n f v; HSET redlock:once:n f v",
		Do: "@inspect n redlock:tokens |", Want: []any{[]any{"", -1, "", 0, "", -1, []any{}}},
		Left: "n={f:v}; redlock:once:n={f:v}",
	},
	{
		Name: "inspect two", Given: "SET n alice PX 10000; SET m bob",
		Do:   "@inspect n m redlock:tokens |",
		Want: []any{[]any{"alice", TTL(10 * time.Second), "", 0, "", -2, []any{}}, []any{"bob", -1, "", 0, "", -2, []any{}}},
		Left: "m=bob; n=alice 10s",
	},
	{
		Name: "inspect readers",
		Given: "SET n readers PX 5000; ZADD redlock:read:n now+5000 " + ann + " now-1 " + bob +
			" now+5000 writer; PEXPIRE redlock:read:n 5000",
		Do:   "@inspect n redlock:tokens |",
		Want: []any{[]any{"readers", TTL(5 * time.Second), "", 0, "", -2, []any{ann, "writer"}}},
		Left: "n=readers 5s; redlock:read:n=[" + bob + ":0s " + ann + ":5s writer:5s] 5s",
	},
	{
		Name: "inspect a writer beside a set that is void", Given: "SET n alice PX 5000; ZADD redlock:read:n now+5000 " + ann,
		Do: "@inspect n redlock:tokens |", Want: []any{[]any{"alice", TTL(5 * time.Second), "", 0, "", -2, []any{}}},
		Left: "n=alice 5s; redlock:read:n=[" + ann + ":5s]",
	},
}
