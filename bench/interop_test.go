package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// The lock key is what the Redis documentation describes, so redsync and redlock
// exclude each other on the same name, in both directions and both modes.
func TestRedsyncAndRedlockExcludeEachOther(t *testing.T) {
	servers := cases.Must(startServers(5, redisserver.Config{}))(t)
	defer stopServers(servers)
	var urls []string
	var pools []rsredis.Pool
	for _, addr := range addrs(servers) {
		urls = append(urls, "redis://"+addr)
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
		defer pool.Close()
		pools = append(pools, rsredigo.NewPool(pool))
	}
	theirs := redsync.New(pools...)
	for name, opts := range map[string][]redlock.Option{"fenced": nil, "plain": {redlock.WithoutFencing()}} {
		t.Run(name, func(t *testing.T) {
			ours := cases.Must(redlock.New(urls, append(opts, noGuard)...))(t)
			defer ours.Close()

			lock := cases.Must(ours.Lock(t.Context(), name))(t)
			mutex := theirs.NewMutex(name, redsync.WithTries(1))
			var taken *redsync.ErrTaken
			if err := mutex.TryLockContext(t.Context()); !errors.As(err, &taken) {
				t.Errorf("redsync, while redlock holds: got %v, want ErrTaken", err)
			}
			cases.NoError(t, lock.Unlock())

			if err := mutex.LockContext(t.Context()); err != nil {
				t.Fatalf("redsync, after redlock's Unlock: %v", err)
			}
			if _, err := ours.TryLock(t.Context(), name); !errors.Is(err, redlock.ErrTaken) {
				t.Errorf("redlock, while redsync holds: got %v, want ErrTaken", err)
			}
			// A waiter is not told of redsync's release, and notices it all the same.
			waited := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			go func() {
				lock, err := ours.Lock(ctx, name)
				if err == nil {
					err = lock.Unlock()
				}
				waited <- err
			}()
			if ok, err := mutex.UnlockContext(t.Context()); !ok || err != nil {
				t.Errorf("redsync's Unlock: %v, %v", ok, err)
			}
			if err := <-waited; err != nil {
				t.Errorf("redlock, after redsync's Unlock: %v", err)
			}
		})
	}
}
