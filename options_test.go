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
		{WithMaxWait(-1), "maximum wait"},
		{WithFenceRetention(time.Second), "WithFenceRetention"},
		{WithBackoff(nil), "back-off"},
		{WithLogger(nil), "logger"},
		{WithCredentials(nil), "credentials"},
		{Option{}, "zero Option"},
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
			opts []Option
			want string
		}{
			{"", nil, "name is empty"},
			{strings.Repeat("x", 513), nil, "513 bytes"},
			{tokensName, nil, "used by the library"},
			{"redlock:node", nil, "used by the library"},
			{"redlock:settings", nil, "used by the library"},
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

// One option is enough for a long TTL; what is set is not changed.
func TestGuardAndRetentionFollowTheTTL(t *testing.T) {
	ttl, guard, kept := WithTTL, WithRestartGuard, WithFenceRetention
	const s = time.Second
	for _, c := range []struct {
		opts        []Option
		guard, kept time.Duration
	}{
		{nil, 30 * s, 60 * s},
		{[]Option{ttl(time.Second)}, 30 * s, 60 * s},
		{[]Option{ttl(30 * s)}, 30 * s, 60 * s},
		{[]Option{ttl(45 * s)}, 45 * s, 90 * s},
		{[]Option{ttl(time.Hour), ttl(10 * s)}, 30 * s, 60 * s},
		{[]Option{ttl(45 * s), guard(0)}, 0, 90 * s},
		{[]Option{guard(0), ttl(45 * s)}, 0, 90 * s},
		{[]Option{ttl(45 * s), guard(50 * s)}, 50 * s, 90 * s},
		{[]Option{guard(50 * s), ttl(45 * s)}, 50 * s, 90 * s},
		{[]Option{kept(47 * s), ttl(45 * s)}, 45 * s, 47 * s},
		{[]Option{ttl(45 * s), kept(47 * s)}, 45 * s, 47 * s},
		{[]Option{ttl(45 * s), WithoutFencing(), kept(s)}, 45 * s, s},
		{[]Option{ttl(s), guard(2 * s), kept(3 * s)}, 2 * s, 3 * s},
	} {
		base := defaults()
		o, err := applyOptions(&base, false, c.opts)
		if err != nil {
			t.Errorf("%v: %v", c, err)
		} else if o.guard != c.guard || o.retention != c.kept {
			t.Errorf("TTL %s: got a guard of %s and a retention of %s, want %s and %s", o.ttl, o.guard, o.retention,
				c.guard, c.kept)
		}
	}
}

// One error names all settings that are too short for a TTL, and what they must be.
func TestConflictsWithTheTTLAreNamedTogether(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		try := func(opts ...Option) error {
			_, err := l.TryLock(t.Context(), "job", opts...)
			return err
		}
		open := func(opts ...Option) error {
			_, err := New(fl.urls, append(opts, WithDialer(fl.net.Dialer("b")))...)
			return err
		}
		const guard, kept = "WithRestartGuard to ", "WithFenceRetention to "
		for _, c := range []struct {
			err    error
			want   []string
			reject []string
		}{
			{
				open(WithTTL(45*time.Second), WithRestartGuard(30*time.Second), WithFenceRetention(30*time.Second)),
				[]string{"TTL 45s", guard + "45s", kept + "47s", "for New"},
				nil,
			},
			{
				open(WithFenceRetention(30*time.Second), WithRestartGuard(30*time.Second), WithTTL(45*time.Second)),
				[]string{"TTL 45s", guard + "45s", kept + "47s", "for New"},
				nil,
			},
			{open(WithTTL(45*time.Second), WithFenceRetention(46*time.Second)), []string{kept + "47s"}, []string{guard}},
			{try(WithTTL(45 * time.Second)), []string{"TTL 45s", "guard of 30s", guard + "45s", "for New"}, []string{kept}},
			{try(WithTTL(90 * time.Second)), []string{"TTL 1m30s", guard + "1m30s", kept + "1m32s", "for New"}, nil},
			{try(WithTTL(90*time.Second), WithoutFencing()), []string{guard + "1m30s"}, []string{kept}},
		} {
			if !errors.Is(c.err, ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", c.err)
				continue
			}
			for _, text := range c.want {
				equals(t, strings.Count(c.err.Error(), text), 1, "%q in %v", text, c.err)
			}
			for _, text := range c.reject {
				if strings.Contains(c.err.Error(), text) {
					t.Errorf("got %v, which must not have %q", c.err, text)
				}
			}
		}
		long := fl.locker("c", WithTTL(45*time.Second))
		k := must(long.TryLock(t.Context(), "job"))(t)
		between(t, time.Until(k.Until()), 44*time.Second, 45*time.Second, "validity")
	})
}

// What no call can use is refused before the first one is made.
func TestWhatNoCallCanUseIsRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		_, bad := New([]string{"n0:6379,n1:6379,n2:6379"})
		_, forgotten := New([]string{"n0"}, WithDoneTTL(15*time.Second))
		for _, c := range map[string]struct {
			err  error
			want string
		}{
			"several nodes in one text": {bad, "more than one node"},
			"jobs that are forgotten":   {forgotten, "twice the TTL"},
			"TryLock, WithMaxWait":      {errOf(l.TryLock(t.Context(), "job", WithMaxWait(time.Second))), "asks once"},
			"TryRLock, WithBackoff": {
				errOf(l.RWMutex("job").TryRLock(t.Context(), WithBackoff(Jitter(1, 2)))), "asks once",
			},
			"TryAcquire, WithMaxAttempts": {
				errOf(l.Semaphore("gpu", 2).TryAcquire(t.Context(), WithMaxAttempts(2))), "asks once",
			},
		} {
			failsSaying(t, c.err, ErrInvalid, c.want)
		}
		fl.nothingLeft()
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
	equals(t, Jitter(0, 0)(3), 0, "no jitter")
	equals(t, Jitter(5*ms, ms)(3), 5*ms, "longest < shortest")
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
			fails(t, err, ErrInvalid)
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
