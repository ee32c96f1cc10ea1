package conformance

var zsetCases = []Case{
	{Name: "ZADD new", Do: "ZADD z 1 a 2 b", Want: 2, Left: "z=[a:1 b:2]"},
	{Name: "ZADD changes, not counted", Given: "ZADD z 1 a", Do: "ZADD z 2 a", Want: 0, Left: "z=[a:2]"},
	{Name: "ZADD CH counts changes", Given: "ZADD z 1 a", Do: "ZADD z CH 2 a 3 b", Want: 2, Left: "z=[a:2 b:3]"},
	{Name: "ZADD CH same score", Given: "ZADD z 2 a", Do: "ZADD z CH 2 a", Want: 0, Left: "z=[a:2]"},
	{Name: "ZADD GT CH new", Do: "ZADD z GT CH 5 a", Want: 1, Left: "z=[a:5]"},
	{Name: "ZADD GT CH greater", Given: "ZADD z 5 a", Do: "ZADD z GT CH 6 a", Want: 1, Left: "z=[a:6]"},
	{Name: "ZADD GT CH equal", Given: "ZADD z 5 a", Do: "ZADD z GT CH 5 a", Want: 0, Left: "z=[a:5]"},
	{Name: "ZADD GT CH less", Given: "ZADD z 5 a", Do: "ZADD z GT CH 4 a", Want: 0, Left: "z=[a:5]"},
	{
		Name: "ZADD GT CH with a token", Given: "ZADD z 1763700000000001 a",
		Do: "ZADD z GT CH 1763700000000002 a", Want: 1, Left: "z=[a:1763700000000002]",
	},
	{Name: "ZADD LT less", Given: "ZADD z 5 a", Do: "ZADD z LT CH 4 a", Want: 1, Left: "z=[a:4]"},
	{Name: "ZADD LT greater", Given: "ZADD z 5 a", Do: "ZADD z LT CH 6 a", Want: 0, Left: "z=[a:5]"},
	{Name: "ZADD NX on a member", Given: "ZADD z 5 a", Do: "ZADD z NX 6 a 7 b", Want: 1, Left: "z=[a:5 b:7]"},
	{Name: "ZADD XX on no member", Given: "ZADD z 5 a", Do: "ZADD z XX CH 6 a 7 b", Want: 1, Left: "z=[a:6]"},
	{Name: "ZADD XX on no key", Do: "ZADD z XX 6 a", Want: 0, Left: ""},
	{Name: "ZADD GT XX on no member", Given: "ZADD z 5 b", Do: "ZADD z GT XX CH 6 a", Want: 0, Left: "z=[b:5]"},
	{Name: "ZADD INCR", Given: "ZADD z 5 a", Do: "ZADD z INCR 2 a", Want: "7", Left: "z=[a:7]"},
	{Name: "ZADD INCR NX on a member", Given: "ZADD z 5 a", Do: "ZADD z NX INCR 2 a", Want: nil, Left: "z=[a:5]"},
	{
		Name: "ZADD INCR twice",
		Do:   "ZADD z INCR 2 a 3 b", Want: Err("ERR INCR option supports a single increment-element pair"), Left: "",
	},
	{
		Name: "ZADD NX XX",
		Do:   "ZADD z NX XX 1 a", Want: Err("ERR XX and NX options at the same time are not compatible"), Left: "",
	},
	{
		Name: "ZADD NX GT",
		Do:   "ZADD z NX GT 1 a", Want: Err("ERR GT, LT, and/or NX options at the same time are not compatible"), Left: "",
	},
	{Name: "ZADD not a number", Do: "ZADD z x a", Want: Err("ERR value is not a valid float"), Left: ""},
	{Name: "ZADD half a pair", Do: "ZADD z 1 a 2", Want: Err("ERR syntax error"), Left: ""},
	{Name: "ZADD on a string", Given: "SET z x", Do: "ZADD z 1 a", Want: Err("WRONGTYPE"), Left: "z=x"},
	{
		Name: "ZSCORE", Given: "ZADD z 1763700000000001 a",
		Do: "ZSCORE z a", Want: "1763700000000001", Left: "z=[a:1763700000000001]",
	},
	{
		Name: "ZSCORE largest exact", Given: "ZADD z 9007199254740991 a",
		Do: "ZSCORE z a", Want: "9007199254740991", Left: "z=[a:9007199254740991]",
	},
	{Name: "ZSCORE half", Given: "ZADD z 1.5 a", Do: "ZSCORE z a", Want: "1.5", Left: "z=[a:1.5]"},
	{Name: "ZSCORE infinite", Given: "ZADD z +inf a", Do: "ZSCORE z a", Want: "inf", Left: "z=[a:inf]"},
	{Name: "ZSCORE of no member", Given: "ZADD z 1 a", Do: "ZSCORE z b", Want: nil, Left: "z=[a:1]"},
	{Name: "ZSCORE of no key", Do: "ZSCORE z b", Want: nil, Left: ""},
	{Name: "ZSCORE on a string", Given: "SET z x", Do: "ZSCORE z a", Want: Err("WRONGTYPE"), Left: "z=x"},
	{Name: "ZINCRBY", Given: "ZADD z 1 a", Do: "ZINCRBY z 2.5 a", Want: "3.5", Left: "z=[a:3.5]"},
	{Name: "ZREM", Given: "ZADD z 1 a 2 b", Do: "ZREM z a c", Want: 1, Left: "z=[b:2]"},
	{Name: "ZREM of the last", Given: "ZADD z 1 a", Do: "ZREM z a", Want: 1, Left: ""},
	{Name: "ZREM of no key", Do: "ZREM z a", Want: 0, Left: ""},
	{Name: "ZCARD", Given: "ZADD z 1 a 2 b", Do: "ZCARD z", Want: 2, Left: "z=[a:1 b:2]"},
	{Name: "ZCARD of no key", Do: "ZCARD z", Want: 0, Left: ""},
	{Name: "ZPOPMIN", Given: "ZADD z 2 b 1 a", Do: "ZPOPMIN z", Want: []any{"a", "1"}, Left: "z=[b:2]"},
	{Name: "ZPOPMIN ties by bytes", Given: "ZADD z 1 b 1 a", Do: "ZPOPMIN z", Want: []any{"a", "1"}, Left: "z=[b:1]"},
	{Name: "ZPOPMIN of many", Given: "ZADD z 2 b 1 a", Do: "ZPOPMIN z 5", Want: []any{"a", "1", "b", "2"}, Left: ""},
	{Name: "ZPOPMIN of no key", Do: "ZPOPMIN z", Want: []any{}, Left: ""},
	{Name: "ZRANK", Given: "ZADD z 1 a 2 b", Do: "ZRANK z b", Want: 1, Left: "z=[a:1 b:2]"},
	{Name: "ZRANK of no member", Given: "ZADD z 1 a", Do: "ZRANK z b", Want: nil, Left: "z=[a:1]"},
	{Name: "ZCOUNT", Given: "ZADD z 1 a 2 b 3 c", Do: "ZCOUNT z (1 +inf", Want: 2, Left: "z=[a:1 b:2 c:3]"},
}

const abc = "ZADD z 1 a 2 b 3 c"

const abcLeft = "z=[a:1 b:2 c:3]"

var zrangeCases = []Case{
	{Name: "ZRANGE all", Given: abc, Do: "ZRANGE z 0 -1", Want: []any{"a", "b", "c"}, Left: abcLeft},
	{Name: "ZRANGE first", Given: abc, Do: "ZRANGE z 0 0 WITHSCORES", Want: []any{"a", "1"}, Left: abcLeft},
	{Name: "ZRANGE beyond", Given: abc, Do: "ZRANGE z 5 9", Want: []any{}, Left: abcLeft},
	{Name: "ZRANGE last two", Given: abc, Do: "ZRANGE z -2 -1", Want: []any{"b", "c"}, Left: abcLeft},
	{Name: "ZRANGE REV", Given: abc, Do: "ZRANGE z 0 1 REV", Want: []any{"c", "b"}, Left: abcLeft},
	{Name: "ZRANGE BYSCORE", Given: abc, Do: "ZRANGE z 2 +inf BYSCORE", Want: []any{"b", "c"}, Left: abcLeft},
	{Name: "ZRANGE BYSCORE REV", Given: abc, Do: "ZRANGE z +inf 2 BYSCORE REV", Want: []any{"c", "b"}, Left: abcLeft},
	{
		Name: "ZRANGE BYSCORE LIMIT", Given: abc,
		Do: "ZRANGE z -inf +inf BYSCORE LIMIT 1 1", Want: []any{"b"}, Left: abcLeft,
	},
	{
		Name: "ZRANGE BYSCORE LIMIT all", Given: abc,
		Do: "ZRANGE z -inf +inf BYSCORE LIMIT 1 -1", Want: []any{"b", "c"}, Left: abcLeft,
	},
	{
		Name: "ZRANGE LIMIT without BYSCORE", Given: abc,
		Do: "ZRANGE z 0 -1 LIMIT 0 1", Want: Err("ERR syntax error"), Left: abcLeft,
	},
	{Name: "ZRANGE of no key", Do: "ZRANGE z 0 -1", Want: []any{}, Left: ""},
	{Name: "ZRANGE on a string", Given: "SET z x", Do: "ZRANGE z 0 -1", Want: Err("WRONGTYPE"), Left: "z=x"},
	{Name: "ZRANGE not a number", Given: abc, Do: "ZRANGE z a b", Want: Err("ERR value is not an integer"), Left: abcLeft},
	{Name: "ZRANGEBYSCORE", Given: abc, Do: "ZRANGEBYSCORE z 1 2", Want: []any{"a", "b"}, Left: abcLeft},
	{
		Name: "ZRANGEBYSCORE exclusive", Given: abc,
		Do: "ZRANGEBYSCORE z (1 (3 WITHSCORES", Want: []any{"b", "2"}, Left: abcLeft,
	},
	{Name: "ZRANGEBYSCORE LIMIT", Given: abc, Do: "ZRANGEBYSCORE z -inf +inf LIMIT 0 1", Want: []any{"a"}, Left: abcLeft},
	{
		Name: "ZRANGEBYSCORE not a number", Given: abc,
		Do: "ZRANGEBYSCORE z a b", Want: Err("ERR min or max is not a float"), Left: abcLeft,
	},
	{Name: "ZREVRANGEBYSCORE", Given: abc, Do: "ZREVRANGEBYSCORE z 2 -inf", Want: []any{"b", "a"}, Left: abcLeft},
	{Name: "ZREMRANGEBYSCORE", Given: abc, Do: "ZREMRANGEBYSCORE z -inf (3", Want: 2, Left: "z=[c:3]"},
	{Name: "ZREMRANGEBYSCORE all", Given: abc, Do: "ZREMRANGEBYSCORE z -inf +inf", Want: 3, Left: ""},
	{
		Name: "ZREMRANGEBYSCORE with tokens", Given: "ZADD z 1763700000000001 a 1763700000000002 b",
		Do: "ZREMRANGEBYSCORE z -inf 1763700000000001", Want: 1, Left: "z=[b:1763700000000002]",
	},
	{Name: "ZREMRANGEBYSCORE of no key", Do: "ZREMRANGEBYSCORE z 0 1", Want: 0, Left: ""},
	{Name: "ZREMRANGEBYRANK", Given: abc, Do: "ZREMRANGEBYRANK z 0 0", Want: 1, Left: "z=[b:2 c:3]"},
}

var hashCases = []Case{
	{Name: "HSET new", Do: "HSET h f 1 g 2", Want: 2, Left: "h={f:1 g:2}"},
	{Name: "HSET again", Given: "HSET h f 1", Do: "HSET h f 2 g 3", Want: 1, Left: "h={f:2 g:3}"},
	{
		Name: "HSET half a pair",
		Do:   "HSET h f 1 g", Want: Err("ERR wrong number of arguments for 'hset' command"), Left: "",
	},
	{Name: "HSETNX", Given: "HSET h f 1", Do: "HSETNX h f 2", Want: 0, Left: "h={f:1}"},
	{Name: "HGET", Given: "HSET h f 1", Do: "HGET h f", Want: "1", Left: "h={f:1}"},
	{Name: "HGET of no field", Given: "HSET h f 1", Do: "HGET h g", Want: nil, Left: "h={f:1}"},
	{Name: "HMGET", Given: "HSET h f 1", Do: "HMGET h f g", Want: []any{"1", nil}, Left: "h={f:1}"},
	{Name: "HDEL of the last", Given: "HSET h f 1", Do: "HDEL h f g", Want: 1, Left: ""},
	{Name: "HGETALL", Given: "HSET h f 1", Do: "HGETALL h", Want: []any{"f", "1"}, Left: "h={f:1}"},
	{Name: "HGETALL of no key", Do: "HGETALL h", Want: []any{}, Left: ""},
	{Name: "HLEN", Given: "HSET h f 1 g 2", Do: "HLEN h", Want: 2, Left: "h={f:1 g:2}"},
	{Name: "HINCRBY", Given: "HSET h f 1", Do: "HINCRBY h f 2", Want: 3, Left: "h={f:3}"},
	{
		Name: "HINCRBY of a word", Given: "HSET h f x",
		Do: "HINCRBY h f 2", Want: Err("ERR hash value is not an integer"), Left: "h={f:x}",
	},
	{Name: "HGET on a string", Given: "SET h x", Do: "HGET h f", Want: Err("WRONGTYPE"), Left: "h=x"},
	{Name: "RPUSH and LPUSH", Given: "RPUSH l b c", Do: "LPUSH l a", Want: 3, Left: "l=(a b c)"},
	{Name: "LPOP of the last", Given: "RPUSH l a", Do: "LPOP l", Want: "a", Left: ""},
	{Name: "SADD", Given: "SADD s a", Do: "SADD s a b", Want: 1, Left: "s=<a b>"},
}
