package redlock

import (
	"errors"
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
		{WithMinValidity(time.Minute), "minimum validity"},
		{WithMinValidity(-1), "negative"},
		{WithDrift(1, 0), "drift"},
		{WithDrift(-0.1, 0), "drift"},
		{WithDrift(0.01, -1), "drift"},
		{WithNodeTimeout(0), "node timeout"},
		{WithMaxAttempts(-1), "attempts"},
		{WithMaxHold(-1), "maximum hold"},
		{WithFenceRetention(time.Second), "WithFenceRetention"},
		{WithBackoff(nil), "back-off"},
		{WithLogger(nil), "logger"},
		{Option{}, "zero Option"},
	} {
		l, err := New([]string{"redis://127.0.0.1:1"}, c.opt)
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ErrInvalid with %q", c.opt.name, err, c.want)
		}
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, c := range []struct {
			name string
			opts []Option
			want string
		}{
			{"", nil, "name is empty"},
			{strings.Repeat("x", 513), nil, "513 bytes"},
			{tokensName, nil, "used by the library"},
			{"redlock:node", nil, "used by the library"},
			{"redlock:floor", nil, "used by the library"},
			{"redlock:once:a", nil, "used by the library"},
			{"a", []Option{WithTTL(0)}, "TTL 0s"},
			{"a", []Option{WithNodeTimeout(time.Second)}, "WithNodeTimeout is only for New"},
			{"a", []Option{WithPrefix("p")}, "WithPrefix is only for New"},
		} {
			k, err := l.TryLock(t.Context(), c.name, c.opts...)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) || k != nil {
				t.Errorf("%.10q: got %v, want ErrInvalid with %q", c.name, err, c.want)
			}
		}
	})
}

func TestJitter(t *testing.T) {
	const ms = time.Millisecond
	for attempts := -1; attempts < 100; attempts++ {
		for range 100 {
			got := Jitter(10*ms, 250*ms)(attempts)
			limit := 250 * ms
			if attempts >= 0 && attempts < 5 {
				limit = min(limit, 20*ms<<max(attempts-1, 0))
			}
			if got < 10*ms || got >= limit+1 {
				t.Fatalf("after %d attempts: got %v, want 10ms to %v", attempts, got, limit)
			}
		}
	}
	if got := Jitter(0, 0)(3); got != 0 {
		t.Errorf("no jitter: got %v", got)
	}
	if got := Jitter(5*ms, ms)(3); got != 5*ms {
		t.Errorf("longest < shortest: got %v", got)
	}
}

// Options that are accepted leave some validity, and fit each other.
func FuzzOptions(f *testing.F) {
	f.Add(int64(10*time.Second), int64(250*time.Millisecond), int64(30*time.Second), int64(time.Minute),
		int64(2*time.Millisecond), 0.01)
	f.Add(int64(1), int64(-1), int64(0), int64(0), int64(1<<62), 1.0)
	f.Add(int64(1<<62), int64(1), int64(1<<62), int64(1<<62), int64(0), 0.0)
	f.Fuzz(func(t *testing.T, ttl, timeout, guard, retention, slack int64, factor float64) {
		base := defaults()
		o, err := applyOptions(&base, false, []Option{
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
			t.Errorf("TTL %s is accepted with a validity of %s", o.ttl, left)
		}
		if o.nodeTimeout <= 0 || o.guard > 0 && o.ttl > o.guard || o.retention < o.ttl {
			t.Errorf("accepted: %+v", o)
		}
		if o.ttlArg.(int64) <= 0 {
			t.Errorf("the nodes are told a TTL of %d ms", o.ttlArg)
		}
	})
}
