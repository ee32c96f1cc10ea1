package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// A fault is something that goes wrong, and the libraries that meet it, one after the other.
type fault struct {
	name  string
	about string // what is done, in plain words
	want  string // what a caller may expect
	peers []subject
	ours  subject
	meet  func(ctx context.Context, m *stage, s subject) verdict
}

// A verdict is what was seen, and whether it is what the fault's want says.
type verdict struct {
	seen     string
	expected bool
}

// faults are all, in the order of the table in docs/comparison.md.
var faults = []fault{
	{
		name: "redsync-frozen-trylock", ours: redlockOn(3), meet: over(wish{ttl: 2 * time.Second}, tryFrozen),
		about: "One of three masters is frozen (SIGSTOP); then somebody tries to acquire a free lock of 2 s.",
		want:  "The other two give it, within a quarter of the TTL.",
		peers: append(inAll(settings), redigoDefault.with(3, "; `WithFailFast`", redsync.WithFailFast(true))),
	}, {
		name: "redsync-frozen-extend", ours: redlockOn(3, "no renewal"),
		meet:  over(wish{ttl: 8 * time.Second, unrenewed: true}, extendFrozen),
		about: "Somebody holds a lock of 8 s; one of three masters is frozen; then the holder extends the lock.",
		want:  "The other two extend it, within half of the TTL.",
		peers: append(inAll(settings[:4]),
			impatient(goRedisContext.with(3, "; the caller's context ends after 1 s"))),
	}, {
		name: "redsync-context-keys", ours: redlockOn(3), meet: over(wish{ttl: 8 * time.Second}, unanswered),
		about: "The network holds back what three masters answer. The context of a caller that locks for 8 s ends after " +
			"100 ms. When the call has returned, the network passes everything again.",
		want:  "The call fails within a second, and leaves no key after another second.",
		peers: inAll(settings),
	}, {
		name: "redsync-context-error", ours: redlockOn(3), meet: over(wish{}, waitTooLong),
		about: "Another client holds the lock, and the contexts of callers that wait for it end after 300 ms. Then the " +
			"network holds back what the masters answer, and the context of a caller that tries once ends after 100 ms.",
		want:  "`errors.Is(err, context.DeadlineExceeded)` is true for all of them.",
		peers: inAll([]setting{redigoSecond, goRedisContext}),
	}, {
		name: "redsync-failfast-orphans", ours: redlockOn(5), meet: over(wish{ttl: 20 * time.Second}, cycles),
		about: "Somebody acquires and releases 200 locks of 20 s, one after the other. What is sent to one of five " +
			"masters arrives 15 ms later, on each connection for itself.",
		want: "A second after the last release, none is left.",
		peers: []subject{
			redigoSecond.with(5, "; `WithFailFast`", redsync.WithFailFast(true)),
			goRedisDefault.with(5, "; `WithFailFast`", redsync.WithFailFast(true)),
			goRedisContext.with(5, "; `WithFailFast`", redsync.WithFailFast(true)),
		},
	}, {
		name: "redsync-extend-revives", ours: redlockOn(3, "no renewal"),
		meet:  over(wish{ttl: time.Second, unrenewed: true}, extendTooLate),
		about: "A lock of 1 s expires; another client acquires and releases it; then the first client extends its lock.",
		want:  "Extend fails: another client has held the lock in between.",
		peers: []subject{
			redigoSecond.with(3, "; `WithSetNXOnExtend`", redsync.WithSetNXOnExtend()),
			redigoSecond.with(3, ""),
		},
	}, {
		name: "rueidislock-partition", ours: redlockOn(3), meet: over(wish{ttl: 5 * time.Second}, partitioned),
		about: "Somebody holds a lock of 5 s, and then the network loses whatever the holder and the masters send each " +
			"other. Another client, whose network is well, waits for the lock.",
		want: "The holder's context ends before the other client has the lock.",
		peers: []subject{
			on1("as in its README: `KeyMajority` 1, `NoLoopTracking`; default time-outs",
				rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true}),
			on1("its defaults", rueidislock.LockerOption{}),
			on1("`ConnWriteTimeout` 1 s, which is for reads, too", rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{ConnWriteTimeout: time.Second},
			}),
		},
	}, {
		name: "rueidislock-foreign-key", ours: redlockOn(3), meet: over(wish{}, foreignKey),
		about: "One of a lock's three keys is there already, and is another program's: the first, the second, the third. " +
			"(rueidislock has three keys on one master, redlock one on each of three.)",
		want:  "The lock can be acquired: two of three keys are a majority.",
		peers: []subject{on1("its defaults, so `KeyMajority` 2", rueidislock.LockerOption{})},
	}, {
		name: "bsm-owner-prefix", ours: redlockOn(3, "`WithOwnerLabel` is the owner's name"),
		meet:  over(wish{owner: "worker-12"}, ownerPrefix),
		about: "The owner `worker-12` holds a lock; the owner `worker-1` tries to acquire it, and releases what it gets.",
		want:  "`worker-1` does not get it.",
		peers: []subject{onBsm("`Options.Token` is the owner's name")},
	}, {
		name: "bsm-short-ttl", ours: redlockOn(3, "a hold's TTL cannot be changed"), meet: shortTTL,
		about: "Somebody asks for a lock with a TTL of 0.5 ms, and sets that TTL for a lock that is held.",
		want:  "Both are errors, since Redis counts in milliseconds.",
		peers: []subject{onBsm("go-redis's default time-outs")},
	},
}

// subjects are the peers, and this library last.
func (f fault) subjects() []subject { return append(slices.Clip(f.peers), f.ours) }

// A meeting is a subject whose client is connected to the masters, over the proxies, and one worker of it.
type meeting struct {
	*stage
	subject
	wish
	*client
	worker
}

// over lets a subject's client connect before something breaks.
func over(w wish, run func(context.Context, meeting) verdict) func(context.Context, *stage, subject) verdict {
	return func(ctx context.Context, m *stage, s subject) verdict {
		c, one := s.use(ctx, addrs(m.proxies), w)
		defer c.close()
		return run(ctx, meeting{m, s, w, c, one})
	}
}

func tryFrozen(_ context.Context, m meeting) verdict {
	must(m.last().Pause())
	try := m.call(15*time.Second, func() error { return m.try(context.Background(), "n") })
	seen := "TryLock " + try.String()
	if try.ok() {
		seen += ", valid for " + figure(time.Until(m.until()))
	}
	return verdict{seen, try.ok() && try.took < 500*time.Millisecond}
}

func extendFrozen(ctx context.Context, m meeting) verdict {
	must(m.lock(ctx, "n"))
	must(m.last().Pause())
	call := m.call(15*time.Second, func() error {
		ctx := context.Background()
		if m.patience > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, m.patience)
			defer cancel()
		}
		return m.extend(ctx)
	})
	n := m.have("n", 2)
	seen := fmt.Sprintf("Extend %v; the lock is then on %d of the 2 healthy masters", call, n)
	return verdict{seen, call.ok() && call.took < 4*time.Second && n == 2}
}

func unanswered(ctx context.Context, m meeting) verdict {
	m.network(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) })
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	call := m.call(10*time.Second, func() error { return m.lock(ctx, "n") })
	began := time.Now()
	m.network(func(p *faultproxy.Proxy) { must(p.Heal()) })
	n := m.have("n", 3)
	m.gone("n")
	after := time.Since(began)
	seen := fmt.Sprintf("Lock %v; then no master has the key", call)
	if n > 0 {
		seen = fmt.Sprintf("Lock %v; then %d of 3 masters have the key, for another %s", call, n, figure(after))
	}
	return verdict{seen, call.returned && call.err != nil && call.took < time.Second && after < time.Second}
}

func waitTooLong(ctx context.Context, m meeting) verdict {
	must(m.lock(ctx, "n"))
	other := m.client.worker()
	within := func(d time.Duration, call func(context.Context, string) error, name string) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return call(ctx, name)
	}
	count := 0
	var last error
	for range 10 {
		if last = within(300*time.Millisecond, other.lock, "n"); errors.Is(last, context.DeadlineExceeded) {
			count++
		}
	}
	m.network(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) })
	tried := within(100*time.Millisecond, other.try, "m")
	return verdict{
		fmt.Sprintf("%d of 10 of those that wait (%s); of the one that tries: %t (%s)",
			count, brief(last), errors.Is(tried, context.DeadlineExceeded), brief(tried)),
		count == 10 && errors.Is(tried, context.DeadlineExceeded),
	}
}

func cycles(ctx context.Context, m meeting) verdict {
	m.proxies[len(m.proxies)-1].Delay(faultproxy.Up, 15*time.Millisecond)
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i := range 200 {
		must(m.cycle(ctx, name(i)))
	}
	time.Sleep(time.Second)
	left := 0
	for i := range 200 {
		left += min(m.have(name(i), 5), 1)
	}
	return verdict{fmt.Sprintf("%d of 200 are left", left), left == 0}
}

func extendTooLate(ctx context.Context, m meeting) verdict {
	must(m.lock(ctx, "n"))
	m.gone("n")
	c, other := m.use(ctx, addrs(m.servers), wish{})
	defer c.close()
	must(other.cycle(ctx, "n"))
	seen, err := "Extend succeeded", m.extend(context.Background())
	if err != nil {
		seen = "Extend failed: " + brief(err)
	}
	n := m.have("n", 3)
	return verdict{fmt.Sprintf("%s; %d of 3 masters have the key then", seen, n), err != nil && n == 0}
}

// partitioned lets another client wait for the lock, and sees for how long both trust their holds.
func partitioned(ctx context.Context, m meeting) verdict {
	c, other := m.use(ctx, addrs(m.servers), m.wish)
	defer c.close()
	must(m.lock(ctx, "n"))
	// It may wait for the masters, so not before the end of the run.
	defer func() { m.calls.Go(func() { _ = m.unlock(context.Background()) }) }()
	held, cancel := m.context(ctx)
	defer cancel()
	m.network(func(p *faultproxy.Proxy) {
		p.Drop(faultproxy.Up)
		p.Drop(faultproxy.Down)
	})
	acquired, told := make(chan error, 1), held.Done()
	m.calls.Go(func() { acquired <- other.cycle(ctx, "n") })
	var had, ended time.Time
	for had.IsZero() || ended.IsZero() {
		select {
		case err := <-acquired:
			must(err)
			had, acquired = time.Now(), nil
		case <-told:
			ended, told = time.Now(), nil
		case <-ctx.Done():
			must(errors.New("not both: the other client has the lock, and the holder's context has ended"))
		}
	}
	when := "before the other client acquired the lock"
	if ended.After(had) {
		when = "after the other client had acquired the lock"
	}
	return verdict{fmt.Sprintf("the context ended %s %s", figure(ended.Sub(had).Abs()), when), !ended.After(had)}
}

// foreignKey puts each of three keys in turn, always of another lock, and tries to acquire that.
func foreignKey(ctx context.Context, m meeting) verdict {
	var got []string
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		at, key := m.servers[0], fmt.Sprintf("rueidislock:%d:%s", i, name)
		if m.module == ourModule {
			at, key = m.servers[i], name
		}
		made(at.ctl.Do("SET", key, "somebody", "EX", 60))
		got = append(got, "acquired")
		if m.try(ctx, name) != nil {
			got[i] = "blocked"
		} else {
			must(m.unlock(ctx))
		}
	}
	seen := fmt.Sprintf("the first: %s; the second: %s; the third: %s", got[0], got[1], got[2])
	return verdict{seen, !slices.Contains(got, "blocked")}
}

func ownerPrefix(ctx context.Context, m meeting) verdict {
	must(m.lock(ctx, "n"))
	c, other := m.use(ctx, addrs(m.servers), wish{owner: "worker-1"})
	defer c.close()
	tried, extended := other.try(ctx, "n"), m.extend(ctx)
	seen := fmt.Sprintf("worker-1's attempt: %s; worker-12's extension: %s", brief(tried), brief(extended))
	if tried == nil {
		seen += "; worker-1's release: " + brief(other.unlock(ctx))
	}
	refused := errors.Is(tried, redlock.ErrTaken) || errors.Is(tried, redislock.ErrNotObtained)
	return verdict{seen, refused && extended == nil}
}

// shortTTL differs by library: what can be asked with a TTL is not the same.
func shortTTL(ctx context.Context, m *stage, s subject) verdict {
	const short = 500 * time.Microsecond
	if s.module == ourModule {
		l := made(redlock.New(urls("redis://", addrs(m.servers)), noGuard))
		defer l.Close()
		_, err := l.TryLock(ctx, "n", redlock.WithTTL(short))
		return verdict{"TryLock: " + brief(err), errors.Is(err, redlock.ErrInvalid)}
	}
	c := goredis.NewClient(&goredis.Options{Addr: m.servers[0].Addr()})
	defer c.Close()
	locks := redislock.New(c)
	_, obtained := locks.Obtain(ctx, "n", short, nil)
	held := made(locks.Obtain(ctx, "m", time.Minute, nil))
	refreshed := held.Refresh(ctx, short, nil)
	n := m.have("m", 1)
	there := map[int]string{0: "gone", 1: "there"}[n]
	return verdict{
		fmt.Sprintf("Obtain: %s; Refresh: %s, and the key is %s then", brief(obtained), brief(refreshed), there),
		obtained != nil && refreshed != nil && n == 1,
	}
}
