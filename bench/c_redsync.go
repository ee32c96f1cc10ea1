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

// redsync with its defaults, but for the expiry, and with pools large enough that nobody
// waits for a connection.
var (
	redsyncRedigo5 = contestant{
		name: "redsync+redigo", nodes: 5, waits: true, native: []string{"set"},
		open: func(nodes []string, goroutines int) (client, error) {
			return openRedsync(nodes, redigoPool(goroutines))
		},
	}
	redsyncGoRedis5 = contestant{
		name: "redsync+go-redis", nodes: 5, waits: true, native: []string{"set"},
		open: func(nodes []string, goroutines int) (client, error) {
			return openRedsync(nodes, goRedisPool(goroutines))
		},
	}
	redsyncFailFast5 = contestant{
		name: "redsync+redigo fail-fast", nodes: 5, waits: true, native: []string{"set"},
		open: func(nodes []string, goroutines int) (client, error) {
			return openRedsync(nodes, redigoPool(goroutines), redsync.WithFailFast(true))
		},
	}
	redsyncGoRedisFast5 = contestant{
		name: "redsync+go-redis fail-fast", nodes: 5, waits: true, native: []string{"set"},
		open: func(nodes []string, goroutines int) (client, error) {
			return openRedsync(nodes, goRedisPool(goroutines), redsync.WithFailFast(true))
		},
	}
)

func init() { goredis.SetLogger(silent{}) } // else a line for each refused connection

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

type redsyncClient struct {
	rs      *redsync.Redsync
	opts    []redsync.Option
	closers []func() error
}

type openPool func(node string) (rsredis.Pool, func() error, error)

func redigoPool(goroutines int, opts ...redis.DialOption) openPool {
	opts = append(opts, redis.DialConnectTimeout(peerTimeout),
		redis.DialReadTimeout(peerTimeout), redis.DialWriteTimeout(peerTimeout))
	return func(node string) (rsredis.Pool, func() error, error) {
		p := &redis.Pool{
			MaxIdle: goroutines, IdleTimeout: time.Minute,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", node, opts...)
			},
		}
		return rsredigo.NewPool(p), p.Close, nil
	}
}

func goRedisPool(goroutines int) openPool {
	return func(node string) (rsredis.Pool, func() error, error) {
		c := goRedis(node, goroutines)
		return rsgoredis.NewPool(c), c.Close, nil
	}
}

// goRedis has go-redis's defaults (3 s read, 3 retries), but for the size of the pool.
func goRedis(node string, goroutines int) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: node, PoolSize: max(goroutines, 10)})
}

func openRedsync(nodes []string, open openPool, opts ...redsync.Option) (client, error) {
	c := &redsyncClient{opts: append(opts, redsync.WithExpiry(lockTTL))}
	var pools []rsredis.Pool
	for _, node := range nodes {
		p, closer, err := open(node)
		if err != nil {
			c.close()
			return nil, err
		}
		pools = append(pools, p)
		c.closers = append(c.closers, closer)
	}
	c.rs = redsync.New(pools...)
	return c, nil
}

func (c *redsyncClient) worker() (worker, error) { return &redsyncWorker{c: c}, nil }

func (c *redsyncClient) close() {
	for _, closer := range c.closers {
		_ = closer()
	}
}

type redsyncWorker struct {
	c *redsyncClient
	m *redsync.Mutex
}

func (w *redsyncWorker) lock(ctx context.Context, name string) error {
	w.m = w.c.rs.NewMutex(name, w.c.opts...)
	return w.m.LockContext(ctx)
}

func (w *redsyncWorker) unlock(ctx context.Context) error {
	_, err := w.m.UnlockContext(ctx)
	return err
}
