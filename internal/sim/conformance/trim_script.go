package conformance

// trimCases: the client's time is 10 µs, and what is older than 5 µs goes, unless it says otherwise.
var trimCases = []Case{
	{Name: "trim nothing", Do: "@trim redlock:floor redlock:tokens | 10 5", Want: []any{""}, Left: ""},
	{
		Name: "trim what is old", Given: "ZADD redlock:tokens 4 a 5 b 6 c", Do: "@trim redlock:floor redlock:tokens | 10 5",
		Want: []any{"5"}, Left: "redlock:floor=5; redlock:tokens=[c:6]",
	},
	{
		Name: "trim what is not old", Given: "ZADD redlock:tokens 6 c", Do: "@trim redlock:floor redlock:tokens | 10 5",
		Want: []any{""}, Left: "redlock:tokens=[c:6]",
	},
	{
		Name: "trim nothing more", Given: "SET redlock:floor 5; ZADD redlock:tokens 6 c",
		Do:   "@trim redlock:floor redlock:tokens | 10 5",
		Want: []any{"5"}, Left: "redlock:floor=5; redlock:tokens=[c:6]",
	},
	{
		Name: "trim above the floor", Given: "SET redlock:floor 4; ZADD redlock:tokens 5 b",
		Do:   "@trim redlock:floor redlock:tokens | 10 5",
		Want: []any{"5"}, Left: "redlock:floor=5",
	},
	{
		Name: "trim below the floor", Given: "SET redlock:floor 7; ZADD redlock:tokens 5 b",
		Do:   "@trim redlock:floor redlock:tokens | 10 5",
		Want: []any{"7"}, Left: "redlock:floor=7",
	},
	{
		Name: "trim real tokens", Given: "ZADD redlock:tokens 1763700000000001 a 1763700000000002 b",
		Do:   "@trim p:floor redlock:tokens | 1763700000000006 5",
		Want: []any{"1763700000000001"}, Left: "p:floor=1763700000000001; redlock:tokens=[b:1763700000000002]",
	},
	{ // a client of the year 2096: the node's clock counts, but for no more than an hour
		Name: "trim by a clock that is years ahead", Given: "ZADD redlock:tokens 5 b 6 c",
		Do:   "@trim redlock:floor redlock:tokens | 4000000000000000 3999996399999995",
		Want: []any{"5"}, Left: "redlock:floor=5; redlock:tokens=[c:6]",
	},
}
