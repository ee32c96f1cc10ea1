package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorumlock/redlock/internal/faultproxy"
)

const (
	redsyncModule = "github.com/go-redsync/redsync/v4"
	redigoModule  = "github.com/gomodule/redigo"
	goRedisModule = "github.com/redis/go-redis/v9"
)

// A setting is redsync over a Redis client with certain time-outs.
type setting struct {
	client, timeouts string
	connect          func(nodes []string) (rs *redsync.Redsync, closeAll func())
}

var (
	redigoDefault = setting{redigoModule, "no time-outs, redigo's default", overRedigo()}
	redigoSecond  = setting{redigoModule, "time-outs of 1 s (connect, read, write)", overRedigo(
		redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second))}
	goRedisDefault = setting{goRedisModule, "go-redis's default time-outs, 5 s", overGoRedis(goredis.Options{})}
	goRedisSecond  = setting{goRedisModule, "time-outs of 1 s (connect, read, write)", overGoRedis(goredis.Options{
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})}
	// go-redis honours a context's deadline only then, and redsync gives it one for each attempt: 5 % of the TTL.
	goRedisContext = setting{goRedisModule, "`ContextTimeoutEnabled`", overGoRedis(goredis.Options{
		ContextTimeoutEnabled: true,
	})}

	settings = []setting{redigoDefault, redigoSecond, goRedisDefault, goRedisSecond, goRedisContext}
)

// overRedigo has the pool that redigo's documentation shows.
func overRedigo(opts ...redis.DialOption) func([]string) (*redsync.Redsync, func()) {
	return func(nodes []string) (*redsync.Redsync, func()) {
		return over(nodes, func(node string) (rsredis.Pool, func() error) {
			p := &redis.Pool{
				MaxIdle: 3, IdleTimeout: 240 * time.Second,
				Dial: func() (redis.Conn, error) { return redis.Dial("tcp", node, opts...) },
			}
			return rsredigo.NewPool(p), p.Close
		})
	}
}

func overGoRedis(opts goredis.Options) func([]string) (*redsync.Redsync, func()) {
	return func(nodes []string) (*redsync.Redsync, func()) {
		return over(nodes, func(node string) (rsredis.Pool, func() error) {
			opts := opts
			opts.Addr = node
			c := goredis.NewClient(&opts)
			return rsgoredis.NewPool(c), c.Close
		})
	}
}

func over(nodes []string, open func(node string) (rsredis.Pool, func() error)) (*redsync.Redsync, func()) {
	var pools []rsredis.Pool
	var closers []func() error
	for _, node := range nodes {
		p, closer := open(node)
		pools, closers = append(pools, p), append(closers, closer)
	}
	return redsync.New(pools...), func() {
		for _, closer := range closers {
			_ = closer() // nothing is written any more
		}
	}
}

// A redsyncRun is a run with a client that is connected to the masters.
type redsyncRun func(ctx context.Context, m *masters, rs *redsync.Redsync) (outcome, error)

// with is the setting in which a client connects to n masters, and run follows. more is what else is set.
func (s setting) with(more string, n int, run redsyncRun) subject {
	return subject{
		library: "redsync", module: redsyncModule, client: s.client, config: s.timeouts + more, masters: n,
		run: func(ctx context.Context, m *masters) (outcome, error) {
			rs, closeAll := s.connect(m.proxied())
			defer closeAll()
			// So the pools have connections before something breaks.
			warm := rs.NewMutex("warm")
			if err := warm.Lock(); err != nil {
				return outcome{}, err
			}
			if _, err := warm.Unlock(); err != nil {
				return outcome{}, err
			}
			return run(ctx, m, rs)
		},
	}
}

// inAll are the settings with the same run, on three masters.
func inAll(of []setting, run redsyncRun) (all []subject) {
	for _, s := range of {
		all = append(all, s.with("", 3, run))
	}
	return all
}

var frozenTryLock = fault{
	name:  "redsync-frozen-trylock",
	about: "One of three masters is frozen (SIGSTOP); then somebody tries to acquire a free lock of 2 s.",
	want:  "The other two give it, within a quarter of the TTL.",
	peers: append(inAll(settings, tryFrozen()),
		redigoDefault.with("; `WithFailFast`", 3, tryFrozen(redsync.WithFailFast(true)))),
	ours:  ours(3, tryFrozenOurs),
	tests: []string{"TestASickNodeDelaysNoCall", "TestOneFrozenMasterCostsNothingAfterItsFirstTimeout"},
}

func tryFrozen(opts ...redsync.Option) redsyncRun {
	return func(_ context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
		if err := m.last().Pause(); err != nil {
			return outcome{}, err
		}
		mutex := rs.NewMutex("n", append(opts, redsync.WithExpiry(2*time.Second))...)
		return triedFrozen(m.call(15*time.Second, mutex.TryLock), mutex.Until), nil
	}
}

func triedFrozen(try timed, until func() time.Time) outcome {
	seen := "TryLock " + try.String()
	if try.ok() {
		seen += ", valid for " + figure(time.Until(until()))
	}
	return outcome{seen, try.ok() && try.took < 500*time.Millisecond}
}

var frozenExtend = fault{
	name:  "redsync-frozen-extend",
	about: "Somebody holds a lock of 8 s; one of three masters is frozen; then the holder extends the lock.",
	want:  "The other two extend it, within half of the TTL.",
	peers: append(inAll(settings[:4], extendFrozen(0)),
		goRedisContext.with("; the caller's context ends after 1 s", 3, extendFrozen(time.Second))),
	ours:  ours(3, extendFrozenOurs, "no renewal"),
	tests: []string{"TestEveryCallReturnsWithinTheNodeTimeout", "TestEveryOperationReturnsWithinTheNodeTimeout"},
}

// extendFrozen extends with a context that ends after patience; 0: it does not end.
func extendFrozen(patience time.Duration) redsyncRun {
	return func(_ context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
		mutex := rs.NewMutex("n", redsync.WithExpiry(8*time.Second))
		if err := mutex.Lock(); err != nil {
			return outcome{}, err
		}
		if err := m.last().Pause(); err != nil {
			return outcome{}, err
		}
		return m.extendedFrozen(func() error {
			ctx := context.Background()
			if patience > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			}
			ok, err := mutex.ExtendContext(ctx)
			if err == nil && !ok {
				err = errors.New("not extended")
			}
			return err
		})
	}
}

func (m *masters) extendedFrozen(extend func() error) (outcome, error) {
	call := m.call(15*time.Second, extend)
	n, err := m.have("n", 2)
	seen := fmt.Sprintf("Extend %v; the lock is then on %d of the 2 healthy masters", call, n)
	return outcome{seen, call.ok() && call.took < 4*time.Second && n == 2}, err
}

var keysAfterTimeout = fault{
	name: "redsync-context-keys",
	about: "The network holds back what three masters answer. The context of a caller that locks for 8 s ends after " +
		"100 ms. When the call has returned, the network passes everything again.",
	want:  "The call fails within a second, and leaves no key after another second.",
	peers: inAll(settings, lockUnanswered),
	ours:  ours(3, lockUnansweredOurs),
	tests: []string{"TestCancelledAcquireLeavesNothing", "TestCancelledMidAcquireLeavesNoKeyOnAnyNode"},
}

func lockUnanswered(ctx context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
	mutex := rs.NewMutex("n", redsync.WithExpiry(8*time.Second))
	return m.unanswered(ctx, mutex.LockContext)
}

func (m *masters) unanswered(ctx context.Context, lock func(context.Context) error) (outcome, error) {
	m.network(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) })
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	call := m.call(10*time.Second, func() error { return lock(ctx) })
	began := time.Now()
	if err := m.heal(); err != nil {
		return outcome{}, err
	}
	n, err := m.have("n", 3)
	if err != nil {
		return outcome{}, err
	}
	err = m.gone("n")
	after := time.Since(began)
	seen := fmt.Sprintf("Lock %v; then no master has the key", call)
	if n > 0 {
		seen = fmt.Sprintf("Lock %v; then %d of 3 masters have the key, for another %s", call, n, figure(after))
	}
	return outcome{seen, call.returned && call.err != nil && call.took < time.Second && after < time.Second}, err
}

var errorAfterTimeout = fault{
	name: "redsync-context-error",
	about: "Another client holds the lock, and the contexts of callers that wait for it end after 300 ms. Then the " +
		"network holds back what the masters answer, and the context of a caller that tries once ends after 100 ms.",
	want:  "`errors.Is(err, context.DeadlineExceeded)` is true for all of them.",
	peers: inAll([]setting{redigoSecond, goRedisContext}, waitTooLong),
	ours:  ours(3, waitTooLongOurs),
	tests: []string{"TestTheCallersDeadlineIsNotANodesTimeout"},
}

func waitTooLong(ctx context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
	if err := rs.NewMutex("n").Lock(); err != nil {
		return outcome{}, err
	}
	mutex := rs.NewMutex("n")
	return m.waitedTooLong(ctx, mutex.LockContext, rs.NewMutex("m").TryLockContext)
}

func (m *masters) waitedTooLong(ctx context.Context, lock, try func(context.Context) error) (outcome, error) {
	within := func(d time.Duration, call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return call(ctx)
	}
	count := 0
	var last error
	for range 10 {
		if last = within(300*time.Millisecond, lock); errors.Is(last, context.DeadlineExceeded) {
			count++
		}
	}
	m.network(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) })
	tried := within(100*time.Millisecond, try)
	return outcome{
		fmt.Sprintf("%d of 10 of those that wait (%s); of the one that tries: %t (%s)",
			count, brief(last), errors.Is(tried, context.DeadlineExceeded), brief(tried)),
		count == 10 && errors.Is(tried, context.DeadlineExceeded),
	}, nil
}

var overtakenSet = fault{
	name: "redsync-failfast-orphans",
	about: "Somebody acquires and releases 200 locks of 20 s, one after the other. What is sent to one of five " +
		"masters arrives 15 ms later, on each connection for itself.",
	want: "A second after the last release, none is left.",
	peers: []subject{
		redigoSecond.with("; `WithFailFast`", 5, failFastCycles),
		goRedisDefault.with("; `WithFailFast`", 5, failFastCycles),
		goRedisContext.with("; `WithFailFast`", 5, failFastCycles),
	},
	ours:  ours(5, cyclesOurs),
	tests: []string{"TestStragglersLeaveNoOrphans"},
}

func failFastCycles(ctx context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
	return m.cycles(func(name string) error {
		mutex := rs.NewMutex(name, redsync.WithFailFast(true), redsync.WithExpiry(20*time.Second))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		_, err := mutex.UnlockContext(ctx)
		return err
	})
}

func (m *masters) cycles(cycle func(name string) error) (outcome, error) {
	m.last().proxy.Delay(faultproxy.Up, 15*time.Millisecond)
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i := range 200 {
		if err := cycle(name(i)); err != nil {
			return outcome{}, err
		}
	}
	time.Sleep(time.Second)
	left := 0
	for i := range 200 {
		n, err := m.have(name(i), 5)
		if err != nil {
			return outcome{}, err
		}
		left += min(n, 1)
	}
	return outcome{fmt.Sprintf("%d of 200 are left", left), left == 0}, nil
}

var extendAfterExpiry = fault{
	name:  "redsync-extend-revives",
	about: "A lock of 1 s expires; another client acquires and releases it; then the first client extends its lock.",
	want:  "Extend fails: another client has held the lock in between.",
	peers: []subject{
		redigoSecond.with("; `WithSetNXOnExtend`", 3, extendTooLate(redsync.WithSetNXOnExtend())),
		redigoSecond.with("", 3, extendTooLate()),
	},
	ours:  ours(3, extendTooLateOurs, "no renewal"),
	tests: []string{"TestExtendNeverBringsBackALostHold"},
}

func extendTooLate(opts ...redsync.Option) redsyncRun {
	return func(_ context.Context, m *masters, rs *redsync.Redsync) (outcome, error) {
		mutex := rs.NewMutex("n", append(opts, redsync.WithExpiry(time.Second))...)
		if err := mutex.Lock(); err != nil {
			return outcome{}, err
		}
		another := func() error {
			rs, closeAll := redigoSecond.connect(m.addrs())
			defer closeAll()
			mutex := rs.NewMutex("n")
			if err := mutex.Lock(); err != nil {
				return err
			}
			_, err := mutex.Unlock()
			return err
		}
		return m.extendedTooLate(another, func() (bool, error) { return mutex.Extend() })
	}
}

// extendedTooLate extends a lock that has expired, and that another client has held.
func (m *masters) extendedTooLate(another func() error, extend func() (bool, error)) (outcome, error) {
	if err := m.gone("n"); err != nil {
		return outcome{}, err
	}
	if err := another(); err != nil {
		return outcome{}, err
	}
	ok, err := extend()
	seen := "Extend failed: " + brief(err)
	if ok {
		seen = "Extend succeeded"
	}
	n, err := m.have("n", 3)
	return outcome{fmt.Sprintf("%s; %d of 3 masters have the key then", seen, n), !ok && n == 0}, err
}

func init() { goredis.SetLogger(silent{}) } // else a line for each connection that fails

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
