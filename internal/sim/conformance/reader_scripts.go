package conformance

import (
	"strings"
	"time"
)

const (
	cat = "cccccccc-cccc-7ccc-8ccc-cccccccccccc"

	// Who waits to read.
	annReads = ann + " reading--------- 0000000010000 ch"
	bobReads = bob + " reading--------- 0000000020000 ch"
	catReads = cat + " reading--------- 0000000010000 ch"
	catWaits = cat + " 0000000000000008 0000000010000 ch"
	bobGone  = bob + " reading--------- 0000000020000 nobody"
	annAway  = ann + " reading--------- 0000000010000 nobody"

	// Ann reads, for 5 s more.
	annIn = "SET n readers PX 5000; ZADD r:read:n now+5000 " + ann + "; PEXPIRE r:read:n 5000"
	// Her entry was deleted.
	annLost = "SET n readers PX 4500"
	// A writer has asked not to be passed by.
	claimed = "; ZADD r:read:n now+5000 writer"
	mark    = "; SADD r:waiting n; PEXPIRE r:waiting 30000"
)

// waits puts members into the queue.
func waits(members ...string) string {
	return "; ZADD r:wait:n 0 '" + strings.Join(members, "' 0 '") + "'" + mark
}

var readCases = []Case{
	{
		Name: "read what is nobody's",
		Do:   "@read n r:tokens | " + ann + " 10000 ''", Want: 1, Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "read, knowing of a token", Given: "ZADD r:tokens 5 n",
		Do: "@read n r:tokens | " + ann + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s; r:tokens=[n:5]",
	},
	{
		Name: "read beside another", Given: annIn,
		Do: "@read n r:tokens | " + bob + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s " + bob + ":10s] 10s",
	},
	{
		Name: "read beside another with a longer lease", Given: annIn,
		Do: "@read n r:tokens | " + bob + " 2000 ''", Want: 1,
		Left: "n=readers 5s; r:read:n=[" + bob + ":2s " + ann + ":5s] 5s",
	},
	{
		Name: "read again", Given: annIn,
		Do: "@read n r:tokens | " + ann + " 10000 ''", Want: 1, Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "read what a writer has", Given: "SET n alice PX 5000",
		Do: "@read n r:tokens | " + ann + " 10000 ''", Want: []any{[]any{0, "alice", TTL(5 * time.Second)}},
		Left: "n=alice 5s",
	},
	{
		Name: "read where a hash is", Given: "HSET n f v",
		Do: "@read n r:tokens | " + ann + " 10000 ''", Want: []any{[]any{0, "", -1}}, Left: "n={f:v}",
	},
	{
		Name: "read two", Given: annIn,
		Do: "@read n m r:tokens | " + bob + " 10000 '' " + cat + " 20000 ''", Want: 2,
		Left: "m=readers 20s; n=readers 10s; r:read:m=[" + cat + ":20s] 20s; r:read:n=[" + ann + ":5s " + bob + ":10s] 10s",
	},
	{
		Name: "read two, one a writer's", Given: "SET m alice PX 5000",
		Do:   "@read n m r:tokens | " + bob + " 10000 '' " + bob + " 20000 ''",
		Want: []any{[]any{1}, []any{0, "alice", TTL(5 * time.Second)}},
		Left: "m=alice 5s; n=readers 10s; r:read:n=[" + bob + ":10s] 10s",
	},
	{
		Name:  "read drops leases that have ended",
		Given: "SET n readers PX 5000; ZADD r:read:n now-1 " + ann + " now+5000 " + bob,
		Do:    "@read n r:tokens | " + cat + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + bob + ":5s " + cat + ":10s] 10s",
	},
	{
		Name: "readers keep a writer out", Given: annIn,
		Do: "@acquire n t | alice 5 n 10000", Want: []any{[]any{0, "readers", TTL(5 * time.Second)}},
		Left: "n=readers 5s; r:read:n=[" + ann + ":5s] 5s",
	},
	{
		Name: "readers keep a foreign client out", Given: annIn,
		Do: "SET n foreign NX PX 10000", Want: nil, Left: "n=readers 5s; r:read:n=[" + ann + ":5s] 5s",
	},

	// What an administrator, a FLUSHALL or an expiry leaves.
	{
		Name: "read where the key was deleted begins anew", Given: annIn + "; DEL n",
		Do: "@read n r:tokens | " + bob + " 2000 ''", Want: 1, Left: "n=readers 2s; r:read:n=[" + bob + ":2s] 2s",
	},
	{
		Name: "read where the set was deleted remembers that others read", Given: annLost,
		Do: "@read n r:tokens | " + bob + " 2000 ''", Want: 1, Left: "n=readers 5s; r:read:n=[" + bob + ":2s unknown:5s] 5s",
	},
	{
		Name: "read after everything was flushed", Given: annIn + "; FLUSHALL",
		Do: "@read n r:tokens | " + bob + " 2000 ''", Want: 1, Left: "n=readers 2s; r:read:n=[" + bob + ":2s] 2s",
	},

	// The queue.
	{
		Name: "read does not pass a writer by", Given: annIn + waits(bobWaits) + claimed,
		Do: "@read n r:tokens | " + cat + " 10000 ''", Want: []any{[]any{0, "readers", TTL(5 * time.Second)}},
		Left: "n=readers 5s; r:read:n=[" + ann + ":5s writer:5s] 5s; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name:  "read passes by a writer that does not ask any more",
		Given: annIn + waits(bobWaits) + "; ZADD r:read:n now-1 writer",
		Do:    "@read n r:tokens | " + cat + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s " + cat + ":10s] 10s; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name: "read after the claim of a writer that has given up", Given: annIn + claimed,
		Do: "@read n r:tokens | " + cat + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s writer:5s " + cat + ":10s] 10s",
	},
	{
		Name: "read queues behind a writer", Given: annIn + waits(bobWaits) + claimed,
		Do:   "@read n r:tokens | " + cat + " 10000 '" + catReads + "'",
		Want: []any{[]any{0, "readers", TTL(5 * time.Second), 1}},
		Left: "n=readers 5s; r:read:n=[" + ann + ":5s writer:5s] 5s; r:wait:n=[" + bobWaits + ":0 " + catReads + ":0] 10s" +
			waiting,
	},
	{
		Name: "read queues for what a writer has", Given: "SET n alice PX 5000",
		Do:   "@read n r:tokens | " + ann + " 10000 '" + annReads + "'",
		Want: []any{[]any{0, "alice", TTL(5 * time.Second), 0}},
		Left: "n=alice 5s; r:wait:n=[" + annReads + ":0] 10s" + asked,
	},
	{
		Name: "read before a writer that came later", Given: annIn + waits(bobReads, catWaits) + claimed,
		Do: "@read n r:tokens | " + bob + " 10000 '" + bobReads + "'", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s writer:5s " + bob + ":10s] 10s; r:wait:n=[" + catWaits + ":0]" +
			waiting,
	},
	{
		Name: "read what was handed over to us", Given: annIn + waits(catWaits) + claimed,
		Do: "@read n r:tokens | " + ann + " 10000 '" + annReads + "'", Want: 1,
		Left: "n=readers 10s; r:read:n=[writer:5s " + ann + ":10s] 10s; r:wait:n=[" + catWaits + ":0]" + waiting,
	},
	{
		Name: "read lets in who waits to read before us", Heard: "ch", Given: annIn + waits(bobReads),
		Do: "@read n r:tokens | " + cat + " 10000 ''", Want: 1,
		Left: "n=readers 20s; r:read:n=[" + ann + ":5s " + cat + ":10s " + bob + ":20s] 20s",
	},
	{
		Name: "read of a free lock after a writer who hears", Heard: "ch", Given: "SET n x; DEL n" + waits(bobWaits),
		Do: "@read n r:tokens | " + cat + " 10000 ''", Want: []any{[]any{0, bob, TTL(20 * time.Second)}},
		Left: "n=" + bob + " 20s; r:tokens=[n:7]",
	},
	{
		Name: "read of a free lock after a writer who is gone", Given: "SET n x; DEL n" + waits(bobWaits),
		Do: "@read n r:tokens | " + cat + " 10000 ''", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + cat + ":10s] 10s; r:tokens=[n:7]",
	},
	{
		Name: "read of a free lock before a writer that came later", Heard: "ch", Given: "SET n x; DEL n" + waits(bobWaits),
		Do: "@read n r:tokens | " + ann + " 10000 '" + annReads + "'", Want: 1,
		Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name: "read of a free lock after readers and before a writer", Heard: "ch",
		Given: "SET n x; DEL n" + waits(annReads, catWaits),
		Do:    "@read n r:tokens | " + bob + " 20000 '" + bobReads + "'", Want: 1,
		Left: "n=readers 20s; r:read:n=[" + ann + ":10s writer:10s " + bob + ":20s] 20s; r:wait:n=[" + catWaits + ":0]" +
			waiting,
	},

	// What other scripts do with readers.
	{
		Name: "release hands over to all readers up to the next writer", Heard: "ch",
		Given: "SET n alice PX 5000" + waits(annReads, bobReads, catWaits),
		Do:    "@release n r:tokens | alice", Want: 1,
		Left: "n=readers 20s; r:read:n=[" + ann + ":10s writer:10s " + bob + ":20s] 20s; r:wait:n=[" + catWaits + ":0]" +
			waiting,
	},
	{
		Name: "release passes over a reader who is gone", Heard: "ch",
		Given: "SET n alice PX 5000" + waits(annReads, bobGone, catReads),
		Do:    "@release n r:tokens | alice", Want: 1, Left: "n=readers 10s; r:read:n=[" + ann + ":10s " + cat + ":10s] 10s",
	},
	{
		Name: "release passes over readers who are gone to a writer", Heard: "ch",
		Given: "SET n alice PX 5000" + waits(annAway, bobGone, catWaits),
		Do:    "@release n r:tokens | alice", Want: 1, Left: "n=" + cat + " 10s; r:tokens=[n:8]",
	},
	{
		Name: "release hands over to a writer before readers", Heard: "ch",
		Given: "SET n alice PX 5000" + waits(annWaits, bobReads),
		Do:    "@release n r:tokens | alice", Want: 1,
		Left: "n=" + ann + " 10s; r:tokens=[n:6]; r:wait:n=[" + bobReads + ":0]" + waiting,
	},
	{
		Name: "release hands over to readers, and a deleted key's set is void", Heard: "ch",
		Given: "ZADD r:read:n now+9000 " + cat + "; SET n alice PX 5000" + waits(annReads),
		Do:    "@release n r:tokens | alice", Want: 1, Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "enqueue claims not to be passed by", Given: annIn,
		Do:   "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'",
		Want: []any{[]any{0, "readers", TTL(5 * time.Second), 0}},
		Left: "n=readers 5s; r:read:n=[" + ann + ":5s writer:10s] 5s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue does not shorten another's claim", Given: annIn + claimed,
		Do:   "@enqueue n r:tokens | " + bob + " 1000 7 '" + bobWaits + "'",
		Want: []any{[]any{0, "readers", TTL(5 * time.Second), 0}},
		Left: "n=readers 5s; r:read:n=[" + ann + ":5s writer:5s] 5s; r:wait:n=[" + bobWaits + ":0] 1s; r:waiting=<n> 1s",
	},
	{
		Name: "enqueue where the readers' set was deleted remembers that they read", Given: annLost,
		Do:   "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'",
		Want: []any{[]any{0, "readers", TTL(5 * time.Second), 0}},
		Left: "n=readers 5s; r:read:n=[unknown:5s writer:10s] 5s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue where the readers' leases have ended", Given: "SET n readers PX 5000; ZADD r:read:n now-1 " + ann,
		Do:   "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'",
		Want: []any{[]any{0, "readers", TTL(5 * time.Second), 0}},
		Left: "n=readers 5s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
	{
		Name: "enqueue for a free lock behind readers who hear", Heard: "ch", Given: "SET n x; DEL n" + waits(annReads),
		Do:   "@enqueue n r:tokens | " + bob + " 10000 7 '" + bobWaits + "'",
		Want: []any{[]any{0, "readers", TTL(10 * time.Second), 0}},
		Left: "n=readers 10s; r:read:n=[" + ann + ":10s writer:10s] 10s; r:wait:n=[" + bobWaits + ":0] 10s" + asked,
	},
}

var keepReadingCases = []Case{
	{
		Name: "keep reading", Given: annIn,
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: 1, Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "keep reading for less", Given: annIn,
		Do: "@keep_reading n r:tokens | " + ann + " 2000", Want: 1, Left: "n=readers 2s; r:read:n=[" + ann + ":2s] 2s",
	},
	{
		Name: "keep reading for less than another", Given: annIn + "; ZADD r:read:n now+9000 " + bob,
		Do: "@keep_reading n r:tokens | " + ann + " 2000", Want: 1,
		Left: "n=readers 9s; r:read:n=[" + ann + ":2s " + bob + ":9s] 9s",
	},
	{
		Name: "keep reading though a writer waits", Given: annIn + waits(bobWaits) + claimed,
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: 1,
		Left: "n=readers 10s; r:read:n=[writer:5s " + ann + ":10s] 10s; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name: "keep reading repairs what is gone",
		Do:   "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{2},
		Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "keep reading repairs where another has done so before", Given: annIn,
		Do: "@keep_reading n r:tokens | " + bob + " 10000", Want: []any{2},
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s " + bob + ":10s] 10s",
	},
	{
		Name: "keep reading after a lease that has ended", Given: annIn + "; ZADD r:read:n now-1 " + bob,
		Do: "@keep_reading n r:tokens | " + bob + " 10000", Want: []any{2},
		Left: "n=readers 10s; r:read:n=[" + ann + ":5s " + bob + ":10s] 10s",
	},
	{
		Name: "keep reading where the key was deleted", Given: annIn + "; DEL n",
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{2},
		Left: "n=readers 10s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name:  "keep reading where the key was deleted and another has begun anew",
		Given: annIn + "; DEL n; @read n r:tokens | " + bob + " 2000 ''",
		Do:    "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{2},
		Left: "n=readers 10s; r:read:n=[" + bob + ":2s " + ann + ":10s] 10s",
	},
	{
		Name: "keep reading where the set was deleted remembers that others read", Given: annLost,
		Do: "@keep_reading n r:tokens | " + ann + " 2000", Want: []any{2},
		Left: "n=readers 5s; r:read:n=[" + ann + ":2s unknown:5s] 5s",
	},
	{
		Name: "keep reading what a writer has", Given: "SET n alice PX 5000",
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{0}, Left: "n=alice 5s",
	},
	{
		Name: "keep reading what a writer has though the set is there", Given: annIn + "; SET n alice PX 5000",
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{0}, Left: "n=alice 5s; r:read:n=[" + ann + ":5s] 5s",
	},
	{
		Name: "keep reading where a hash is", Given: "HSET n f v",
		Do: "@keep_reading n r:tokens | " + ann + " 10000", Want: []any{0}, Left: "n={f:v}",
	},
	{
		Name: "keep reading two", Given: annIn + "; SET m readers PX 5000; ZADD r:read:m now+5000 " + bob,
		Do: "@keep_reading n m r:tokens | " + ann + " 10000 " + bob + " 20000", Want: 2,
		Left: "m=readers 20s; n=readers 10s; r:read:m=[" + bob + ":20s] 20s; r:read:n=[" + ann + ":10s] 10s",
	},
	{
		Name: "keep reading two, one gone", Given: annIn,
		Do: "@keep_reading n m r:tokens | " + ann + " 10000 " + bob + " 20000", Want: []any{1, 2},
		Left: "m=readers 20s; n=readers 10s; r:read:m=[" + bob + ":20s] 20s; r:read:n=[" + ann + ":10s] 10s",
	},
}

var stopReadingCases = []Case{
	{Name: "stop reading", Given: annIn, Do: "@stop_reading n r:tokens | " + ann + " ''", Want: 1, Left: ""},
	{
		Name: "stop reading twice", Given: annIn + "; @stop_reading n r:tokens | " + ann + " ''",
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: []any{0}, Left: "",
	},
	{
		Name: "stop reading what others read", Given: annIn + "; ZADD r:read:n now+3000 " + bob,
		Do: "@stop_reading n r:tokens | " + bob + " ''", Want: 1, Left: "n=readers 5s; r:read:n=[" + ann + ":5s] 5s",
	},
	{
		Name: "stop reading with the longest lease", Given: annIn + "; ZADD r:read:n now+3000 " + bob,
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: 1, Left: "n=readers 3s; r:read:n=[" + bob + ":3s] 3s",
	},
	{
		Name: "stop reading beside leases that have ended", Given: annIn + "; ZADD r:read:n now-1 " + bob,
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: 1, Left: "",
	},
	{
		Name: "stop reading what a writer has", Given: "SET n alice PX 5000",
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: []any{2}, Left: "n=alice 5s",
	},
	{
		Name: "stop reading where a hash is", Given: "HSET n f v",
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: []any{0}, Left: "n={f:v}",
	},
	{
		Name: "stop reading what we do not read", Given: annIn,
		Do: "@stop_reading n r:tokens | " + bob + " ''", Want: []any{0}, Left: "n=readers 5s; r:read:n=[" + ann + ":5s] 5s",
	},
	{
		Name: "stop reading where the set was deleted leaves the key to the others", Given: annLost,
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: []any{0}, Left: "n=readers 5s; r:read:n=[unknown:5s] 5s",
	},
	{
		Name:  "stop reading by who came after the set was deleted leaves the key to the others",
		Given: annLost + "; @read n r:tokens | " + bob + " 2000 ''",
		Do:    "@stop_reading n r:tokens | " + bob + " ''", Want: 1, Left: "n=readers 5s; r:read:n=[unknown:5s] 5s",
	},
	{
		Name: "stop reading hands over to a writer", Heard: "ch", Given: annIn + waits(bobWaits) + claimed,
		Do: "@stop_reading n r:tokens | " + ann + " ''", Want: 1, Left: "n=" + bob + " 20s; r:tokens=[n:7]",
	},
	{
		Name: "stop reading passes over a writer who is gone", Heard: "ch",
		Given: annIn + waits(annGone, bobReads, catReads) + claimed,
		Do:    "@stop_reading n r:tokens | " + ann + " ''", Want: 1,
		Left: "n=readers 20s; r:read:n=[" + cat + ":10s " + bob + ":20s] 20s; r:tokens=[n:5]",
	},
	{
		Name: "stop reading hands nothing over while others read", Heard: "ch",
		Given: annIn + "; ZADD r:read:n now+3000 " + cat + waits(bobWaits) + claimed,
		Do:    "@stop_reading n r:tokens | " + ann + " ''", Want: 1,
		Left: "n=readers 3s; r:read:n=[" + cat + ":3s writer:5s] 3s; r:wait:n=[" + bobWaits + ":0]" + waiting,
	},
	{
		Name: "stop reading leaves the queue", Given: "SET n alice PX 5000" + waits(annReads),
		Do: "@stop_reading n r:tokens | " + ann + " '" + annReads + "'", Want: []any{2}, Left: "n=alice 5s",
	},
	{
		Name: "stop reading two", Given: annIn + "; SET m readers PX 5000; ZADD r:read:m now+5000 " + bob,
		Do: "@stop_reading n m r:tokens | " + ann + " '' " + bob + " ''", Want: 2, Left: "",
	},
}
