package conformance

import "time"

// Commands are the rows about Redis's own commands.
func Commands() []Case {
	return slicesConcat(stringCases, expiryCases, zsetCases, zrangeCases, hashCases, luaCases)
}

func slicesConcat(tables ...[]Case) []Case {
	var all []Case
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

var stringCases = []Case{
	{Name: "SET on a free key", Do: "SET k alice", Want: OK, Left: "k=alice"},
	{Name: "SET drops the TTL", Given: "SET k a PX 10000", Do: "SET k b", Want: OK, Left: "k=b"},
	{Name: "SET KEEPTTL keeps it", Given: "SET k a PX 10000", Do: "SET k b KEEPTTL", Want: OK, Left: "k=b 10s"},
	{Name: "SET NX PX on a free key", Do: "SET k alice NX PX 10000", Want: OK, Left: "k=alice 10s"},
	{Name: "SET PX NX, the other order", Do: "SET k alice PX 10000 NX", Want: OK, Left: "k=alice 10s"},
	{
		Name: "SET NX on a taken key", Given: "SET k bob PX 20000",
		Do: "SET k alice NX PX 10000", Want: nil, Left: "k=bob 20s",
	},
	{
		Name: "SET NX after expiry", Given: "SET k bob PX 100", After: 150 * time.Millisecond,
		Do: "SET k alice NX PX 10000", Want: OK, Left: "k=alice 10s",
	},
	{Name: "SET NX on a sorted set", Given: "ZADD k 1 a", Do: "SET k alice NX PX 10000", Want: nil, Left: "k=[a:1]"},
	{Name: "SET NX GET on a free key", Do: "SET k alice NX GET PX 10000", Want: nil, Left: "k=alice 10s"},
	{Name: "SET NX GET on a taken key", Given: "SET k bob", Do: "SET k alice NX GET PX 10000", Want: "bob", Left: "k=bob"},
	{Name: "SET GET on a sorted set", Given: "ZADD k 1 a", Do: "SET k alice GET", Want: Err("WRONGTYPE"), Left: "k=[a:1]"},
	{Name: "SET over a sorted set", Given: "ZADD k 1 a", Do: "SET k alice", Want: OK, Left: "k=alice"},
	{Name: "SET XX on a free key", Do: "SET k alice XX PX 10000", Want: nil, Left: ""},
	{Name: "SET XX on a taken key", Given: "SET k bob", Do: "SET k alice XX PX 10000", Want: OK, Left: "k=alice 10s"},
	{Name: "SET EX", Do: "SET k alice EX 10", Want: OK, Left: "k=alice 10s"},
	{Name: "SET PX 0", Do: "SET k alice PX 0", Want: Err("ERR invalid expire time in 'set' command"), Left: ""},
	{Name: "SET PX negative", Do: "SET k alice PX -5", Want: Err("ERR invalid expire time"), Left: ""},
	{
		Name: "SET PX not a number",
		Do:   "SET k alice PX ten", Want: Err("ERR value is not an integer or out of range"), Left: "",
	},
	{Name: "SET PX fraction", Do: "SET k alice PX 10.5", Want: Err("ERR value is not an integer"), Left: ""},
	{Name: "SET PX without number", Do: "SET k alice PX", Want: Err("ERR syntax error"), Left: ""},
	{Name: "SET NX XX", Do: "SET k alice NX XX", Want: Err("ERR syntax error"), Left: ""},
	{Name: "SET PX and EX", Do: "SET k alice PX 1 EX 1", Want: Err("ERR syntax error"), Left: ""},
	{Name: "SET unknown option", Do: "SET k alice FOO", Want: Err("ERR syntax error"), Left: ""},
	{Name: "SET PXAT in the past", Do: "SET k alice PXAT 1000", Want: OK, Left: ""},
	{Name: "SET without value", Do: "SET k", Want: Err("ERR wrong number of arguments for 'set' command"), Left: ""},
	{Name: "SETNX", Given: "SET k bob", Do: "SETNX k alice", Want: 0, Left: "k=bob"},
	{Name: "GET of nothing", Do: "GET k", Want: nil, Left: ""},
	{Name: "GET", Given: "SET k alice", Do: "GET k", Want: "alice", Left: "k=alice"},
	{Name: "GET of a sorted set", Given: "ZADD k 1 a", Do: "GET k", Want: Err("WRONGTYPE"), Left: "k=[a:1]"},
	{
		Name: "MGET", Given: "SET k alice; ZADD z 1 a",
		Do: "MGET k nothing z", Want: []any{"alice", nil, nil}, Left: "k=alice; z=[a:1]",
	},
	{Name: "GETDEL", Given: "SET k alice", Do: "GETDEL k", Want: "alice", Left: ""},
	{Name: "DEL counts", Given: "SET k alice; ZADD z 1 a", Do: "DEL k nothing z", Want: 2, Left: ""},
	{Name: "EXISTS counts twice", Given: "SET k alice", Do: "EXISTS k k nothing", Want: 2, Left: "k=alice"},
	{Name: "TYPE of nothing", Do: "TYPE k", Want: Status("none"), Left: ""},
	{Name: "TYPE of a sorted set", Given: "ZADD k 1 a", Do: "TYPE k", Want: Status("zset"), Left: "k=[a:1]"},
	{Name: "INCR from nothing", Do: "INCR k", Want: 1, Left: "k=1"},
	{Name: "INCR keeps the TTL", Given: "SET k 41 PX 10000", Do: "INCR k", Want: 42, Left: "k=42 10s"},
	{
		Name: "INCR of a word", Given: "SET k alice",
		Do: "INCR k", Want: Err("ERR value is not an integer or out of range"), Left: "k=alice",
	},
	{
		Name: "INCR at the end", Given: "SET k 9223372036854775807",
		Do: "INCR k", Want: Err("ERR increment or decrement would overflow"), Left: "k=9223372036854775807",
	},
	{Name: "INCRBY", Given: "SET k 40", Do: "INCRBY k 2", Want: 42, Left: "k=42"},
	{Name: "PING", Do: "PING", Want: Status("PONG"), Left: ""},
	{Name: "PING with a word", Do: "PING hello", Want: "hello", Left: ""},
	{Name: "unknown command", Do: "NOSUCH a", Want: Err("ERR unknown command"), Left: ""},
	{Name: "PUBLISH to nobody", Do: "PUBLISH c hello", Want: 0, Left: ""},
	{Name: "SELECT out of range", Do: "SELECT 99", Want: Err("ERR DB index is out of range"), Left: ""},
	{Name: "FLUSHALL", Given: "SET k alice", Do: "FLUSHALL", Want: OK, Left: ""},
}

var expiryCases = []Case{
	{Name: "PTTL of nothing", Do: "PTTL k", Want: -2, Left: ""},
	{Name: "PTTL without expiry", Given: "SET k alice", Do: "PTTL k", Want: -1, Left: "k=alice"},
	{Name: "PTTL", Given: "SET k alice PX 10000", Do: "PTTL k", Want: TTL(10 * time.Second), Left: "k=alice 10s"},
	{
		Name: "PTTL goes down", Given: "SET k alice PX 10000", After: 1100 * time.Millisecond,
		Do: "PTTL k", Want: TTL(8900 * time.Millisecond), Left: "k=alice 9s",
	},
	{
		Name: "PTTL after expiry", Given: "SET k alice PX 100", After: 150 * time.Millisecond,
		Do: "PTTL k", Want: -2, Left: "",
	},
	{Name: "PEXPIRE of nothing", Do: "PEXPIRE k 10000", Want: 0, Left: ""},
	{Name: "PEXPIRE", Given: "SET k alice PX 5000", Do: "PEXPIRE k 10000", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE shortens", Given: "SET k alice PX 50000", Do: "PEXPIRE k 10000", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE 0 deletes", Given: "SET k alice", Do: "PEXPIRE k 0", Want: 1, Left: ""},
	{Name: "PEXPIRE negative deletes", Given: "SET k alice", Do: "PEXPIRE k -1", Want: 1, Left: ""},
	{
		Name: "PEXPIRE not a number", Given: "SET k alice",
		Do: "PEXPIRE k ten", Want: Err("ERR value is not an integer or out of range"), Left: "k=alice",
	},
	{Name: "PEXPIRE GT, later", Given: "SET k alice PX 5000", Do: "PEXPIRE k 10000 GT", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE GT, earlier", Given: "SET k alice PX 20000", Do: "PEXPIRE k 10000 GT", Want: 0, Left: "k=alice 20s"},
	{Name: "PEXPIRE GT without expiry", Given: "SET k alice", Do: "PEXPIRE k 10000 GT", Want: 0, Left: "k=alice"},
	{Name: "PEXPIRE LT, earlier", Given: "SET k alice PX 20000", Do: "PEXPIRE k 10000 LT", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE LT, later", Given: "SET k alice PX 5000", Do: "PEXPIRE k 10000 LT", Want: 0, Left: "k=alice 5s"},
	{Name: "PEXPIRE LT without expiry", Given: "SET k alice", Do: "PEXPIRE k 10000 LT", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE NX without expiry", Given: "SET k alice", Do: "PEXPIRE k 10000 NX", Want: 1, Left: "k=alice 10s"},
	{Name: "PEXPIRE NX with expiry", Given: "SET k alice PX 5000", Do: "PEXPIRE k 10000 NX", Want: 0, Left: "k=alice 5s"},
	{Name: "PEXPIRE XX without expiry", Given: "SET k alice", Do: "PEXPIRE k 10000 XX", Want: 0, Left: "k=alice"},
	{Name: "PEXPIRE XX with expiry", Given: "SET k alice PX 5000", Do: "PEXPIRE k 10000 XX", Want: 1, Left: "k=alice 10s"},
	{
		Name: "PEXPIRE NX GT", Given: "SET k alice",
		Do: "PEXPIRE k 10000 NX GT", Want: Err("ERR NX and XX, GT or LT options"), Left: "k=alice",
	},
	{Name: "PEXPIRE on a sorted set", Given: "ZADD z 1 a", Do: "PEXPIRE z 10000", Want: 1, Left: "z=[a:1] 10s"},
	{Name: "EXPIRE", Given: "SET k alice", Do: "EXPIRE k 10", Want: 1, Left: "k=alice 10s"},
	{Name: "TTL", Given: "SET k alice PX 10400", Do: "TTL k", Want: 10, Left: "k=alice 11s"},
	{Name: "PERSIST", Given: "SET k alice PX 10000", Do: "PERSIST k", Want: 1, Left: "k=alice"},
	{Name: "PERSIST without expiry", Given: "SET k alice", Do: "PERSIST k", Want: 0, Left: "k=alice"},
	{Name: "PERSIST of nothing", Do: "PERSIST k", Want: 0, Left: ""},
	{
		Name: "expired keys do not exist", Given: "SET k alice PX 100", After: 150 * time.Millisecond,
		Do: "EXISTS k", Want: 0, Left: "",
	},
	{Name: "ZADD keeps the TTL", Given: "ZADD z 1 a; PEXPIRE z 10000", Do: "ZADD z 2 b", Want: 1, Left: "z=[a:1 b:2] 10s"},
}
