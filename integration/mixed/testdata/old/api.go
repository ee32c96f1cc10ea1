package main

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock"
)

// What a client of commit 765196a knows of the library, whose API this was. See api.go two folders above.
type (
	locker = redlock.Locker
	held   = redlock.Lock
)

func connect(c command) (*locker, error) {
	opts := []redlock.Option{
		redlock.WithTTL(ttl), redlock.WithRestartGuard(c.Guard), redlock.WithNodeTimeout(5 * time.Second),
	}
	if c.Guard > 0 { // as WithMaxTTL does
		opts = append(opts, redlock.WithFenceRetention(2*c.Guard))
	}
	if c.To != nil {
		opts = append(opts, redlock.WithMigration(c.To))
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
		return l.RWMutex(c.Name).RLock(ctx)
	case tryRead:
		return l.RWMutex(c.Name).TryRLock(ctx)
	case permit:
		return l.Semaphore(c.Name, c.Most).Acquire(ctx)
	case tryPermit:
		return l.Semaphore(c.Name, c.Most).TryAcquire(ctx)
	case adopt:
		return l.Adopt(ctx, c.Ticket)
	}
	return nil, errors.New("no such command: " + c.Do)
}

func facts(k *held) (name, owner string, token int64) { return k.Name(), k.Owner(), k.Token() }

func until(k *held) (end time.Time, over <-chan struct{}) { return k.Until(), k.Done() }

func unlock(k *held) error { return k.Unlock(context.Background()) }

func handOver(k *held) (string, error) { return k.Ticket() }

func once(ctx context.Context, l *locker, c command, run func(token int64) error) error {
	return l.Once(ctx, c.Name, func(ctx context.Context) error {
		k, _ := redlock.FromContext(ctx)
		return run(k.Token())
	}, redlock.WithMaxRuns(c.Most))
}

func waiting(ctx context.Context, l *locker, name string) (int, error) {
	i, err := l.Inspect(ctx, name)
	return i.Waiting, err
}

func state(ctx context.Context, l *locker) (voters int, findings []string) {
	for _, n := range l.Nodes(ctx) {
		if n.Err == nil {
			voters++
		}
		for _, f := range n.Findings {
			findings = append(findings, f.Code)
		}
	}
	return voters, findings
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, redlock.ErrListConflict):
		return conflict
	case errors.Is(err, redlock.ErrLost):
		return lost
	case errors.Is(err, redlock.ErrTaken):
		return taken
	case errors.Is(err, redlock.ErrNoQuorum):
		return noQuorum
	case errors.Is(err, redlock.ErrDone):
		return done
	case errors.Is(err, redlock.ErrExhausted):
		return exhausted
	}
	return other
}
