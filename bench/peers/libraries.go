package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock"
)

const (
	ourModule     = "github.com/quorumlock/redlock"
	redigoModule  = "github.com/gomodule/redigo"
	goRedisModule = "github.com/redis/go-redis/v9"
)

// A subject is a library in one configuration.
type subject struct {
	library string
	module  string // the library's
	client  string // the module of the Redis client that the library was given; empty: it has none or its own
	config  string // time-outs above all
	masters int
	// patience is how long the context of an extension lasts; 0: it does not end.
	patience time.Duration
	open     func(nodes []string, w wish) *locks
}

// A wish is what a fault asks of all libraries.
type wish struct {
	ttl     time.Duration // 0: the library's own
	owner   string        // "": a random one
	renewed bool          // as long as the library renews at all
}

// locks are those of one client of a library. lock waits for a taken name, and try does not.
type locks struct {
	lock, try func(ctx context.Context, name string) (*held, error)
	close     func()
}

// held is a lock that is held; what no fault asks of its library is nil.
type held struct {
	unlock, extend func(ctx context.Context) error
	until          func() time.Time
	context        func(context.Context) (context.Context, context.CancelFunc) // ends with the lock
}

func (s subject) patient(d time.Duration) subject {
	s.patience = d
	return s
}

// use opens a library's client, and lets it connect by a first lock.
func (s subject) use(ctx context.Context, nodes []string, w wish) *locks {
	l := s.open(nodes, w)
	if err := l.cycle(ctx, "warm"); err != nil {
		l.close()
		must(err)
	}
	return l
}

func (l *locks) cycle(ctx context.Context, name string) error {
	h, err := l.lock(ctx, name)
	if err != nil {
		return err
	}
	return h.unlock(ctx)
}

// ours is this library with its defaults, but for the restart guard: the masters have just been started. more is what
// else is to be said.
func ours(n int, more ...string) subject {
	return subject{
		library: "redlock", module: ourModule, masters: n, open: openRedlock,
		config: strings.Join(append([]string{"its defaults (node timeout 250 ms), no restart guard"}, more...), "; "),
	}
}

// noGuard is for masters that have just been started.
var noGuard = redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true})

func openRedlock(nodes []string, w wish) *locks {
	urls := make([]string, len(nodes))
	for i, node := range nodes {
		urls[i] = "redis://" + node
	}
	opts := []redlock.Option{noGuard, redlock.WithOwnerLabel(w.owner)}
	if w.ttl > 0 {
		opts = append(opts, redlock.WithTTL(w.ttl))
	}
	if !w.renewed {
		opts = append(opts, redlock.WithoutRenewal())
	}
	l := made(redlock.New(urls, opts...))
	hold := func(k *redlock.Lock, err error) (*held, error) {
		if err != nil {
			return nil, err
		}
		unlock := func(context.Context) error { return k.Unlock() }
		return &held{unlock: unlock, extend: k.Extend, until: k.Deadline, context: k.Context}, nil
	}
	return &locks{
		lock:  func(ctx context.Context, name string) (*held, error) { return hold(l.Lock(ctx, name)) },
		try:   func(ctx context.Context, name string) (*held, error) { return hold(l.TryLock(ctx, name)) },
		close: func() { _ = l.Close() },
	}
}

// A setting is redsync over a Redis client with certain time-outs.
type setting struct {
	client, timeouts string
	pool             func(node string) (rsredis.Pool, func() error)
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
func overRedigo(opts ...redis.DialOption) func(string) (rsredis.Pool, func() error) {
	return func(node string) (rsredis.Pool, func() error) {
		p := &redis.Pool{
			MaxIdle: 3, IdleTimeout: 240 * time.Second,
			Dial: func() (redis.Conn, error) { return redis.Dial("tcp", node, opts...) },
		}
		return rsredigo.NewPool(p), p.Close
	}
}

func overGoRedis(opts goredis.Options) func(string) (rsredis.Pool, func() error) {
	return func(node string) (rsredis.Pool, func() error) {
		opts := opts
		opts.Addr = node
		c := goredis.NewClient(&opts)
		return rsgoredis.NewPool(c), c.Close
	}
}

func init() { goredis.SetLogger(silent{}) } // else a line for each connection that fails

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// with is redsync in this setting on n masters. more is what else is set, by opts.
func (s setting) with(n int, more string, opts ...redsync.Option) subject {
	return subject{
		library: "redsync", module: "github.com/go-redsync/redsync/v4", client: s.client, config: s.timeouts + more,
		masters: n, open: func(nodes []string, w wish) *locks { return s.redsync(nodes, w, opts) },
	}
}

// inAll are these settings, on three masters.
func inAll(of []setting) (all []subject) {
	for _, s := range of {
		all = append(all, s.with(3, ""))
	}
	return all
}

func (s setting) redsync(nodes []string, w wish, opts []redsync.Option) *locks {
	var pools []rsredis.Pool
	var closers []func() error
	for _, node := range nodes {
		p, closer := s.pool(node)
		pools, closers = append(pools, p), append(closers, closer)
	}
	rs := redsync.New(pools...)
	if w.ttl > 0 {
		opts = append(slices.Clip(opts), redsync.WithExpiry(w.ttl))
	}
	acquire := func(ctx context.Context, name string, by func(*redsync.Mutex, context.Context) error) (*held, error) {
		mutex := rs.NewMutex(name, opts...)
		if err := by(mutex, ctx); err != nil {
			return nil, err
		}
		done := func(ok bool, err error) error {
			if err == nil && !ok {
				err = errors.New("it did not")
			}
			return err
		}
		return &held{
			unlock: func(ctx context.Context) error { return done(mutex.UnlockContext(ctx)) },
			extend: func(ctx context.Context) error { return done(mutex.ExtendContext(ctx)) },
			until:  mutex.Until,
		}, nil
	}
	return &locks{
		lock: func(ctx context.Context, name string) (*held, error) {
			return acquire(ctx, name, (*redsync.Mutex).LockContext)
		},
		try: func(ctx context.Context, name string) (*held, error) {
			return acquire(ctx, name, (*redsync.Mutex).TryLockContext)
		},
		close: func() {
			for _, closer := range closers {
				_ = closer() // nothing is written any more
			}
		},
	}
}

// on1 is rueidislock, which has one client and so one master.
func on1(config string, opts rueidislock.LockerOption) subject {
	return subject{
		library: "rueidislock", module: "github.com/redis/rueidis", config: config, masters: 1,
		open: func(nodes []string, w wish) *locks {
			opts := opts
			opts.ClientOption.InitAddress, opts.KeyValidity = nodes, w.ttl
			l := made(rueidislock.NewLocker(opts))
			hold := func(ended context.Context, cancel context.CancelFunc, err error) (*held, error) {
				if err != nil {
					return nil, err
				}
				return &held{
					unlock:  func(context.Context) error { cancel(); return nil },
					context: func(context.Context) (context.Context, context.CancelFunc) { return ended, func() {} },
				}, nil
			}
			return &locks{
				lock:  func(ctx context.Context, name string) (*held, error) { return hold(l.WithContext(ctx, name)) },
				try:   func(ctx context.Context, name string) (*held, error) { return hold(l.TryWithContext(ctx, name)) },
				close: l.Close,
			}
		},
	}
}

// onBsm is bsm/redislock, which has one client and so one master. Its try is all that it has without a retry strategy.
func onBsm(config string) subject {
	return subject{
		library: "bsm/redislock", module: "github.com/bsm/redislock", client: goRedisModule, config: config, masters: 1,
		open: func(nodes []string, w wish) *locks {
			c := goredis.NewClient(&goredis.Options{Addr: nodes[0]})
			client := redislock.New(c)
			ttl := cmp.Or(w.ttl, time.Minute)
			try := func(ctx context.Context, name string) (*held, error) {
				l, err := client.Obtain(ctx, name, ttl, &redislock.Options{Token: w.owner})
				if err != nil {
					return nil, err
				}
				return &held{
					unlock: l.Release,
					extend: func(ctx context.Context) error { return l.Refresh(ctx, ttl, nil) },
				}, nil
			}
			return &locks{lock: try, try: try, close: func() { _ = c.Close() }}
		},
	}
}
