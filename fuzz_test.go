package redlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

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
