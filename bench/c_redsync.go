package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// redsync with its defaults, but for the expiry, and with pools large enough that nobody waits for a connection.
var (
	redsyncRedigo5      = redsyncOver("redigo", redigoPool(false), false)
	redsyncFailFast5    = redsyncOver("redigo", redigoPool(false), true)
	redsyncGoRedis5     = redsyncOver("go-redis", goRedisPool, false)
	redsyncGoRedisFast5 = redsyncOver("go-redis", goRedisPool, true)
	redsyncRueidis5     = redsyncOver("rueidis", rueidisPool, false)
	redsyncRueidisFast5 = redsyncOver("rueidis", rueidisPool, true)
	redsyncRedigoTLS5   = redsyncOver("redigo", redigoPool(true), false)
)

// An openPool opens a pool of connections to one node for so many goroutines.
type openPool func(node string, goroutines int) (pool rsredis.Pool, closePool func() error, err error)

func redsyncOver(library string, open openPool, failFast bool) contestant {
	name, opts := "redsync+"+library, []redsync.Option{redsync.WithExpiry(lockTTL)}
	if failFast {
		name, opts = name+" fail-fast", append(opts, redsync.WithFailFast(true))
	}
	return contestant{
		name: name, nodes: 5,
		open: func(nodes []string, goroutines int) (*client, error) {
			return openRedsync(nodes, goroutines, open, opts)
		},
	}
}

func openRedsync(nodes []string, goroutines int, open openPool, opts []redsync.Option) (*client, error) {
	var pools []rsredis.Pool
	var closers []func() error
	closeAll := func() {
		for _, closePool := range closers {
			_ = closePool()
		}
	}
	for _, node := range nodes {
		pool, closePool, err := open(node, goroutines)
		if err != nil {
			closeAll()
			return nil, err
		}
		pools, closers = append(pools, pool), append(closers, closePool)
	}
	rs := redsync.New(pools...)
	return &client{
		worker: func() (worker, error) {
			var held *redsync.Mutex
			return worker{
				lock: func(ctx context.Context, name string) error {
					held = rs.NewMutex(name, opts...)
					return held.LockContext(ctx)
				},
				unlock: func(ctx context.Context) error { _, err := held.UnlockContext(ctx); return err },
			}, nil
		},
		close: closeAll,
	}, nil
}

func redigoPool(tls bool) openPool {
	return func(node string, goroutines int) (rsredis.Pool, func() error, error) {
		opts := []redis.DialOption{
			redis.DialConnectTimeout(peerTimeout), redis.DialReadTimeout(peerTimeout), redis.DialWriteTimeout(peerTimeout),
		}
		if tls {
			opts = append(opts, redis.DialUseTLS(true), redis.DialTLSConfig(authority().ClientConfig()))
		}
		p := &redis.Pool{
			MaxIdle: goroutines, IdleTimeout: time.Minute,
			DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", node, opts...) },
		}
		return rsredigo.NewPool(p), p.Close, nil
	}
}

func goRedisPool(node string, goroutines int) (rsredis.Pool, func() error, error) {
	c := goRedis(node, goroutines)
	return rsgoredis.NewPool(c), c.Close, nil
}

// goRedis has go-redis's defaults (3 s read, 3 retries), but for the size of the pool.
func goRedis(node string, goroutines int) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: node, PoolSize: max(goroutines, 10)})
}

func init() { goredis.SetLogger(silent{}) } // else a line for each refused connection

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
