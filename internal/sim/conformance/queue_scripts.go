package conformance

import "time"

// Owners with the length of real ones, in the order in which they began to wait, and their places in a queue: owner,
// token, TTL, channel.
const (
	ann = "aaaaaaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa"
	bob = "bbbbbbbb-bbbb-7bbb-8bbb-bbbbbbbbbbbb"

	annWaits = ann + " 0000000000000006 0000000010000 ch"
	bobWaits = bob + " 0000000000000007 0000000020000 ch"
	annGone  = ann + " 0000000000000005 0000000010000 nobody"

	waiting = "; r:waiting=<n> 30s" // as given
	asked   = "; r:waiting=<n> 10s" // as made by who asks with a TTL of 10 s
)

var releaseCases = []Case{
	{Name: "release ours", Given: "SET n alice PX 10000", Do: "@release n r:tokens | alice", Want: 1, Left: ""},
	{Name: "release nobody's", Do: "@release n r:tokens | alice", Want: []any{0}, Left: ""},
	{
		Name: "release another's", Given: "SET n bob PX 10000",
		Do: "@release n r:tokens | alice", Want: []any{2}, Left: "n=bob 10s",
	},
	{
		Name: "release twice", Given: "SET n alice PX 10000; @release n r:tokens | alice",
		Do: "@release n r:tokens | alice", Want: []any{0}, Left: "",
	},
	{
		Name: "release a prefix of the owner", Given: "SET n alice-2 PX 10000",
		Do: "@release n r:tokens | alice", Want: []any{2}, Left: "n=alice-2 10s",
	},
	{
		Name: "release what has expired", Given: "SET n alice PX 100", After: 150 * time.Millisecond,
		Do: "@release n r:tokens | alice", Want: []any{0}, Left: "",
	},
	{
		Name: "release where a hash is", Given: "HSET n f v",
		Do: "@release n r:tokens | alice", Want: []any{0}, Left: "n={f:v}",
	},
	{
		Name: "release two", Given: "SET n alice PX 10000; SET m bert PX 10000",
		Do: "@release n m r:tokens | 'alice bert'", Want: 2, Left: "",
	},
	{
		Name: "release two, one another's", Given: "SET n alice PX 10000; SET m bob PX 10000",
		Do: "@release n m r:tokens | 'alice alice'", Want: []any{1, 2}, Left: "m=bob 10s",
	},
	{
		Name: "release two, one nobody's", Given: "SET m bert PX 10000",
		Do: "@release n m r:tokens | 'alice bert'", Want: []any{0, 1}, Left: "",
	},
	{
		Name: "release two, the owners the other way round", Given: "SET n bert PX 10000; SET m alice PX 10000",
		Do: "@release n m r:tokens | 'alice bert'", Want: []any{2, 2}, Left: "m=alice 10s; n=bert 10s",
	},
	{
		Name:  "release two, one with a place",
		Given: "SET m alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do:    "@release n m r:tokens | '" + ann + " alice' '" + annWaits + "' ''", Want: []any{0, 1}, Left: "",
	},
	{
		Name: "release leaves the token", Given: "SET n alice PX 10000; ZADD r:tokens 5 n",
		Do: "@release n r:tokens | alice", Want: 1, Left: "r:tokens=[n:5]",
	},
	{
		Name: "release after an extension", Given: "SET n alice PX 10000; ZADD r:tokens 1763700000000001 n",
		Do: "@release n r:tokens | alice '' 1763700000000001.5", Want: 1, Left: "r:tokens=[n:1763700000000001.5]",
	},
	{
		Name: "release after an extension, nobody's",
		Do:   "@release n r:tokens | alice '' 5.5", Want: []any{0}, Left: "r:tokens=[n:5.5]",
	},
	{
		Name: "release after an extension, another's", Given: "SET n bob PX 10000; ZADD r:tokens 4 n",
		Do: "@release n r:tokens | alice '' 5.5", Want: []any{2}, Left: "n=bob 10s; r:tokens=[n:4]",
	},
	{
		Name:  "release two, one after an extension",
		Given: "SET n alice PX 10000; SET m bert PX 10000; ZADD r:tokens 5 n 6 m",
		Do:    "@release n m r:tokens | 'alice bert' '' '' '' 6.5", Want: 2, Left: "r:tokens=[n:5 m:6.5]",
	},
	{
		Name:  "extend behind the release",
		Given: "SET n alice PX 10000; ZADD r:tokens 1763700000000001 n; @release n r:tokens | alice '' 1763700000000001.5",
		Do:    "@extend n r:tokens | alice 10000 1763700000000001", Want: []any{0}, Left: "r:tokens=[n:1763700000000001.5]",
	},
	{
		Name:  "acquire the next number behind the release",
		Given: "SET n alice PX 10000; ZADD r:tokens 1763700000000001 n; @release n r:tokens | alice '' 1763700000000001.5",
		Do:    "@acquire n r:tokens | bob 1763700000000002 n 10000", Want: 1,
		Left: "n=bob 10s; r:tokens=[n:1763700000000002]",
	},

	{
		Name: "release hands over", Heard: "ch",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do:    "@release n r:tokens | alice", Want: 1, Left: "n=" + ann + " 10s; r:tokens=[n:6]",
	},
	{
		Name: "release hands over to the oldest", Heard: "ch",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + bobWaits + "' 0 '" + annWaits +
			"'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do: "@release n r:tokens | alice", Want: 1,
		Left: "n=" + ann + " 10s; r:tokens=[n:6]; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name: "release passes over who is gone", Heard: "ch",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + bobWaits + "' 0 '" + annGone +
			"'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do: "@release n r:tokens | alice", Want: 1, Left: "n=" + bob + " 20s; r:tokens=[n:7]",
	},
	{
		Name:  "release deletes where all are gone",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do:    "@release n r:tokens | alice", Want: 1, Left: "r:tokens=[n:6]",
	},
	{
		Name: "release hands over, larger token known", Heard: "ch",
		Given: "SET n alice PX 5000; ZADD r:tokens 9 n; ZADD r:wait:n 0 '" + annWaits +
			"'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do: "@release n r:tokens | alice", Want: 1, Left: "n=" + ann + " 10s; r:tokens=[n:9]",
	},
	{
		Name: "release looks for no queue without the mark", Heard: "ch",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'",
		Do:    "@release n r:tokens | alice", Want: 1, Left: "r:wait:n=[" + annWaits + ":0]",
	},
	{
		Name:  "release leaves the queue",
		Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do:    "@release n r:tokens | " + ann + " '" + annWaits + "'", Want: []any{2}, Left: "n=alice 5s",
	},
	{
		Name: "release another's hands nothing over", Heard: "ch",
		Given: "SET n bert PX 5000; ZADD r:wait:n 0 '" + annWaits + "'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do:    "@release n r:tokens | alice", Want: []any{2}, Left: "n=bert 5s; r:wait:n=[" + annWaits + ":0]" + waiting,
	},
	{
		Name: "release of a place that holds hands on", Heard: "ch",
		Given: "SET n " + ann + " PX 5000; ZADD r:wait:n 0 '" + annWaits + "' 0 '" + bobWaits +
			"'; SADD r:waiting n; PEXPIRE r:waiting 30000",
		Do: "@release n r:tokens | " + ann + " '" + annWaits + "'", Want: 1, Left: "n=" + bob + " 20s; r:tokens=[n:7]",
	},
}

var enqueueCases = []Case{
	{
		Name: "enqueue for a free lock",
		Do:   "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'", Want: 1,
		Left: "n=" + bob + " 10s; r:tokens=[n:5]",
	},
	{
		Name: "enqueue for a free lock, without tokens",
		Do:   "@enqueue n r:tokens | " + bob + " 10000 '' '" + bobWaits + "'", Want: 1, Left: "n=" + bob + " 10s",
	},
	{
		Name: "enqueue for a free lock, larger token known", Given: "ZADD r:tokens 9 n",
		Do: "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'", Want: []any{[]any{2, "9"}},
		Left: "n=" + bob + " 10s; r:tokens=[n:9]",
	},
	{
		Name: "enqueue where a list is, behind an older one", Heard: "ch",
		Given: "RPUSH n v; ZADD r:wait:n 0 '" + annWaits + "'",
		Do:    "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'", Want: []any{[]any{0, "", -1, 1}},
		Left: "n=(v); r:wait:n=[" + annWaits + ":0 " + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue for a taken lock", Given: "SET n alice PX 5000",
		Do:   "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'",
		Want: []any{[]any{0, "alice", TTL(5 * time.Second), 0}},
		Left: "n=alice 5s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue behind an older one", Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + annWaits + "'",
		Do:   "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'",
		Want: []any{[]any{0, "alice", TTL(5 * time.Second), 1}},
		Left: "n=alice 5s; r:wait:n=[" + annWaits + ":0 " + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue again", Given: "SET n alice PX 5000; ZADD r:wait:n 0 '" + bobWaits + "'",
		Do:   "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'",
		Want: []any{[]any{0, "alice", TTL(5 * time.Second), 0}},
		Left: "n=alice 5s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name:  "enqueue for what was handed over to us",
		Given: "SET n " + bob + " PX 5000; ZADD r:wait:n 0 '" + bobWaits + "'",
		Do:    "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'", Want: 1,
		Left: "n=" + bob + " 10s; r:tokens=[n:7]",
	},
	{
		Name: "enqueue for a free lock behind an older one who hears", Heard: "ch",
		Given: "ZADD r:wait:n 0 '" + annWaits + "'",
		Do:    "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'",
		Want:  []any{[]any{0, ann, TTL(10 * time.Second), 0}},
		Left:  "n=" + ann + " 10s; r:tokens=[n:6]; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue for a free lock behind an older one who is gone", Given: "ZADD r:wait:n 0 '" + annWaits + "'",
		Do: "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'", Want: 1,
		Left: "n=" + bob + " 10s; r:tokens=[n:7]",
	},
	{
		Name: "enqueue for a free lock before a younger one", Heard: "ch", Given: "ZADD r:wait:n 0 '" + bobWaits + "'",
		Do: "@enqueue n r:tokens | " + ann + " 10000 5 '" + annWaits + "'", Want: 1,
		Left: "n=" + ann + " 10s; r:tokens=[n:5]; r:wait:n=[" + bobWaits + ":0]",
	},
	{
		Name: "enqueue where a hash is", Given: "HSET n f v",
		Do: "@enqueue n r:tokens | " + bob + " 10000 5 '" + bobWaits + "'", Want: []any{[]any{0, "", -1, 0}},
		Left: "n={f:v}; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
}
