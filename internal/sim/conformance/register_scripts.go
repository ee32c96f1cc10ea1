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

var onceCases = []Case{
	{Name: "once where nothing is", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: 1, Left: "redlock:once:n=" + begun5 + " 10s"},
	{Name: "once with a prefix", Do: "@once p:n p:redlock:tokens | '" + begun5 + "' 10000", Want: 1, Left: "p:redlock:once:n=" + begun5 + " 10s"},
	{Name: "once with our token known", Given: "ZADD redlock:tokens 5 n", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: 1, Left: "redlock:once:n=" + begun5 + " 10s; redlock:tokens=[n:5]"},
	{Name: "once with a larger token known", Given: "ZADD redlock:tokens 6 n", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: []any{0}, Left: "redlock:tokens=[n:6]"},
	{Name: "once with a real token one too small", Given: "ZADD redlock:tokens 1763700000000003 n", Do: "@once n redlock:tokens | '" + real2 + "' 10000", Want: []any{0}, Left: "redlock:tokens=[n:1763700000000003]"},
	{Name: "once with a real token", Given: "ZADD redlock:tokens 1763700000000002 n", Do: "@once n redlock:tokens | '" + real2 + "' 10000", Want: 1, Left: "redlock:once:n=" + real2 + " 10s; redlock:tokens=[n:1763700000000002]"},
	{Name: "once done", Given: "SET redlock:once:n '" + begun5 + "' PX 5000", Do: "@once n redlock:tokens | '" + done5 + "' 10000", Want: 1, Left: "redlock:once:n=" + done5 + " 10s"},
	{Name: "once failed", Given: "SET redlock:once:n '" + begun5 + "' PX 5000", Do: "@once n redlock:tokens | '" + fail5 + "' 10000", Want: 1, Left: "redlock:once:n=" + fail5 + " 10s"},
	{Name: "once the same again", Given: "SET redlock:once:n '" + begun5 + "' PX 5000", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: 1, Left: "redlock:once:n=" + begun5 + " 10s"},
	{Name: "once begun after done, late", Given: "SET redlock:once:n '" + done5 + "' PX 5000", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: []any{0}, Left: "redlock:once:n=" + done5 + " 5s"},
	{Name: "once over an older run", Given: "SET redlock:once:n '" + fail5 + "' PX 5000", Do: "@once n redlock:tokens | '" + begun7 + "' 10000", Want: 1, Left: "redlock:once:n=" + begun7 + " 10s"},
	{Name: "once done after another began", Given: "SET redlock:once:n '" + begun7 + "' PX 5000", Do: "@once n redlock:tokens | '" + done5 + "' 10000", Want: []any{0}, Left: "redlock:once:n=" + begun7 + " 5s"},
	{Name: "once where a hash is", Given: "HSET redlock:once:n f v", Do: "@once n redlock:tokens | '" + begun5 + "' 10000", Want: 1, Left: "redlock:once:n=" + begun5 + " 10s"},
	{Name: "once two", Do: "@once n m redlock:tokens | '" + begun5 + "' 10000 '" + begun7 + "' 20000", Want: 2, Left: "redlock:once:m=" + begun7 + " 20s; redlock:once:n=" + begun5 + " 10s"},
	{Name: "once two, one refused", Given: "ZADD redlock:tokens 6 n", Do: "@once n m redlock:tokens | '" + begun5 + "' 10000 '" + begun7 + "' 20000", Want: []any{0, 1}, Left: "redlock:once:m=" + begun7 + " 20s; redlock:tokens=[n:6]"},
}

var inspectCases = []Case{
	{Name: "inspect nothing", Do: "@inspect n redlock:tokens |", Want: []any{[]any{"", -2, "", 0, "", -2, []any{}}}, Left: ""},
	{
		Name: "inspect everything", Given: "SET n alice PX 10000; ZADD redlock:tokens 1763700000000002 n; ZADD redlock:wait:n 0 " + ann + " 0 " + bob + "; SET redlock:once:n '" + begun5 + "' PX 5000",
		Do: "@inspect n redlock:tokens |", Want: []any{[]any{"alice", TTL(10 * time.Second), "1763700000000002", 2, begun5, TTL(5 * time.Second), []any{}}},
		Left: "n=alice 10s; redlock:once:n=" + begun5 + " 5s; redlock:tokens=[n:1763700000000002]; redlock:wait:n=[" + ann + ":0 " + bob + ":0]",
	},
	{Name: "inspect with a prefix", Given: "SET p:redlock:once:n '" + done5 + "' PX 5000", Do: "@inspect p:n p:redlock:tokens |", Want: []any{[]any{"", -2, "", 0, done5, TTL(5 * time.Second), []any{}}}, Left: "p:redlock:once:n=" + done5 + " 5s"},
	{Name: "inspect where hashes are", Given: "HSET n f v; HSET redlock:once:n f v", Do: "@inspect n redlock:tokens |", Want: []any{[]any{"", -1, "", 0, "", -1, []any{}}}, Left: "n={f:v}; redlock:once:n={f:v}"},
	{Name: "inspect two", Given: "SET n alice PX 10000; SET m bob", Do: "@inspect n m redlock:tokens |", Want: []any{[]any{"alice", TTL(10 * time.Second), "", 0, "", -2, []any{}}, []any{"bob", -1, "", 0, "", -2, []any{}}}, Left: "m=bob; n=alice 10s"},
	{
		Name: "inspect readers", Given: "SET n readers PX 5000; ZADD redlock:read:n now+5000 " + ann + " now-1 " + bob + " now+5000 writer; PEXPIRE redlock:read:n 5000",
		Do: "@inspect n redlock:tokens |", Want: []any{[]any{"readers", TTL(5 * time.Second), "", 0, "", -2, []any{ann, "writer"}}},
		Left: "n=readers 5s; redlock:read:n=[" + bob + ":0s " + ann + ":5s writer:5s] 5s",
	},
	{
		Name: "inspect a writer beside a set that is void", Given: "SET n alice PX 5000; ZADD redlock:read:n now+5000 " + ann,
		Do: "@inspect n redlock:tokens |", Want: []any{[]any{"alice", TTL(5 * time.Second), "", 0, "", -2, []any{}}},
		Left: "n=alice 5s; redlock:read:n=[" + ann + ":5s]",
	},
}
