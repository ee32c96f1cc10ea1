package redlock

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// said is a connection on which the other side has said all that it will ever say.
type said struct {
	net.Conn
	bytes.Reader
}

func (s *said) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (*said) Write(b []byte) (int, error)        { return len(b), nil }
func (*said) Close() error                       { return nil }
func (*said) SetDeadline(time.Time) error        { return nil }
func (s *said) SetReadDeadline(time.Time) error  { return nil }
func (s *said) SetWriteDeadline(time.Time) error { return nil }

// allKinds are the questions whose replies decide something.
var allKinds = []*kind{acquirePlain, acquire, raise, extend, adopt, revert, release, acquireAll, enqueue, readTime, trim}

// Whatever a node answers, each request gets an answer; and a yes only where that is what was said.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		":1\r\n", ":3\r\n", ":0\r\n", "+OK\r\n", "$-1\r\n", "*1\r\n*1\r\n:1\r\n", "*1\r\n*2\r\n:2\r\n$16\r\n1766620800172208\r\n",
		"*1\r\n*3\r\n:0\r\n$5\r\nowner\r\n:250\r\n", "*1\r\n*4\r\n:0\r\n$5\r\nowner\r\n:-1\r\n:7\r\n", "*1\r\n*3\r\n:0\r\n$0\r\n\r\n:-2\r\n",
		"*3\r\n:1\r\n:2\r\n:0\r\n", "-NOSCRIPT No matching script\r\n", "-MISCONF x\r\n", "*2\r\n$10\r\n1766620800\r\n$6\r\n172208\r\n",
		"*1\r\n*2\r\n:2\r\n$5\r\n1e300\r\n", "*1\r\n*2\r\n:2\r\n$3\r\nnan\r\n", "*-1\r\n", "*1\r\n*0\r\n", "$3\r\nabc\r\n",
	} {
		for n := range 3 {
			f.Add(seed, uint8(n), uint8(n))
			f.Add(seed, uint8(7+n), uint8(128+n))
		}
	}
	f.Fuzz(func(t *testing.T, wire string, which, more uint8) {
		k := allKinds[int(which)%len(allKinds)]
		g := &group{kind: k}
		for i := range 1 + int(more)%3 {
			r := &request{call: &call{}}
			if k.script != nil && more >= 128 && i == 0 { // about several names
				r.call.several = &several{keys: make([]string, 1+int(more)/3%3)}
			}
			g.requests = append(g.requests, r)
			g.keys += r.call.keys()
		}
		all, err := newReplies(strings.NewReader(wire)).take(nil)
		if err != nil {
			return // the connection is given up
		}
		reply, err := all[0].value, all[0].err
		for i := range g.requests {
			a := g.answer(i, reply, err)
			switch {
			case a.vote >= voteKinds:
				t.Errorf("%s, %q: vote %d", k.command, wire, a.vote)
			case a.vote == voteFailed && a.err == nil:
				t.Errorf("%s, %q: failed without a reason", k.command, wire)
			case a.vote == voteGranted && (err != nil || reply == nil):
				t.Errorf("%s, %q: granted", k.command, wire)
			case a.vote == voteOutbid && (a.token < 0 || a.token >= 1<<53):
				t.Errorf("%s, %q: outbid by %d, which is no token", k.command, wire, a.token)
			}
		}
	})
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
func FuzzFacts(f *testing.F) {
	f.Add("redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:a\r\nmaster_replid:0123456789012345678901234567890123456789\r\n"+
		"master_replid2:"+noReplID+"\r\nuptime_in_seconds:5\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", "always", "no")
	f.Add("role:slave\r\nmaster_host:h\r\nuptime_in_seconds:-9223372036854775808\r\n", "", "")
	f.Add("uptime_in_seconds:9223372036854775807\nmaster_replid:x", "everysec", "yes")
	f.Fuzz(func(t *testing.T, text, fsync, lazy string) {
		info := make(map[string]string)
		if err := fields([]byte(text), info); err != nil {
			t.Fatal(err)
		}
		facts := readFacts(info, map[string]string{"appendfsync": fsync, "no-appendfsync-on-rewrite": lazy})
		if facts.epoch() == "" {
			t.Errorf("%q: no epoch", text)
		}
		if facts.age() < 0 {
			t.Errorf("%q: an age of %s", text, facts.age())
		}
		base := defaults()
		if err := facts.unfit(&base); err == nil && (facts.role != "master" || facts.refused != "" || facts.evicts()) {
			t.Errorf("%q: fit to vote as %+v", text, facts)
		}
		now := time.Unix(1766620800, 0)
		if is := (life{}).recall(facts, now); is.since.After(now) || is.record.String() == "" {
			t.Errorf("%q: remembered as %+v", text, is)
		}
	})
}

// A message that names a waiter is a vote for it; any other one is nothing.
func FuzzHear(f *testing.F) {
	l, err := New([]string{"redis://a", "redis://b", "redis://c"}, WithDialer(func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("nobody is there")
	}), WithRestartGuard(0), WithNodeTimeout(time.Millisecond))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
	for _, seed := range []string{"", "  ", w.owner + "  job", w.owner + " 1766620800172208 job", w.owner + " 1.7e15 a name", w.owner + " nan job", uuid.NewString() + "  job"} {
		f.Add(strings.Replace(seed, w.owner, "me", 1))
	}
	f.Fuzz(func(t *testing.T, message string) {
		w.mu.Lock()
		w.told[1] = told{}
		w.mu.Unlock()
		l.hear(1, strings.Replace(message, "me", w.owner, 1))
		w.mu.Lock()
		heard := w.told[1]
		w.mu.Unlock()
		switch {
		case !heard.heard:
		case !strings.HasPrefix(message, "me "):
			t.Errorf("%q: taken for a message to us", message)
		case heard.vote == voteOutbid && (heard.token < 0 || heard.token >= 1<<53):
			t.Errorf("%q: outbid by %d, which is no token", message, heard.token)
		case heard.vote != voteGranted && heard.vote != voteOutbid:
			t.Errorf("%q: vote %d", message, heard.vote)
		}
	})
}

// Options that are accepted leave something of the TTL to trust, and fit each other.
func FuzzOptions(f *testing.F) {
	f.Add(int64(10*time.Second), int64(250*time.Millisecond), int64(30*time.Second), int64(time.Minute), int64(2*time.Millisecond), 0.01)
	f.Add(int64(1), int64(-1), int64(0), int64(0), int64(1<<62), 1.0)
	f.Add(int64(1<<62), int64(1), int64(1<<62), int64(1<<62), int64(0), 0.0)
	f.Fuzz(func(t *testing.T, ttl, timeout, guard, retention, slack int64, factor float64) {
		base := defaults()
		o, err := settle(&base, false, []Option{
			WithTTL(time.Duration(ttl)), WithNodeTimeout(time.Duration(timeout)), WithRestartGuard(time.Duration(guard)),
			WithFenceRetention(time.Duration(retention)), WithDrift(factor, time.Duration(slack)),
		})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
			return
		}
		if left := o.drift.validity(o.ttl, 0); left <= 0 || left > o.ttl {
			t.Errorf("TTL %s is accepted, and %s of it may be trusted", o.ttl, left)
		}
		if o.nodeTimeout <= 0 || o.guard > 0 && o.ttl > o.guard || o.retention < o.ttl {
			t.Errorf("accepted: %+v", o)
		}
		if o.ttlArg.(int64) <= 0 {
			t.Errorf("the nodes are told a TTL of %d ms", o.ttlArg)
		}
	})
}
