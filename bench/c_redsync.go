package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// redsync with its defaults, but for the expiry, and with pools large enough that nobody waits for a connection.
var (
	redsyncRedigo5      = redsyncOver("redigo", redigoPool(inASecond...))
	redsyncFailFast5    = redsyncOver("redigo", redigoPool(inASecond...), redsync.WithFailFast(true))
	redsyncGoRedis5     = redsyncOver("go-redis", goRedisPool(goredis.Options{}))
	redsyncGoRedisFast5 = redsyncOver("go-redis", goRedisPool(goredis.Options{}), redsync.WithFailFast(true))
	redsyncRueidis5     = redsyncOver("rueidis", rueidisPool)
	redsyncRueidisFast5 = redsyncOver("rueidis", rueidisPool, redsync.WithFailFast(true))
	redsyncRedigoTLS5   = redsyncOver("redigo", redigoPoolTLS)
)

var inASecond = []redis.DialOption{
	redis.DialConnectTimeout(peerTimeout), redis.DialReadTimeout(peerTimeout), redis.DialWriteTimeout(peerTimeout),
}

// An openPool opens a pool of connections to one node for so many goroutines.
type openPool func(node string, goroutines int) (pool rsredis.Pool, closePool func() error)

func redsyncOver(library string, pool openPool, opts ...redsync.Option) contestant {
	name := "redsync+" + library
	if len(opts) > 0 {
		name += " fail-fast"
	}
	return contestant{name: name, nodes: 5, open: openRedsync(pool, opts...)}
}

func openRedsync(open openPool, opts ...redsync.Option) opener {
	return func(nodes []string, w wish) *client {
		opts := slices.Clip(opts)
		if w.ttl > 0 {
			opts = append(opts, redsync.WithExpiry(w.ttl))
		}
		var pools []rsredis.Pool
		var closers []func() error
		for _, node := range nodes {
			pool, closePool := open(node, w.goroutines)
			pools, closers = append(pools, pool), append(closers, closePool)
		}
		rs := redsync.New(pools...)
		done := func(ok bool, err error) error {
			if err == nil && !ok {
				err = errors.New("it did not")
			}
			return err
		}
		return &client{
			worker: func() worker {
				var held *redsync.Mutex
				return worker{
					lock: func(ctx context.Context, name string) error {
						held = rs.NewMutex(name, opts...)
						return held.LockContext(ctx)
					},
					try: func(ctx context.Context, name string) error {
						held = rs.NewMutex(name, opts...)
						return held.TryLockContext(ctx)
					},
					unlock: func(ctx context.Context) error { return done(held.UnlockContext(ctx)) },
					extend: func(ctx context.Context) error { return done(held.ExtendContext(ctx)) },
					until:  func() time.Time { return held.Until() },
				}
			},
			close: func() {
				for _, closePool := range closers {
					_ = closePool()
				}
			},
		}
	}
}

// redigoPool has the pool that redigo's documentation shows.
func redigoPool(opts ...redis.DialOption) openPool {
	return func(node string, goroutines int) (rsredis.Pool, func() error) {
		p := &redis.Pool{
			MaxIdle: max(goroutines, 3), IdleTimeout: 240 * time.Second,
			Dial: func() (redis.Conn, error) { return redis.Dial("tcp", node, opts...) },
		}
		return rsredigo.NewPool(p), p.Close
	}
}

func redigoPoolTLS(node string, goroutines int) (rsredis.Pool, func() error) {
	trust := redis.DialTLSConfig(authority().ClientConfig())
	return redigoPool(append(slices.Clip(inASecond), redis.DialUseTLS(true), trust)...)(node, goroutines)
}

// goRedisPool has go-redis's defaults (5 s read, 3 retries) but for these options, and the size of the pool.
func goRedisPool(opts goredis.Options) openPool {
	return func(node string, goroutines int) (rsredis.Pool, func() error) {
		opts := opts
		opts.Addr, opts.PoolSize = node, max(goroutines, 10)
		c := goredis.NewClient(&opts)
		return rsgoredis.NewPool(c), c.Close
	}
}

func init() { goredis.SetLogger(silent{}) } // else a line for each refused connection

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// rueidisPool is one connection for all goroutines, pipelined. redsync's own adapter goes through rueidis's layer for
// go-redis's interface; this one asks rueidis itself, which leaves that work out.
func rueidisPool(node string, _ int) (rsredis.Pool, func() error) {
	c := made(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{node}}))
	return overRueidis{c}, func() error { c.Close(); return nil }
}

type overRueidis struct{ c rueidis.Client }

func (p overRueidis) Get(ctx context.Context) (rsredis.Conn, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	return rueidisConn{c: p.c, ctx: ctx}, nil
}

// A rueidisConn has what redsync's lock and unlock call.
type rueidisConn struct {
	rsredis.Conn // nil: the others

	c   rueidis.Client
	ctx context.Context
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	set := c.c.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()
	reply, err := c.c.Do(c.ctx, set).ToString()
	return reply == "OK", unlessNil(err)
}

func (c rueidisConn) Eval(script *rsredis.Script, keysAndArgs ...any) (any, error) {
	all := make([]string, len(keysAndArgs))
	for i, a := range keysAndArgs {
		all[i] = fmt.Sprint(a)
	}
	keys, args := all[:script.KeyCount], all[script.KeyCount:]
	n := int64(script.KeyCount)
	reply, err := c.c.Do(c.ctx, c.c.B().Evalsha().Sha1(script.Hash).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = c.c.Do(c.ctx, c.c.B().Eval().Script(script.Src).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	}
	return reply, unlessNil(err)
}

func (c rueidisConn) Close() error { return nil } // it is everybody's

func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
