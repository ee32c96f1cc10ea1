package conformance

import "time"

// Tokens in these rows are small numbers where their size does not matter, and of a real token's size where it does.

var acquireCases = []Case{
	{Name: "acquire a free lock, no tokens", Do: "@acquire n t | alice 5 n 10000", Want: 1, Left: "n=alice 10s; t=[n:5]"},
	{
		Name: "acquire a free lock, smaller token known", Given: "ZADD t 4 n",
		Do: "@acquire n t | alice 5 n 10000", Want: 1, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "acquire a free lock, same token known", Given: "ZADD t 5 n",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{2, "5"}}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "acquire a free lock, larger token known", Given: "ZADD t 6 n",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{2, "6"}}, Left: "n=alice 10s; t=[n:6]",
	},
	{
		Name: "acquire a free lock, other locks' tokens", Given: "ZADD t 9 m",
		Do: "@acquire n t | alice 5 n 10000", Want: 1, Left: "n=alice 10s; t=[n:5 m:9]",
	},
	{
		Name: "acquire with tokens of real size", Given: "ZADD t 1763700000000001 n",
		Do: "@acquire n t | alice 1763700000000002 n 10000", Want: 1, Left: "n=alice 10s; t=[n:1763700000000002]",
	},
	{
		Name: "acquire with a real token one too small", Given: "ZADD t 1763700000000002 n",
		Do: "@acquire n t | alice 1763700000000001 n 10000", Want: []any{[]any{2, "1763700000000002"}},
		Left: "n=alice 10s; t=[n:1763700000000002]",
	},
	{
		Name: "acquire another's", Given: "SET n bob PX 20000; ZADD t 4 n",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{0, "bob", TTL(20 * time.Second)}}, Left: "n=bob 20s; t=[n:4]",
	},
	{
		Name: "acquire our own", Given: "SET n alice PX 20000; ZADD t 4 n",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{0, "alice", TTL(20 * time.Second)}},
		Left: "n=alice 20s; t=[n:4]",
	},
	{
		Name: "acquire after expiry", Given: "SET n bob PX 100; ZADD t 4 n", After: 150 * time.Millisecond,
		Do: "@acquire n t | alice 5 n 10000", Want: 1, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "acquire a key without TTL", Given: "SET n bob",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{0, "bob", -1}}, Left: "n=bob",
	},
	{
		Name: "acquire where a hash is", Given: "HSET n f v",
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{0, "", -1}}, Left: "n={f:v}",
	},
	{
		Name: "acquire two",
		Do:   "@acquire n m t | alice bert 5 n 6 m 10000 20000", Want: 2, Left: "m=bert 20s; n=alice 10s; t=[n:5 m:6]",
	},
	{
		Name: "acquire two with one TTL",
		Do:   "@acquire n m t | alice bert 5 n 6 m 10000", Want: 2, Left: "m=bert 10s; n=alice 10s; t=[n:5 m:6]",
	},
	{
		Name: "acquire two with TTLs of their own, one outbid", Given: "ZADD t 9 m",
		Do: "@acquire n m t | alice bert 5 n 6 m 10000 20000", Want: []any{[]any{1}, []any{2, "9"}},
		Left: "m=bert 20s; n=alice 10s; t=[n:5 m:9]",
	},
	{
		Name: "acquire two, one taken", Given: "SET m bob PX 20000",
		Do: "@acquire n m t | alice alice 5 n 5 m 10000", Want: []any{[]any{1}, []any{0, "bob", TTL(20 * time.Second)}},
		Left: "m=bob 20s; n=alice 10s; t=[n:5]",
	},
	{
		Name: "acquire two, one outbid", Given: "ZADD t 9 m",
		Do: "@acquire n m t | alice alice 5 n 5 m 10000", Want: []any{[]any{1}, []any{2, "9"}},
		Left: "m=alice 10s; n=alice 10s; t=[n:5 m:9]",
	},
	{
		Name: "acquire two, one of the same token", Given: "ZADD t 5 m",
		Do: "@acquire n m t | alice alice 5 n 5 m 10000", Want: []any{[]any{2, "5"}, []any{2, "5"}},
		Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{
		Name: "acquire two, both taken", Given: "SET n bob PX 20000; SET m bob PX 20000",
		Do:   "@acquire n m t | alice alice 5 n 5 m 10000",
		Want: []any{[]any{0, "bob", TTL(20 * time.Second)}, []any{0, "bob", TTL(20 * time.Second)}},
		Left: "m=bob 20s; n=bob 20s",
	},
	{Name: "acquire with a TTL of 0", Do: "@acquire n t | alice 5 n 0", Want: Err("ERR invalid expire time"), Left: ""},
	{
		Name: "acquire where the tokens are a string", Given: "SET t x",
		Do: "@acquire n t | alice 5 n 10000", Want: Err("WRONGTYPE"), Left: "n=alice 10s; t=x",
	},
}

var acquireAllCases = []Case{
	{
		Name: "acquire all that are free",
		Do:   "@acquire_all n m t | alice 10000 5 2 0", Want: 2, Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{Name: "acquire all, one name", Do: "@acquire_all n t | alice 10000 5 1 0", Want: 1, Left: "n=alice 10s; t=[n:5]"},
	{
		Name: "acquire all, without tokens",
		Do:   "@acquire_all n m t | alice 10000 '' 2 0", Want: 2, Left: "m=alice 10s; n=alice 10s",
	},
	{
		Name: "acquire all, smaller tokens known", Given: "ZADD t 4 n 3 m 9 o",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: 2, Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5 o:9]",
	},
	{
		Name: "acquire all, a larger token known for one", Given: "ZADD t 6 m",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{2, "5"}, []any{2, "6"}},
		Left: "m=alice 10s; n=alice 10s; t=[n:5 m:6]",
	},
	{
		Name: "acquire all, the same token known for one", Given: "ZADD t 5 m",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{2, "5"}, []any{2, "5"}},
		Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{
		Name: "acquire all with tokens of real size", Given: "ZADD t 1763700000000001 n 1763700000000003 m",
		Do:   "@acquire_all n m t | alice 10000 1763700000000002 2 0",
		Want: []any{[]any{2, "1763700000000002"}, []any{2, "1763700000000003"}},
		Left: "m=alice 10s; n=alice 10s; t=[n:1763700000000002 m:1763700000000003]",
	},
	{
		Name: "acquire all, the first another's", Given: "SET n bob PX 20000; ZADD t 4 n",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{0, "bob", TTL(20 * time.Second)}, []any{3}},
		Left: "n=bob 20s; t=[n:4]",
	},
	{
		Name: "acquire all, the last another's", Given: "SET m bob PX 20000",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{3}, []any{0, "bob", TTL(20 * time.Second)}},
		Left: "m=bob 20s",
	},
	{
		Name: "acquire all, all others'", Given: "SET n carl PX 5000; SET m bob PX 20000",
		Do:   "@acquire_all n m t | alice 10000 5 2 0",
		Want: []any{[]any{0, "carl", TTL(5 * time.Second)}, []any{0, "bob", TTL(20 * time.Second)}},
		Left: "m=bob 20s; n=carl 5s",
	},
	{
		Name: "acquire all, one ours already", Given: "SET n alice PX 5000",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{0, "alice", TTL(5 * time.Second)}, []any{3}},
		Left: "n=alice 5s",
	},
	{
		Name: "acquire all after one expired", Given: "SET m bob PX 100; ZADD t 4 m", After: 150 * time.Millisecond,
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: 2, Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{
		Name: "acquire all, one without TTL", Given: "SET m bob",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{3}, []any{0, "bob", -1}}, Left: "m=bob",
	},
	{
		Name: "acquire all, a hash at one", Given: "HSET m f v",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{3}, []any{0, "", -1}}, Left: "m={f:v}",
	},
	{
		Name: "acquire all, an empty string at one", Given: "SET m '' PX 5000",
		Do: "@acquire_all n m t | alice 10000 5 2 0", Want: []any{[]any{3}, []any{0, "", TTL(5 * time.Second)}},
		Left: "m= 5s",
	},
	{
		Name: "acquire all, over from others", Given: "SET n bert PX 5000; SET m carl PX 5000; ZADD t 3 n 4 m",
		Do: "@acquire_all n m t | alice 10000 5 2 2 bert carl", Want: 2, Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{
		Name: "acquire all, over from others, one gone", Given: "SET n bert PX 5000",
		Do: "@acquire_all n m t | alice 10000 5 2 2 bert carl", Want: 2, Left: "m=alice 10s; n=alice 10s; t=[m:5 n:5]",
	},
	{
		Name: "acquire all, over from others, one another's", Given: "SET n bert PX 5000; SET m bob PX 20000",
		Do: "@acquire_all n m t | alice 10000 5 2 2 bert carl", Want: []any{[]any{3}, []any{0, "bob", TTL(20 * time.Second)}},
		Left: "m=bob 20s; n=bert 5s",
	},
	{
		Name: "acquire all, over from others in another order", Given: "SET n carl PX 5000; SET m bert PX 5000",
		Do:   "@acquire_all n m t | alice 10000 5 2 2 bert carl",
		Want: []any{[]any{0, "carl", TTL(5 * time.Second)}, []any{0, "bert", TTL(5 * time.Second)}},
		Left: "m=bert 5s; n=carl 5s",
	},
	{
		Name: "acquire all for two",
		Do:   "@acquire_all n m o t | alice 10000 5 2 0 bob 20000 6 1 0", Want: 3,
		Left: "m=alice 10s; n=alice 10s; o=bob 20s; t=[m:5 n:5 o:6]",
	},
	{
		Name: "acquire all for two, one without a token",
		Do:   "@acquire_all n m o t | alice 10000 '' 2 0 bob 20000 6 1 0", Want: 3,
		Left: "m=alice 10s; n=alice 10s; o=bob 20s; t=[o:6]",
	},
	{
		Name: "acquire all for two, taken for the first", Given: "SET m carl PX 5000",
		Do:   "@acquire_all n m o t | alice 10000 5 2 0 bob 20000 6 1 0",
		Want: []any{[]any{3}, []any{0, "carl", TTL(5 * time.Second)}, []any{1}}, Left: "m=carl 5s; o=bob 20s; t=[o:6]",
	},
	{
		Name: "acquire all for two, taken for the second", Given: "SET o carl PX 5000",
		Do:   "@acquire_all n m o t | alice 10000 5 1 0 bob 20000 6 2 0",
		Want: []any{[]any{1}, []any{3}, []any{0, "carl", TTL(5 * time.Second)}}, Left: "n=alice 10s; o=carl 5s; t=[n:5]",
	},
	{
		Name: "acquire all for two, taken for both", Given: "SET n carl PX 5000; SET o carl PX 5000",
		Do:   "@acquire_all n m o t | alice 10000 5 1 0 bob 20000 6 2 0",
		Want: []any{[]any{0, "carl", TTL(5 * time.Second)}, []any{3}, []any{0, "carl", TTL(5 * time.Second)}},
		Left: "n=carl 5s; o=carl 5s",
	},
	{
		Name: "acquire all for two, a larger token known for one", Given: "ZADD t 9 m",
		Do: "@acquire_all n m o t | alice 10000 5 2 0 bob 20000 6 1 0", Want: []any{[]any{2, "5"}, []any{2, "9"}, []any{1}},
		Left: "m=alice 10s; n=alice 10s; o=bob 20s; t=[n:5 o:6 m:9]",
	},
	{
		Name: "acquire all for two, both over from others", Given: "SET n bert PX 5000; SET o carl PX 5000",
		Do: "@acquire_all n m o t | alice 10000 5 2 2 bert bert bob 20000 6 1 1 carl", Want: 3,
		Left: "m=alice 10s; n=alice 10s; o=bob 20s; t=[m:5 n:5 o:6]",
	},
	{
		Name: "acquire all for two, the second's former owner of no use to the first", Given: "SET n carl PX 5000",
		Do:   "@acquire_all n m t | alice 10000 5 1 0 bob 20000 6 1 1 carl",
		Want: []any{[]any{0, "carl", TTL(5 * time.Second)}, []any{1}}, Left: "m=bob 20s; n=carl 5s; t=[m:6]",
	},
	{
		Name: "acquire all with a TTL of 0",
		Do:   "@acquire_all n m t | alice 0 5 2 0", Want: Err("ERR invalid expire time"), Left: "",
	},
}

var raiseCases = []Case{
	{
		Name: "raise ours", Given: "SET n alice PX 10000; ZADD t 4 n",
		Do: "@raise n t | alice 0 5", Want: 1, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "raise ours, no token known", Given: "SET n alice PX 10000",
		Do: "@raise n t | alice 0 5", Want: 1, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "raise ours, same token known", Given: "SET n alice PX 10000; ZADD t 5 n",
		Do: "@raise n t | alice 0 5", Want: []any{[]any{2, "5"}}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "raise ours, larger token known", Given: "SET n alice PX 10000; ZADD t 6 n",
		Do: "@raise n t | alice 0 5", Want: []any{[]any{2, "6"}}, Left: "n=alice 10s; t=[n:6]",
	},
	{
		Name: "raise another's", Given: "SET n bob PX 10000; ZADD t 4 n",
		Do: "@raise n t | alice 0 5", Want: []any{[]any{0}}, Left: "n=bob 10s; t=[n:4]",
	},
	{Name: "raise nobody's", Given: "ZADD t 4 n", Do: "@raise n t | alice 0 5", Want: []any{[]any{0}}, Left: "t=[n:4]"},
	{
		Name: "raise what has expired", Given: "SET n alice PX 100; ZADD t 4 n", After: 150 * time.Millisecond,
		Do: "@raise n t | alice 0 5", Want: []any{[]any{0}}, Left: "t=[n:4]",
	},
	{
		Name: "raise where a hash is", Given: "HSET n f v",
		Do: "@raise n t | alice 0 5", Want: []any{[]any{0}}, Left: "n={f:v}",
	},
	{
		Name: "raise two, one ours", Given: "SET n alice PX 10000; SET m bob PX 10000",
		Do: "@raise n m t | alice 0 5 alice 0 5", Want: []any{[]any{1}, []any{0}}, Left: "m=bob 10s; n=alice 10s; t=[n:5]",
	},
	{
		Name:  "raise two of real size",
		Given: "SET n alice PX 10000; SET m alice PX 10000; ZADD t 1763700000000001 n 1763700000000003 m",
		Do:    "@raise n m t | alice 0 1763700000000002 alice 0 1763700000000002",
		Want:  []any{[]any{1}, []any{2, "1763700000000003"}},
		Left:  "m=alice 10s; n=alice 10s; t=[n:1763700000000002 m:1763700000000003]",
	},
}

var extendCases = []Case{
	{
		Name: "extend ours", Given: "SET n alice PX 5000; ZADD t 5 n",
		Do: "@extend n t | alice 10000 5", Want: 1, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "extend ours to less", Given: "SET n alice PX 50000",
		Do: "@extend n t | alice 10000 ''", Want: 1, Left: "n=alice 10s",
	},
	{
		Name: "extend ours, larger token known", Given: "SET n alice PX 5000; ZADD t 6 n",
		Do: "@extend n t | alice 10000 5", Want: 1, Left: "n=alice 10s; t=[n:6]",
	},
	{
		Name: "extend repairs, token known", Given: "ZADD t 5 n",
		Do: "@extend n t | alice 10000 5", Want: []any{2}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "extend repairs, nothing known",
		Do:   "@extend n t | alice 10000 5", Want: []any{2}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "extend repairs, smaller token known", Given: "ZADD t 4 n",
		Do: "@extend n t | alice 10000 5", Want: []any{2}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "extend does not repair what another had since", Given: "ZADD t 6 n",
		Do: "@extend n t | alice 10000 5", Want: []any{0}, Left: "t=[n:6]",
	},
	{Name: "extend repairs without tokens", Do: "@extend n t | alice 10000 ''", Want: []any{2}, Left: "n=alice 10s"},
	{
		Name: "extend after expiry repairs", Given: "SET n alice PX 100; ZADD t 5 n", After: 150 * time.Millisecond,
		Do: "@extend n t | alice 10000 5", Want: []any{2}, Left: "n=alice 10s; t=[n:5]",
	},
	{
		Name: "extend another's", Given: "SET n bob PX 5000; ZADD t 6 n",
		Do: "@extend n t | alice 10000 5", Want: []any{0}, Left: "n=bob 5s; t=[n:6]",
	},
	{
		Name: "extend where a hash is", Given: "HSET n f v",
		Do: "@extend n t | alice 10000 5", Want: []any{0}, Left: "n={f:v}",
	},
	{
		Name: "extend two, one another's", Given: "SET n alice PX 5000; SET m bob PX 5000",
		Do: "@extend n m t | alice 10000 5 alice 10000 5", Want: []any{1, 0}, Left: "m=bob 5s; n=alice 10s",
	},
	{
		Name: "extend two", Given: "SET n alice PX 5000; SET m bert PX 5000",
		Do: "@extend n m t | alice 10000 5 bert 20000 5", Want: 2, Left: "m=bert 20s; n=alice 10s",
	},
	{
		Name: "extend does not repair with a token of real size one too small", Given: "ZADD t 1763700000000002 n",
		Do: "@extend n t | alice 10000 1763700000000001", Want: []any{0}, Left: "t=[n:1763700000000002]",
	},
}

var adoptCases = []Case{
	{
		Name: "adopt what was handed over", Given: "SET n alice PX 5000; ZADD t 5 n",
		Do: "@adopt n t | bert 10000 6 alice", Want: 1, Left: "n=bert 10s; t=[n:6]",
	},
	{
		Name: "adopt without tokens", Given: "SET n alice PX 5000",
		Do: "@adopt n t | bert 10000 '' alice", Want: 1, Left: "n=bert 10s",
	},
	{
		Name: "adopt with the token known", Given: "SET n alice PX 5000; ZADD t 5 n",
		Do: "@adopt n t | bert 10000 5 alice", Want: []any{[]any{2, "5"}}, Left: "n=bert 10s; t=[n:5]",
	},
	{
		Name: "adopt with a smaller token", Given: "SET n alice PX 5000; ZADD t 6 n",
		Do: "@adopt n t | bert 10000 5 alice", Want: []any{[]any{2, "6"}}, Left: "n=bert 10s; t=[n:6]",
	},
	{
		Name: "adopt another's", Given: "SET n carl PX 5000; ZADD t 5 n",
		Do: "@adopt n t | bert 10000 6 alice", Want: []any{[]any{0, "carl", TTL(5 * time.Second)}},
		Left: "n=carl 5s; t=[n:5]",
	},
	{
		Name: "adopt nobody's", Given: "ZADD t 5 n",
		Do: "@adopt n t | bert 10000 6 alice", Want: []any{[]any{0, "", -2}}, Left: "t=[n:5]",
	},
	{
		Name: "adopt twice", Given: "SET n alice PX 5000; @adopt n t | bert 10000 6 alice",
		Do: "@adopt n t | carl 10000 7 alice", Want: []any{[]any{0, "bert", TTL(10 * time.Second)}},
		Left: "n=bert 10s; t=[n:6]",
	},
	{
		Name: "adopt where a hash is", Given: "HSET n f v",
		Do: "@adopt n t | bert 10000 6 alice", Want: []any{[]any{0, "", -1}}, Left: "n={f:v}",
	},
	{
		Name: "adopt two, one another's", Given: "SET n alice PX 5000; SET m carl PX 5000",
		Do:   "@adopt n m t | bert 10000 6 alice bert 10000 6 alice",
		Want: []any{[]any{1}, []any{0, "carl", TTL(5 * time.Second)}}, Left: "m=carl 5s; n=bert 10s; t=[n:6]",
	},
}

var revertCases = []Case{
	{Name: "revert an adoption", Given: "SET n bert PX 5000", Do: "@revert n | bert alice", Want: 1, Left: "n=alice 5s"},
	{Name: "revert another's", Given: "SET n carl PX 5000", Do: "@revert n | bert alice", Want: 1, Left: "n=carl 5s"},
	{Name: "revert nobody's", Do: "@revert n | bert alice", Want: 1, Left: ""},
	{Name: "revert where a hash is", Given: "HSET n f v", Do: "@revert n | bert alice", Want: 1, Left: "n={f:v}"},
	{
		Name: "revert two", Given: "SET n bert PX 5000; SET m bert PX 5000",
		Do: "@revert n m | bert alice bert alice", Want: 2, Left: "m=alice 5s; n=alice 5s",
	},
}

var nodeCases = []Case{
	{Name: "node record, the first", Do: "@node n | '' one", Want: "one", Left: "n=one"},
	{Name: "node record, another", Given: "SET n one", Do: "@node n | one two", Want: "two", Left: "n=two"},
	{Name: "node record, somebody was first", Given: "SET n one", Do: "@node n | '' two", Want: "one", Left: "n=one"},
	{
		Name: "node record, somebody was faster", Given: "SET n three",
		Do: "@node n | one two", Want: "three", Left: "n=three",
	},
	{Name: "node record, it is gone", Do: "@node n | one two", Want: "", Left: ""},
}
