package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// The lock key is what the Redis documentation describes, so redsync and redlock
// exclude each other on the same name, in both directions and both modes.
func TestRedsyncAndRedlockExcludeEachOther(t *testing.T) {
	servers := cases.Must(startServers(5, redisserver.Config{}))(t)
	t.Cleanup(func() { stopServers(servers) })
	open := func(c contestant) worker {
		cl := cases.Must(c.open(addrs(servers), wish{ttl: lockTTL, goroutines: 1}))(t)
		t.Cleanup(cl.close)
		return cases.Must(cl.worker())(t)
	}
	theirs := open(redsyncRedigo5)
	for name, ours := range map[string]worker{"fenced": open(redlockFenced5), "plain": open(redlockPlain5)} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cases.NoError(t, ours.lock(ctx, name))
		var taken *redsync.ErrTaken
		if err := theirs.try(ctx, name); !errors.As(err, &taken) {
			t.Errorf("%s: redsync, while redlock holds: got %v, want ErrTaken", name, err)
		}
		cases.NoError(t, ours.unlock(ctx))
		cases.NoError(t, theirs.lock(ctx, name))
		if err := ours.try(ctx, name); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("%s: redlock, while redsync holds: got %v, want ErrTaken", name, err)
		}
		// A waiter is not told of redsync's release, and notices it all the same.
		waited := make(chan error, 1)
		go func() { waited <- ours.cycle(ctx, name) }()
		cases.NoError(t, theirs.unlock(ctx))
		cases.NoError(t, <-waited)
	}
}
