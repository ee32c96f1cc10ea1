package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock"
)

// What the client knows of the library. What the old one knows is this with other names: see oldAPI.
type (
	locker = redlock.Locker
	held   = redlock.Lock
)

func connect(c command) (*locker, error) {
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(5 * time.Second)}
	if c.Guard == 0 {
		opts = append(opts, redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}))
	} else {
		opts = append(opts, redlock.WithMaxTTL(c.Guard))
	}
	if c.To != nil {
		opts = append(opts, redlock.WithNewNodes(c.To))
	}
	return redlock.New(c.Nodes, opts...)
}

func shut(l *locker) error { return l.Close() }

func acquire(ctx context.Context, l *locker, c command) (*held, error) {
	switch c.Do {
	case lock:
		return l.Lock(ctx, c.Name)
	case try:
		return l.TryLock(ctx, c.Name)
	case read:
		return l.RLock(ctx, c.Name)
	case permit:
		return l.Semaphore(c.Name, c.Most).Acquire(ctx)
	case adopt:
		return l.Adopt(ctx, c.Ticket)
	}
	return nil, errors.New("no such command: " + c.Do)
}

func facts(k *held) (name string, token int64) { return k.Name(), k.Token() }

func until(k *held) (end time.Time, over <-chan struct{}) { return k.Deadline(), k.Done() }

func unlock(k *held) error { return k.Unlock() }

func handOver(k *held) (string, error) { return k.Ticket() }

func once(ctx context.Context, l *locker, c command, run func(token int64) error) error {
	return l.Once(ctx, c.Name, func(_ context.Context, k *redlock.Lock) error {
		return run(k.Token())
	}, redlock.WithMaxRuns(c.Most))
}

func state(ctx context.Context, l *locker) (voters int, findings []string) {
	for _, n := range l.Status(ctx) {
		if n.Err == nil {
			voters++
		}
		for _, f := range n.Findings {
			findings = append(findings, string(f.Code))
		}
	}
	return voters, findings
}

func kindOf(err error) string {
	switch {
	case errors.As(err, new(*redlock.ListConflictError)):
		return conflict
	case errors.Is(err, redlock.ErrLost):
		return lost
	case errors.Is(err, redlock.ErrTaken):
		return taken
	case errors.Is(err, redlock.ErrNoQuorum):
		return noQuorum
	case errors.Is(err, redlock.ErrAlreadyRun):
		return done
	case errors.Is(err, redlock.ErrRunsExhausted):
		return exhausted
	}
	return other
}
