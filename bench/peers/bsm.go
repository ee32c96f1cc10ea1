package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// onBsm is bsm/redislock, which has one client and so one master.
func onBsm(config string, run func(ctx context.Context, m *masters, locks *redislock.Client) (outcome, error)) subject {
	return subject{
		library: "bsm/redislock", module: "github.com/bsm/redislock", client: goRedisModule, config: config, masters: 1,
		run: func(ctx context.Context, m *masters) (outcome, error) {
			c := goredis.NewClient(&goredis.Options{Addr: m.addrs()[0]})
			defer c.Close()
			if err := c.Ping(ctx).Err(); err != nil { // so a short TTL is not over before there is a connection
				return outcome{}, err
			}
			return run(ctx, m, redislock.New(c))
		},
	}
}

var ownerPrefix = fault{
	name:  "bsm-owner-prefix",
	about: "The owner `worker-12` holds a lock; the owner `worker-1` tries to acquire it, and releases what it gets.",
	want:  "`worker-1` does not get it.",
	peers: []subject{onBsm("`Options.Token` is the owner's name", ownerPrefixBsm)},
	ours:  ours(3, ownerPrefixOurs, "`WithOwnerLabel` is the owner's name"),
	tests: []string{"TestAnOwnerThatIsAPrefixOfAnotherStealsNothing"},
}

func ownerPrefixBsm(ctx context.Context, _ *masters, locks *redislock.Client) (outcome, error) {
	held, err := locks.Obtain(ctx, "n", time.Minute, &redislock.Options{Token: "worker-12"})
	if err != nil {
		return outcome{}, err
	}
	stolen, err := locks.Obtain(ctx, "n", time.Minute, &redislock.Options{Token: "worker-1"})
	if err != nil {
		return outcome{
			fmt.Sprintf("worker-1's Obtain: %s", brief(err)), errors.Is(err, redislock.ErrNotObtained),
		}, nil
	}
	refreshed := held.Refresh(ctx, time.Minute, nil)
	return outcome{fmt.Sprintf("worker-1's Obtain: %s; worker-12's Refresh: %s; worker-1's Release: %s",
		brief(nil), brief(refreshed), brief(stolen.Release(ctx))), false}, nil
}

var shortTTL = fault{
	name:  "bsm-short-ttl",
	about: "Somebody asks for a lock with a TTL of 0.5 ms, and sets that TTL for a lock that is held.",
	want:  "Both are errors, since Redis counts in milliseconds.",
	peers: []subject{onBsm("go-redis's default time-outs", shortTTLBsm)},
	ours:  ours(3, shortTTLOurs, "a hold's TTL cannot be changed"),
	tests: []string{"TestBadOptionsAreRefused"},
}

func shortTTLBsm(ctx context.Context, m *masters, locks *redislock.Client) (outcome, error) {
	const short = 500 * time.Microsecond
	_, obtained := locks.Obtain(ctx, "n", short, nil)
	held, err := locks.Obtain(ctx, "m", time.Minute, nil)
	if err != nil {
		return outcome{}, err
	}
	refreshed := held.Refresh(ctx, short, nil)
	n, err := m.have("m", 1)
	there := "there"
	if n == 0 {
		there = "gone"
	}
	return outcome{
		fmt.Sprintf("Obtain: %s; Refresh: %s, and the key is %s then", brief(obtained), brief(refreshed), there),
		obtained != nil && refreshed != nil && n == 1,
	}, err
}
