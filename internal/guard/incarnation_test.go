package guard

import (
	"strings"
	"testing"
	"time"
)

// What a node tells, what this client has seen before, and how long ago the node forgot last.
func TestReconcile(t *testing.T) {
	const micros = int64(1_766_620_800_000_000)
	now := time.Now()
	ago := func(d time.Duration) int64 { return micros - d.Microseconds() }
	id := func(c string) string { return strings.Repeat(c, 40) }
	epoch := func(c string) string { return strings.Repeat(c, 16) }
	up := func(d time.Duration, change ...func(*Info)) Info {
		f := Info{Role: "master", replID: id("a"), Uptime: d, micros: micros}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	durable := func(f *Info) { f.AOF, f.Fsync, f.Lazy = true, "always", "no" }
	promoted := func(f *Info) { f.Promoted = true }
	trusted := func(f *Info) { durable(f); f.trusted = true }
	has := func(r record) func(*Info) { return func(f *Info) { f.record = r } }
	seen := func(c string, since, sight time.Duration) incarnation {
		return incarnation{
			epoch: epoch(c), record: record{epoch(c), ago(since), false}, micros: ago(sight),
			at: now.Add(-sight), since: now.Add(-since), doubt: doubtRestart,
		}
	}
	durably := func(old incarnation) incarnation {
		old.durable, old.record.durable = true, true
		return old
	}
	leapt := func(old incarnation) incarnation {
		old.leap = leap{old.at.Add(time.Second), time.Hour}
		return old
	}
	for _, c := range []struct {
		name string
		old  incarnation
		said Info
		want time.Duration // the proven age
		why  doubt
	}{
		{"first met: uptime, less its error", incarnation{}, up(20 * time.Second), 19 * time.Second, doubtRestart},
		{"just started", incarnation{}, up(0), 0, doubtRestart},
		{"promoted: uptime means nothing", incarnation{}, up(time.Hour, promoted), 0, doubtPromoted},
		{
			"promoted, and the record says when",
			incarnation{},
			up(time.Hour, promoted, has(record{epoch("a"), ago(time.Minute), false})), time.Minute, doubtPromoted,
		},
		{
			"promoted, with its former master's record",
			incarnation{},
			up(time.Hour, promoted, has(record{epoch("b"), ago(time.Minute), false})), 0, doubtPromoted,
		},
		{
			"the record is never older than the process",
			incarnation{},
			up(20*time.Second, has(record{epoch("a"), ago(time.Hour), false})), 19 * time.Second, doubtRestart,
		},
		{
			"emptied, as somebody else has noticed",
			incarnation{},
			up(time.Hour, has(record{epoch("a"), ago(5 * time.Second), false})), 5 * time.Second, doubtNoted,
		},
		{
			"restarted with its data, which is old",
			incarnation{},
			up(5*time.Second, has(record{epoch("b"), ago(time.Hour), false})), 4 * time.Second, doubtRestart,
		},
		{
			"durable, and a record has come back: from which file?",
			incarnation{},
			up(5*time.Second, durable, has(record{epoch("b"), ago(time.Hour), true})), 4 * time.Second, doubtUnproven,
		},
		{
			"the same, where nodes are trusted: it was not known before",
			incarnation{},
			up(5*time.Second, trusted, has(record{epoch("b"), ago(time.Hour), true})), 4 * time.Second, doubtUnproven,
		},
		{
			"known before, and not trusted", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, durable, has(record{epoch("b"), ago(time.Hour), true})), 4 * time.Second, doubtUnproven,
		},
		{
			"known before, and trusted", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, trusted, has(record{epoch("b"), ago(time.Hour), true})), time.Hour, doubtRestart,
		},
		{
			"the same, and somebody else has seen to the record", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, trusted, has(record{epoch("a"), ago(time.Hour), true})), time.Hour, doubtRestart,
		},
		{
			"trusted, but it was not durable when we knew it", seen("b", time.Hour, 10*time.Second),
			up(5*time.Second, trusted, has(record{epoch("b"), ago(time.Hour), true})), 4 * time.Second, doubtUnproven,
		},
		{
			"trusted, but not durable any more", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, func(f *Info) { f.trusted = true }, has(record{epoch("b"), ago(time.Hour), true})), 4 * time.Second, doubtRestart,
		},
		{
			"trusted, but the record is not the one that we knew", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, trusted, has(record{epoch("b"), ago(2 * time.Hour), true})), 4 * time.Second, doubtUnproven,
		},
		{
			"trusted, but the record that came back is not a durable node's", durably(seen("b", time.Hour, 10*time.Second)),
			up(5*time.Second, trusted, has(record{epoch("b"), ago(time.Hour), false})), 4 * time.Second, doubtUnproven,
		},
		{
			"trusted, but promoted", durably(seen("b", time.Hour, 10*time.Second)),
			up(time.Hour, trusted, promoted, has(record{epoch("b"), ago(time.Hour), true})), 0, doubtPromoted,
		},
		{
			"durable now, but not when the record was written",
			incarnation{},
			up(5*time.Second, durable, has(record{epoch("b"), ago(time.Hour), false})), 4 * time.Second, doubtUnproven,
		},
		{"durable, but without a record: its disk may be new", incarnation{}, up(5*time.Second, durable), 4 * time.Second, doubtUnproven},
		{"durable, and up for long", incarnation{}, up(time.Hour, durable), time.Hour - time.Second, doubtUnproven},
		{
			"durable, but promoted: what came by replication is not all",
			incarnation{},
			up(time.Hour, durable, promoted, has(record{epoch("b"), ago(time.Hour), true})), 0, doubtPromoted,
		},
		{
			"a network fault", seen("a", time.Minute, 5*time.Second),
			up(time.Minute, has(record{epoch("a"), ago(time.Minute), false})), time.Minute, doubtRestart,
		},
		{"the record is gone", seen("a", time.Hour, 5*time.Second), up(time.Hour), 0, doubtEmptied},
		{
			"the record was made anew by somebody who knew of none", seen("a", time.Hour, 5*time.Second),
			up(time.Hour, has(record{epoch("a"), ago(59 * time.Minute), false})), 0, doubtEmptied,
		},
		{
			"the record was made anew by who knew", seen("a", time.Hour, 5*time.Second),
			up(time.Hour, has(record{epoch("a"), ago(2 * time.Second), false})), 2 * time.Second, doubtNoted,
		},
		{
			"restarted, and its clock was set since: not before we saw the last incarnation", seen("b", time.Hour, 5*time.Second),
			up(24 * time.Hour), 5 * time.Second, doubtRestart,
		},
		{
			"a record from the future means nothing",
			incarnation{},
			up(time.Hour, has(record{epoch("a"), ago(-time.Hour), false})), 0, doubtNoted,
		},
		{
			"its clock was set forward", leapt(seen("a", time.Minute, 5*time.Second)),
			up(2*time.Hour, has(record{epoch("a"), ago(time.Minute), false})), 0, leap{by: time.Hour}.doubt(),
		},
		{
			"its clock was set forward, as somebody else has noted", leapt(seen("a", time.Hour, 5*time.Second)),
			up(2*time.Hour, has(record{epoch("a"), ago(2 * time.Second), false})), 2 * time.Second, doubtNoted,
		},
		{
			"its clock was set forward right after the record was written", leapt(seen("a", 5*time.Second, 5*time.Second)),
			up(2*time.Hour, has(record{epoch("a"), ago(5 * time.Second), false})), 0, leap{by: time.Hour}.doubt(),
		},
		{
			"its clock was set forward, and it restarted", leapt(seen("b", time.Hour, 5*time.Second)),
			up(2 * time.Hour), 0, leap{by: time.Hour}.doubt(),
		},
		{
			"its clock was set forward, and it restarted, durable and trusted", leapt(durably(seen("b", time.Hour, 10*time.Second))),
			up(5*time.Second, trusted, has(record{epoch("b"), ago(time.Hour), true})), 0, leap{by: time.Hour}.doubt(),
		},
	} {
		next := c.old.reconcile(&c.said, now)
		if got := now.Sub(next.since); got != c.want || next.doubt != c.why {
			t.Errorf("%s: proven age %v (%s), want %v (%s)", c.name, got, next.doubt, c.want, c.why)
		}
		// Who comes next, with what this one has written, must not think better of the node.
		after := c.said
		after.record = next.record
		if other := (incarnation{}).reconcile(&after, now); other.since.Before(next.since.Add(-uptimeError)) {
			t.Errorf("%s: the next one believes in an age of %v, we in %v", c.name, now.Sub(other.since), c.want)
		}
		// And nothing changes by looking again.
		if again := next.reconcile(&after, now); !again.since.Equal(next.since) || again.record != next.record {
			t.Errorf("%s: looking again makes %+v of %+v", c.name, again, next)
		}
	}
}

func TestRecord(t *testing.T) {
	for _, r := range []record{{}, {"abc", 5, false}, {"abc", 5, true}} {
		if got := parseRecord(r.String()); got != r {
			t.Errorf("%+v: got %+v", r, got)
		}
	}
	for _, text := range []string{"a", "a b", "a 1 x", "a 1 durable more", " 1"} {
		if got := parseRecord(text); got != (record{}) {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

// A record that is understood is written as it was read.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{"", "0123456789abcdef 1766620800172208", "0123456789abcdef 1766620800172208 durable", "- 0", "a 1 b", "a  1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := parseRecord(text)
		if r == (record{}) {
			return
		}
		if again := parseRecord(r.String()); again != r {
			t.Errorf("%q: read as %+v, written and read again %+v", text, r, again)
		}
	})
}

// Whatever INFO says, it is understood or refused.
func FuzzInfo(f *testing.F) {
	f.Add("redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:a\r\nmaster_replid:0123456789012345678901234567890123456789\r\n"+
		"master_replid2:"+noReplID+"\r\nuptime_in_seconds:5\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", "always", "no")
	f.Add("role:slave\r\nmaster_host:h\r\nuptime_in_seconds:-9223372036854775808\r\n", "", "")
	f.Add("uptime_in_seconds:9223372036854775807\nmaster_replid:x", "everysec", "yes")
	f.Fuzz(func(t *testing.T, text, fsync, lazy string) {
		info := make(map[string]string)
		if err := fields([]byte(text), info); err != nil {
			t.Fatal(err)
		}
		said := parseInfo(info, map[string]string{"appendfsync": fsync, "no-appendfsync-on-rewrite": lazy})
		if said.epoch() == "" {
			t.Errorf("%q: no epoch", text)
		}
		if said.age() < 0 {
			t.Errorf("%q: an age of %s", text, said.age())
		}
		if err := said.unfit(&Rules{}); err == nil && (said.Role != "master" || said.Refused != "" || said.Evicts()) {
			t.Errorf("%q: fit to vote as %+v", text, said)
		}
		now := time.Unix(1766620800, 0)
		if next := (incarnation{}).reconcile(said, now); next.since.After(now) || next.record.String() == "" {
			t.Errorf("%q: remembered as %+v", text, next)
		}
	})
}
