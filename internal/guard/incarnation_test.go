package guard

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// The scenarios of testdata/incarnation.txt: what a node says, what this client knew of it, and since when the
// node has forgotten nothing.
func TestReconcile(t *testing.T) {
	eachScenario(t, "testdata/incarnation.txt", func(t *testing.T, s scenario) {
		said, old := s.said(), s.knew()
		want, why := s.proven()
		leaves, _ := s.record("leaves")
		next := old.reconcile(said, now)
		if got := now.Sub(next.since); got != want || next.reason != why {
			t.Errorf("proven age %v (%s), want %v (%s)", got, next.reason, want, why)
		}
		if leaves == (record{}) {
			leaves = next.record
		}
		if next.record != leaves || next.record == (record{}) {
			t.Errorf("leaves the record %q, want %q", next.record, leaves)
		}
		// The next client, which reads the record that this one has written, must not trust the node more.
		after := *said
		after.record = next.record
		if other := (incarnation{}).reconcile(&after, now); other.since.Before(next.since.Add(-uptimeError)) {
			t.Errorf("the next one believes in an age of %v, we in %v", now.Sub(other.since), want)
		}
		// A second probe changes nothing.
		after.hasScript = true
		if again := next.reconcile(&after, now); !again.since.Equal(next.since) || again.record != next.record {
			t.Errorf("looking again makes %+v of %+v", again, next)
		}
	})
}

func TestRecord(t *testing.T) {
	for _, r := range []record{{}, {"abc", 5, false}, {"abc", 5, true}} {
		cases.Equals(t, parseRecord(r.String()), r, "%+v", r)
	}
	for _, text := range []string{"a", "a b", "a 1 x", "a 1 durable more", " 1"} {
		cases.Equals(t, parseRecord(text), record{}, "%q", text)
	}
}

// A record that can be parsed is written as it was read.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		"", "0123456789abcdef 1766620800172208", "0123456789abcdef 1766620800172208 durable", "- 0", "a 1 b", "a  1",
	} {
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

// Whatever INFO says, it is parsed, or the node is refused.
func FuzzInfo(f *testing.F) {
	f.Add("redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:a\r\nuptime_in_seconds:5\r\n"+
		"master_replid:0123456789012345678901234567890123456789\r\nmaster_replid2:"+noReplID+"\r\n"+
		"maxmemory:0\r\nmaxmemory_policy:noeviction\r\n", "always", "no")
	f.Add("role:slave\r\nmaster_host:h\r\nuptime_in_seconds:-9223372036854775808\r\n", "", "")
	f.Add("uptime_in_seconds:9223372036854775807\nmaster_replid:x", "everysec", "yes")
	f.Fuzz(func(t *testing.T, text, fsync, lazy string) {
		info := make(map[string]string)
		cases.NoError(t, parseFields([]byte(text), info))
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
