package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Locks on one master.

// bsm/redislock. Where the name is taken it retries with the back-off of its own README: linear, here 10 ms to match
// the first step of ours.
var bsmGoRedis1 = contestant{name: "bsm/redislock", nodes: 1, open: openBsm}

func openBsm(nodes []string, w wish) *client {
	c := goredis.NewClient(&goredis.Options{Addr: nodes[0], PoolSize: max(w.goroutines, 10)})
	locks := redislock.New(c)
	ttl := cmp.Or(w.ttl, time.Minute) // it has none of its own
	return &client{
		worker: func() worker {
			once := &redislock.Options{Token: w.owner}
			waits := &redislock.Options{Token: w.owner, RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
			var held *redislock.Lock
			return worker{
				lock: func(ctx context.Context, name string) (err error) {
					held, err = locks.Obtain(ctx, name, ttl, waits)
					return err
				},
				try: func(ctx context.Context, name string) (err error) {
					held, err = locks.Obtain(ctx, name, ttl, once)
					return err
				},
				unlock: func(ctx context.Context) error { return held.Release(ctx) },
				extend: func(ctx context.Context) error { return held.Refresh(ctx, ttl, nil) },
			}
		},
		close: func() { _ = c.Close() },
	}
}

// A rueidislock with one key (KeyMajority 1), its fastest setting. NoLoopTracking is no faster here and hung one run in
// five. It waits for no answer to its release.
var rueidislock1 = contestant{name: "rueidislock", nodes: 1, open: openRueidislock(rueidislock.LockerOption{
	ClientOption: rueidis.ClientOption{DisableRetry: true}, KeyMajority: 1,
})}

func openRueidislock(opts rueidislock.LockerOption) opener {
	return func(nodes []string, w wish) *client {
		opts := opts
		opts.ClientOption.InitAddress, opts.KeyValidity = nodes, w.ttl
		l := made(rueidislock.NewLocker(opts))
		return &client{
			worker: func() worker {
				var held context.Context
				var cancel context.CancelFunc
				return worker{
					lock: func(ctx context.Context, name string) (err error) {
						held, cancel, err = l.WithContext(ctx, name) //nolint:fatcontext // its own
						return err
					},
					try: func(ctx context.Context, name string) (err error) {
						held, cancel, err = l.TryWithContext(ctx, name) //nolint:fatcontext // its own
						return err
					},
					unlock:  func(context.Context) error { cancel(); return nil },
					context: func(context.Context) (context.Context, context.CancelFunc) { return held, func() {} },
				}
			},
			close: l.Close,
		}
	}
}

const releaseScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// bareSetNX1 is no library: SET NX PX and a compare-and-delete script, with a connection for each goroutine. What a
// careful person writes by hand.
var bareSetNX1 = contestant{name: "bare SET NX", nodes: 1, open: func(nodes []string, w wish) *client {
	return &client{worker: func() worker { return bareWorker(nodes[0], w.ttl) }, close: func() {}}
}}

func bareWorker(node string, ttl time.Duration) worker {
	conn := made(redis.Dial("tcp", node))
	sha := made(redis.String(conn.Do("SCRIPT", "LOAD", releaseScript)))
	var held, owner string
	return worker{
		lock: func(ctx context.Context, name string) error {
			for ; ; time.Sleep(5 * time.Millisecond) {
				held, owner = name, uuid.NewString()
				reply, err := conn.Do("SET", held, owner, "NX", "PX", ttl.Milliseconds())
				if reply == nil {
					err = cmp.Or(err, ctx.Err())
				}
				if err != nil || reply != nil {
					return err
				}
			}
		},
		unlock: func(context.Context) error {
			deleted, err := redis.Int(conn.Do("EVALSHA", sha, 1, held, owner))
			if err == nil && deleted == 0 {
				err = errors.New("the key was not ours")
			}
			return err
		},
		close: func() { _ = conn.Close() },
	}
}
