package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// bsm/redislock on one node. Where the name is taken it retries with the back-off of its
// own README: linear, here 10 ms to match the first step of ours.
var bsmGoRedis1 = contestant{
	name: "bsm/redislock", nodes: 1, waits: true,
	open: func(nodes []string, goroutines int) (client, error) {
		c := goRedis(nodes[0], goroutines)
		return &bsmClient{c, redislock.New(c)}, nil
	},
}

type bsmClient struct {
	redis *goredis.Client
	locks *redislock.Client
}

func (c *bsmClient) worker() (worker, error) {
	return &bsmWorker{c: c, opts: &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}}, nil
}
func (c *bsmClient) close() { _ = c.redis.Close() }

type bsmWorker struct {
	c    *bsmClient
	opts *redislock.Options
	l    *redislock.Lock
}

func (w *bsmWorker) lock(ctx context.Context, name string) (err error) {
	w.l, err = w.c.locks.Obtain(ctx, name, lockTTL, w.opts)
	return err
}

func (w *bsmWorker) unlock(ctx context.Context) error { return w.l.Release(ctx) }
