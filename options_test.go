package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestBadOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{WithTTL(0), "TTL 0s"},
		{WithTTL(-time.Second), "TTL -1s"},
		{WithTTL(999 * time.Microsecond), "1ms is the least"},
		{WithTTL(2 * time.Millisecond), "drift allowance"},
		{WithDrift(1, 0), "drift"},
		{WithDrift(-0.1, 0), "drift"},
		{WithDrift(0.01, -1), "drift"},
		{WithDrift(0.01, 7*time.Second), "before it can be renewed"},
		{WithNodeTimeout(0), "node timeout"},
		{WithMaxHold(-1), "maximum hold"},
		{WithMaxWait(-1), "maximum wait"},
		{WithMaxTTL(0), "longest TTL 0s"},
		{WithMaxTTL(400 * 24 * time.Hour), "the most is a year"},
		{WithMaxTTL(9 * time.Second), "longer than the longest TTL 9s"},
		{WithLogger(nil), "logger"},
		{WithPrefix(strings.Repeat("x", 257)), "257 bytes"},
		{WithPrefix("a\x00"), "cannot be printed"},
		{WithPrefix("a\x1b[31m"), "cannot be printed"},
		{WithPrefix("a\n"), "cannot be printed"},
		{WithOwnerLabel("a\nb"), "cannot be printed"},
		{WithPrefix("a\u202e"), "cannot be printed"},
		{WithPrefix("a\x9b"), "cannot be printed"},
		{WithPrefix("a*"), "patterns"},
		{WithPrefix("a?"), "patterns"},
		{WithPrefix("[a]:"), "patterns"},
		{WithPrefix(`a\`), "patterns"},
		{WithPrefix("redlock:wait:"), "used by the library"},
		{WithPrefix("a:redlock:tokens"), "used by the library"},
		{nil, "an option is nil"},
	} {
		l, err := New([]string{"redis://127.0.0.1:1"}, c.opt)
		if err == nil {
			_ = l.Close()
		}
		failsSaying(t, err, ErrInvalid, c.want)
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, c := range []struct {
			name string
			opts []LockOption
			want string
		}{
			{"", nil, "name is empty"},
			{strings.Repeat("x", 513), nil, "513 bytes"},
			{tokensName, nil, "used by the library"},
			{"redlock:node", nil, "used by the library"},
			{"redlock:settings", nil, "used by the library"},
			{"redlock:floor", nil, "used by the library"},
			{"redlock:once:a", nil, "used by the library"},
			{"a:redlock:tokens", nil, "used by the library"},
			{"a:redlock:wait:job", nil, "used by the library"},
			{"aredlock:permit:gpu:0", nil, "used by the library"},
			{"a", []LockOption{WithTTL(0)}, "TTL 0s"},
			{"a", []LockOption{WithTTL(31 * time.Second)}, "for New, set WithMaxTTL to 31s or more, in all clients"},
			{"a", []LockOption{nil}, "an option is nil"},
		} {
			k, err := l.TryLock(t.Context(), c.name, c.opts...)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) || k != nil {
				t.Errorf("%.10q: got %v, want ErrInvalid with %q", c.name, err, c.want)
			}
		}
	})
}

// Ordinary prefixes and names are not refused, and no name ends another prefix.
func TestPrefixes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for _, c := range []struct{ prefix, name, want string }{
			{"", "app:redlock:orders", "app:redlock:orders"},
			{"", "redlock", "redlock"},
			{"", "a:redlock:tokens:b", "a:redlock:tokens:b"},
			{"app:", "job", "app:job"},
			{"prod/locks:", "a*b?[c]", "prod/locks:a*b?[c]"},
			{"{tag}ü ", "x", "{tag}ü x"},
			{"redlock:", "orders", "redlock:orders"},
			{"redlock:", "tokens", ""},
			{"my-redlock:", "wait:x", ""},
			{"red", "lock:revoked", ""},
			{"a:redlock:la", "bel:0", ""},
		} {
			l := fl.locker("a", WithPrefix(c.prefix))
			key, err := l.key(c.name)
			if equals(t, key, c.want, "the key of %q with the prefix %q", c.name, c.prefix); c.want == "" {
				failsSaying(t, err, ErrInvalid, "used by the library")
			}
			_ = l.Close()
		}
	})
}

// What clients must agree on follows from the longest TTL.
func TestGuardAndRetentionFollowTheLongestTTL(t *testing.T) {
	ttl, longest, off := WithTTL, WithMaxTTL, WithNodeConfig(NodeConfig{NoRestartGuard: true})
	const s = time.Second
	for _, c := range []struct {
		opts        []Option
		guard, kept time.Duration
	}{
		{nil, 30 * s, 60 * s},
		{[]Option{ttl(s)}, 30 * s, 60 * s},
		{[]Option{ttl(30 * s)}, 30 * s, 60 * s},
		{[]Option{ttl(45 * s)}, 45 * s, 90 * s},
		{[]Option{ttl(time.Hour), ttl(10 * s)}, 30 * s, 60 * s},
		{[]Option{ttl(45 * s), off}, 0, 90 * s},
		{[]Option{off, ttl(45 * s)}, 0, 90 * s},
		{[]Option{ttl(45 * s), longest(50 * s)}, 50 * s, 100 * s},
		{[]Option{longest(50 * s), ttl(45 * s)}, 50 * s, 100 * s},
		{[]Option{longest(20 * s)}, 20 * s, 40 * s},
		{[]Option{ttl(s), longest(s)}, 2 * s, 3 * s}, // the nodes' clocks may be a second apart
	} {
		o, err := newOptions(c.opts)
		if err != nil {
			t.Errorf("%v: %v", c, err)
		} else if o.guard != c.guard || o.retention != c.kept {
			t.Errorf("TTL %s: got a guard of %s and a retention of %s, want %s and %s", o.ttl, o.guard, o.retention,
				c.guard, c.kept)
		}
	}
}

// Several settings of nodes are one.
func TestNodeConfigsMerge(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	o := must(newOptions([]Option{
		WithNodeConfig(NodeConfig{TLS: &tls.Config{ServerName: "n"}, Dial: dial, AllowEviction: true}),
		WithNodeConfig(NodeConfig{TrustDisk: true}), WithNodeConfig(NodeConfig{}),
	}))(t)
	if n := o.node; n.TLS.ServerName != "n" || n.Dial == nil || o.dialerID == nil || !n.AllowEviction || !n.TrustDisk ||
		n.AllowNoInfo || n.NoRestartGuard || n.Credentials != nil {
		t.Errorf("got %+v", n)
	}
}

// What no call can use is refused before the first one is made.
func TestWhatNoCallCanUseIsRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		_, bad := New([]string{"n0:6379,n1:6379,n2:6379"})
		_, forgotten := New([]string{"n0"}, WithDoneTTL(15*time.Second))
		for want, errs := range map[string][]error{
			"more than one node": {bad}, "twice the TTL": {forgotten},
			"asks once": {
				errOf(l.TryLock(t.Context(), "job", WithMaxWait(time.Second))),
				errOf(l.TryRLock(t.Context(), "job", WithMaxWait(2))),
				errOf(l.Semaphore("gpu", 2).TryAcquire(t.Context(), WithMaxWait(2))),
				errOf(l.TryLockAll(t.Context(), ten, WithMaxWait(2))), l.TryOnce(t.Context(), "job", mustNotRun(t), WithMaxWait(2)),
			},
		} {
			for _, err := range errs {
				failsSaying(t, err, ErrInvalid, want)
			}
		}
		fl.nothingLeft()
	})
}

func TestPollInterval(t *testing.T) {
	const ms = time.Millisecond
	for attempts := -1; attempts < 100; attempts++ {
		for range 100 {
			got := pollInterval(10*ms, 250*ms)(attempts)
			limit := 250 * ms
			if attempts >= 0 && attempts < 5 {
				limit = min(limit, 20*ms<<max(attempts-1, 0))
			}
			if got < 10*ms || got >= limit+1 {
				t.Fatalf("after %d attempts: got %v, want 10ms to %v", attempts, got, limit)
			}
		}
	}
	equals(t, pollInterval(0, 0)(3), 0, "none")
	equals(t, pollInterval(5*ms, 5*ms)(3), 5*ms, "always the same")
}

// Options that are accepted leave some validity, and fit each other.
func FuzzOptions(f *testing.F) {
	f.Add(int64(10*time.Second), int64(250*time.Millisecond), int64(30*time.Second), int64(2*time.Millisecond), 0.01)
	f.Add(int64(1), int64(-1), int64(1), int64(1<<62), 1.0)
	f.Add(int64(1<<62), int64(1), int64(1<<62), int64(0), 0.0)
	f.Fuzz(func(t *testing.T, ttl, timeout, longest, slack int64, factor float64) {
		o, err := newOptions([]Option{
			WithTTL(time.Duration(ttl)), WithNodeTimeout(time.Duration(timeout)), WithMaxTTL(time.Duration(longest)),
			WithDrift(factor, time.Duration(slack)),
		})
		if err != nil {
			fails(t, err, ErrInvalid)
			return
		}
		if left := o.drift.validity(o.ttl, 0); left <= 0 || left > o.ttl {
			t.Errorf("TTL %s is accepted with a validity of %s", o.ttl, left)
		}
		if o.nodeTimeout <= 0 || o.ttl > o.guard || o.retention < o.ttl {
			t.Errorf("accepted: %+v", o)
		}
		if o.ttl.Milliseconds() <= 0 {
			t.Errorf("the nodes are told a TTL of %d ms", o.ttl.Milliseconds())
		}
	})
}
