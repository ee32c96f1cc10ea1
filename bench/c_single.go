package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Locks on one master.

// bsm/redislock. Where the name is taken it retries with the back-off of its own README: linear, here 10 ms to match
// the first step of ours.
var bsmGoRedis1 = contestant{name: "bsm/redislock", nodes: 1, open: func(nodes []string, n int) (*client, error) {
	c := goRedis(nodes[0], n)
	locks := redislock.New(c)
	return &client{
		worker: func() (worker, error) {
			opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
			var held *redislock.Lock
			return worker{
				lock: func(ctx context.Context, name string) (err error) {
					held, err = locks.Obtain(ctx, name, lockTTL, opts)
					return err
				},
				unlock: func(ctx context.Context) error { return held.Release(ctx) },
			}, nil
		},
		close: func() { _ = c.Close() },
	}, nil
}}

// A rueidislock with one key (KeyMajority 1), its fastest setting. NoLoopTracking is no faster here and hung one run in
// five. It waits for no answer to its release.
var rueidislock1 = contestant{name: "rueidislock", nodes: 1, open: func(nodes []string, _ int) (*client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: nodes[:1], DisableRetry: true},
		KeyValidity:  lockTTL,
		KeyMajority:  1,
	})
	if err != nil {
		return nil, err
	}
	return &client{
		worker: func() (worker, error) {
			var cancel context.CancelFunc
			return worker{
				lock: func(ctx context.Context, name string) (err error) {
					_, cancel, err = l.WithContext(ctx, name)
					return err
				},
				unlock: func(context.Context) error { cancel(); return nil },
			}, nil
		},
		close: l.Close,
	}, nil
}}

const releaseScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// bareSetNX1 is no library: SET NX PX and a compare-and-delete script, with a connection for each goroutine. What a
// careful person writes by hand.
var bareSetNX1 = contestant{name: "bare SET NX", nodes: 1, open: func(nodes []string, _ int) (*client, error) {
	return &client{worker: func() (worker, error) { return bareWorker(nodes[0], lockTTL) }, close: func() {}}, nil
}}

// errTaken says that another client holds the lock.
var errTaken = errors.New("taken")

func bareWorker(node string, ttl time.Duration) (w worker, err error) {
	conn, err := redis.Dial("tcp", node)
	if err != nil {
		return w, err
	}
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", releaseScript))
	var held, owner string
	return worker{
		lock: func(_ context.Context, name string) error {
			held, owner = name, uuid.NewString()
			reply, err := conn.Do("SET", held, owner, "NX", "PX", ttl.Milliseconds())
			if err == nil && reply == nil {
				err = errTaken
			}
			return err
		},
		unlock: func(context.Context) error {
			deleted, err := redis.Int(conn.Do("EVALSHA", sha, 1, held, owner))
			if err == nil && deleted == 0 {
				err = errors.New("the key was not ours")
			}
			return err
		},
		close: func() { _ = conn.Close() },
	}, err
}
