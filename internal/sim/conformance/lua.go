package conformance

import "time"

var luaCases = []Case{
	{Name: "EVAL integer", Do: "EVAL 'return 42' 0", Want: 42, Left: ""},
	{Name: "EVAL fraction is cut", Do: "EVAL 'return 3.99' 0", Want: 3, Left: ""},
	{Name: "EVAL negative fraction", Do: "EVAL 'return -3.99' 0", Want: -3, Left: ""},
	{Name: "EVAL string", Do: `EVAL 'return "x"' 0`, Want: "x", Left: ""},
	{Name: "EVAL nil", Do: "EVAL 'return nil' 0", Want: nil, Left: ""},
	{Name: "EVAL nothing", Do: "EVAL 'local a = 1' 0", Want: nil, Left: ""},
	{Name: "EVAL true", Do: "EVAL 'return true' 0", Want: 1, Left: ""},
	{Name: "EVAL false", Do: "EVAL 'return false' 0", Want: nil, Left: ""},
	{
		Name: "EVAL table",
		Do:   `EVAL 'return {1, 2.5, "x", {true, false}}' 0`, Want: []any{1, 2, "x", []any{1, nil}}, Left: "",
	},
	{Name: "EVAL table to the first nil", Do: "EVAL 'return {1, nil, 3}' 0", Want: []any{1}, Left: ""},
	{Name: "EVAL empty table", Do: "EVAL 'return {}' 0", Want: []any{}, Left: ""},
	{Name: "EVAL table of names", Do: "EVAL 'return {a = 1}' 0", Want: []any{}, Left: ""},
	{Name: "EVAL ok", Do: `EVAL 'return {ok = "FINE"}' 0`, Want: Status("FINE"), Left: ""},
	{Name: "EVAL err", Do: `EVAL 'return {err = "MINE oh no"}' 0`, Want: Err("MINE oh no"), Left: ""},
	{Name: "EVAL status_reply", Do: `EVAL 'return redis.status_reply("FINE")' 0`, Want: Status("FINE"), Left: ""},
	{Name: "EVAL error_reply", Do: `EVAL 'return redis.error_reply("MINE oh no")' 0`, Want: Err("MINE oh no"), Left: ""},
	{Name: "EVAL error_reply of one word", Do: `EVAL 'return redis.error_reply("oh")' 0`, Want: Err("ERR oh"), Left: ""},
	{
		Name: "EVAL KEYS and ARGV",
		Do:   "EVAL 'return {KEYS[1], ARGV[1], #KEYS, #ARGV}' 1 k a b", Want: []any{"k", "a", 1, 2}, Left: "",
	},
	{Name: "EVAL KEYS beyond", Do: "EVAL 'return KEYS[2]' 1 k", Want: nil, Left: ""},
	{Name: "EVAL call status", Do: `EVAL 'return redis.call("SET", KEYS[1], ARGV[1])' 1 k v`, Want: OK, Left: "k=v"},
	{
		Name: "EVAL call status is a table",
		Do:   `EVAL 'return redis.call("SET", KEYS[1], "v").ok' 1 k`, Want: "OK", Left: "k=v",
	},
	{
		Name: "EVAL nil is false",
		Do:   `EVAL 'return {type(redis.call("GET", KEYS[1])), redis.call("GET", KEYS[1]) == false}' 1 k`,
		Want: []any{"boolean", 1}, Left: "",
	},
	{
		Name: "EVAL SET NX taken is false", Given: "SET k bob",
		Do: `EVAL 'if redis.call("SET", KEYS[1], "alice", "NX", "PX", 10000) then return 1 end return 0' 1 k`, Want: 0,
		Left: "k=bob",
	},
	{
		Name: "EVAL SET NX free is true",
		Do:   `EVAL 'if redis.call("SET", KEYS[1], "alice", "NX", "PX", 10000) then return 1 end return 0' 1 k`, Want: 1,
		Left: "k=alice 10s",
	},
	{
		Name: "EVAL SET NX GET free is false",
		Do:   `EVAL 'return tostring(redis.call("SET", KEYS[1], "alice", "NX", "GET", "PX", 10000))' 1 k`, Want: "false",
		Left: "k=alice 10s",
	},
	{
		Name: "EVAL integer reply is a number", Given: "SET k alice",
		Do: `EVAL 'return type(redis.call("DEL", KEYS[1]))' 1 k`, Want: "number", Left: "",
	},
	{
		Name: "EVAL nested reply", Given: "ZADD z 1 a",
		Do: `EVAL 'return redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")' 1 z`, Want: []any{"a", "1"}, Left: "z=[a:1]",
	},
	{
		Name: "EVAL call error leaves the script", Given: "ZADD k 1 a",
		Do: `EVAL 'redis.call("GET", KEYS[1]) return 1' 1 k`, Want: Err("WRONGTYPE"), Left: "k=[a:1]",
	},
	{
		Name: "EVAL pcall error is a table", Given: "ZADD k 1 a",
		Do: `EVAL 'local r = redis.pcall("GET", KEYS[1]) return string.sub(r.err, 1, 9)' 1 k`, Want: "WRONGTYPE",
		Left: "k=[a:1]",
	},
	{
		Name: "EVAL pcall error returned", Given: "ZADD k 1 a",
		Do: `EVAL 'return redis.pcall("GET", KEYS[1])' 1 k`, Want: Err("WRONGTYPE"), Left: "k=[a:1]",
	},
	{
		Name: "EVAL writes before an error stay", Given: "ZADD k 1 a",
		Do: `EVAL 'redis.call("SET", KEYS[2], "x") redis.call("GET", KEYS[1])' 2 k l`, Want: Err("WRONGTYPE"),
		Left: "k=[a:1]; l=x",
	},
	{Name: "EVAL Lua error", Do: `EVAL 'error("boom")' 0`, Want: Err("ERR user_script:1: boom"), Left: ""},
	{Name: "EVAL arithmetic on nil", Do: `EVAL 'return 1 + nil' 0`, Want: Err("ERR"), Left: ""},
	{
		Name: "EVAL unknown command",
		Do:   `EVAL 'return redis.call("NOSUCH")' 0`, Want: Err("ERR Unknown Redis command called from script"), Left: "",
	},
	{
		Name: "EVAL wrong number of arguments",
		Do:   `EVAL 'return redis.call("GET")' 0`, Want: Err("ERR Wrong number of args calling Redis command from script"),
		Left: "",
	},
	{
		Name: "EVAL argument of a wrong type",
		Do:   `EVAL 'return redis.call("GET", {})' 0`,
		Want: Err("ERR Lua redis lib command arguments must be strings or integers"), Left: "",
	},
	{
		Name: "EVAL not allowed from script",
		Do:   `EVAL 'return redis.call("EVAL", "return 1", 0)' 0`,
		Want: Err("ERR This Redis command is not allowed from script"), Left: "",
	},
	{
		Name: "EVAL unknown global",
		Do:   `EVAL 'return nosuch' 0`,
		Want: Err("ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch'"), Left: "",
	},
	{Name: "EVAL writing a global", Do: `EVAL 'nosuch = 1' 0`, Want: Err("ERR"), Left: ""},
	{Name: "EVAL syntax", Do: `EVAL 'return (' 0`, Want: Err("ERR Error compiling script"), Left: ""},
	{
		Name: "EVAL too many keys",
		Do:   `EVAL 'return 1' 2 k`, Want: Err("ERR Number of keys can't be greater than number of args"), Left: "",
	},
	{Name: "EVAL negative keys", Do: `EVAL 'return 1' -1 k`, Want: Err("ERR Number of keys can't be negative"), Left: ""},
	{
		Name: "EVALSHA unknown",
		Do:   "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
		Want: Err("NOSCRIPT No matching script. Please use EVAL."), Left: "",
	},
	{
		Name: "EVALSHA after EVAL", Given: "EVAL 'return 7' 0",
		Do: "EVALSHA 59b6ab2fbe0ee4b25733de0f62e6cda4899ef8e9 0", Want: 7, Left: "",
	},
	{Name: "SCRIPT LOAD", Do: "SCRIPT LOAD 'return 1'", Want: "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", Left: ""},
	{
		Name: "SCRIPT LOAD, then EVALSHA", Given: "SCRIPT LOAD 'return 1'",
		Do: "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", Want: 1, Left: "",
	},
	{
		Name: "EVALSHA in upper case", Given: "SCRIPT LOAD 'return 1'",
		Do: "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", Want: 1, Left: "",
	},
	{
		Name: "SCRIPT FLUSH forgets", Given: "SCRIPT LOAD 'return 1'; SCRIPT FLUSH",
		Do: "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", Want: Err("NOSCRIPT"), Left: "",
	},
	{
		Name: "SCRIPT EXISTS", Given: "SCRIPT FLUSH; SCRIPT LOAD 'return 1'",
		Do:   "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db ffffffffffffffffffffffffffffffffffffffff",
		Want: []any{1, 0}, Left: "",
	},

	// Numbers. A token is near 1.7e15; Lua 5.1 prints 14 digits.
	{Name: "Lua tostring of a token", Do: "EVAL 'return tostring(1763700000000001)' 0", Want: "1.7637e+15", Left: ""},
	{Name: "Lua concatenation of a token", Do: `EVAL 'return "" .. 1763700000000001' 0`, Want: "1.7637e+15", Left: ""},
	{
		Name: "Lua concatenation of a sum",
		Do:   `EVAL 'local a = tonumber(ARGV[1]) return "t" .. a + 1 .. "!"' 0 1763700000000001`, Want: "t1.7637e+15!",
		Left: "",
	},
	{
		Name: "Lua table.concat of a token",
		Do:   `EVAL 'return table.concat({1763700000000001, "x"}, ",")' 0`, Want: "1.7637e+15,x", Left: "",
	},
	{Name: "Lua %s of a token", Do: `EVAL 'return string.format("%s", 1763700000000001)' 0`, Want: "1.7637e+15", Left: ""},
	{
		Name: "Lua %.0f of a token",
		Do:   `EVAL 'return string.format("%.0f", 1763700000000001)' 0`, Want: "1763700000000001", Left: "",
	},
	{
		Name: "Lua %d of a token",
		Do:   `EVAL 'return string.format("%d", 1763700000000001)' 0`, Want: "1763700000000001", Left: "",
	},
	{Name: "Lua token as a reply", Do: "EVAL 'return 1763700000000001' 0", Want: 1763700000000001, Left: ""},
	{
		Name: "Lua token as a command's argument",
		Do:   `EVAL 'return redis.call("SET", KEYS[1], 1763700000000001)' 1 k`, Want: OK, Left: "k=1763700000000001",
	},
	{
		Name: "Lua token plus one as a score", Given: "ZADD z 1763700000000001 a",
		Do: `EVAL 'redis.call("ZADD", KEYS[1], redis.call("ZSCORE", KEYS[1], "a") + 1, "a") ` +
			`return redis.call("ZSCORE", KEYS[1], "a")' 1 z`,
		Want: "1763700000000002", Left: "z=[a:1763700000000002]",
	},
	{
		Name: "Lua small integers print plainly",
		Do:   `EVAL 'return 99999999999999 .. " " .. 0.5 .. " " .. 1e100' 0`, Want: "99999999999999 0.5 1e+100", Left: "",
	},
	{
		Name: "Lua tonumber of a score", Given: "ZADD z 1763700000000001 a",
		Do: `EVAL 'return tonumber(redis.call("ZSCORE", KEYS[1], "a")) == 1763700000000001' 1 z`, Want: 1,
		Left: "z=[a:1763700000000001]",
	},
	{Name: "Lua comparison of strings is by bytes", Do: `EVAL 'return "10" < "9"' 0`, Want: 1, Left: ""},
	{Name: "Lua TIME", Do: `EVAL 'local t = redis.call("TIME") return #t' 0`, Want: 2, Left: ""},
	{Name: "Lua math.max", Do: `EVAL 'return math.max(3, 7, 5)' 0`, Want: 7, Left: ""},
	{
		Name: "Lua string.sub and find",
		Do:   `EVAL 'return {string.sub("alice", 2, 3), string.find("a:b", ":", 1, true)}' 0`, Want: []any{"li", 2, 2},
		Left: "",
	},
	{Name: "Lua string.match", Do: `EVAL 'return string.match("12:alice", "^(%d+):")' 0`, Want: "12", Left: ""},
	{
		Name: "Lua unpack into a call", Given: "SET a 1; SET b 2",
		Do: `EVAL 'return redis.call("DEL", unpack(KEYS))' 2 a b`, Want: 2, Left: "",
	},
	{
		Name: "Lua sha1hex",
		Do:   `EVAL 'return redis.sha1hex("")' 0`, Want: "da39a3ee5e6b4b0d3255bfef95601890afd80709", Left: "",
	},
	{
		Name: "Lua expiry within a script",
		Do:   `EVAL 'redis.call("SET", KEYS[1], "v", "PX", 10000) return redis.call("PTTL", KEYS[1])' 1 k`,
		Want: TTL(10 * time.Second), Left: "k=v 10s",
	},
}
