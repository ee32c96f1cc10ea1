package main

import (
	"context"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
)

const (
	ourModule     = "github.com/quorumlock/redlock"
	redigoModule  = "github.com/gomodule/redigo"
	goRedisModule = "github.com/redis/go-redis/v9"
)

// A subject is a library in one configuration, as its documentation says. Where a time-out is missing by default, it is
// shown with one as well.
type subject struct {
	contestant        // its name is the library's
	module     string // the library's
	client     string // the module of the Redis client that the library was given; empty: it has none or its own
	config     string // time-outs above all
	// patience is how long the context of an extension lasts; 0: it does not end.
	patience time.Duration
}

func impatient(s subject) subject {
	s.patience = time.Second
	return s
}

// use opens a library's client, and lets it connect by a first lock.
func (s subject) use(ctx context.Context, nodes []string, w wish) (*client, worker) {
	c := made(s.open(nodes, w))
	one := made(c.worker())
	if err := one.cycle(ctx, "warm"); err != nil {
		c.close()
		must(err)
	}
	return c, one
}

// redlockOn is this library with its defaults, but for the restart guard: the masters have just been started. more is
// what else is to be said.
func redlockOn(n int, more ...string) subject {
	return subject{
		contestant: contestant{name: "redlock", nodes: n, open: openRedlock(locks)}, module: ourModule,
		config: strings.Join(append([]string{"its defaults (node timeout 250 ms), no restart guard"}, more...), "; "),
	}
}

// A setting is redsync over a Redis client with certain time-outs.
type setting struct {
	client, timeouts string
	pool             openPool
}

var (
	redigoDefault  = setting{redigoModule, "no time-outs, redigo's default", redigoPool()}
	redigoSecond   = setting{redigoModule, "time-outs of 1 s (connect, read, write)", redigoPool(inASecond...)}
	goRedisDefault = setting{goRedisModule, "go-redis's default time-outs, 5 s", goRedisPool(goredis.Options{})}
	goRedisSecond  = setting{goRedisModule, "time-outs of 1 s (connect, read, write)", goRedisPool(goredis.Options{
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})}
	// go-redis honours a context's deadline only then, and redsync gives it one for each attempt: 5 % of the TTL.
	goRedisContext = setting{goRedisModule, "`ContextTimeoutEnabled`", goRedisPool(goredis.Options{
		ContextTimeoutEnabled: true,
	})}

	settings = []setting{redigoDefault, redigoSecond, goRedisDefault, goRedisSecond, goRedisContext}
)

// with is redsync in this setting on n masters. more is what else is set, by opts.
func (s setting) with(n int, more string, opts ...redsync.Option) subject {
	return subject{
		contestant: contestant{name: "redsync", nodes: n, open: openRedsync(s.pool, opts...)},
		module:     "github.com/go-redsync/redsync/v4", client: s.client, config: s.timeouts + more,
	}
}

// inAll are these settings, on three masters.
func inAll(of []setting) (all []subject) {
	for _, s := range of {
		all = append(all, s.with(3, ""))
	}
	return all
}

// on1 is rueidislock, which has one client and so one master.
func on1(config string, opts rueidislock.LockerOption) subject {
	return subject{
		contestant: contestant{name: "rueidislock", nodes: 1, open: openRueidislock(opts)},
		module:     "github.com/redis/rueidis", config: config,
	}
}

// onBsm is bsm/redislock, which has one client and so one master.
func onBsm(config string) subject {
	return subject{contestant: bsmGoRedis1, module: "github.com/bsm/redislock", client: goRedisModule, config: config}
}
