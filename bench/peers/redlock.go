package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

const ourModule = "github.com/quorumlock/redlock"

// ours is this library with its defaults, but for the restart guard: the masters have just been started. more is what
// else is to be said.
func ours(n int, run func(context.Context, *masters) (outcome, error), more ...string) subject {
	return subject{
		library: "redlock", module: ourModule, masters: n, run: run,
		config: strings.Join(append([]string{"its defaults (node timeout 250 ms), no restart guard"}, more...), "; "),
	}
}

// open returns when the masters are connected.
func open(ctx context.Context, nodes []string, opts ...redlock.Option) (*redlock.Locker, error) {
	urls := make([]string, len(nodes))
	for i, node := range nodes {
		urls[i] = "redis://" + node
	}
	l, err := redlock.New(urls, append(opts, redlock.WithRestartGuard(0))...)
	if err != nil {
		return nil, err
	}
	if err := cycle(ctx, l, "warm"); err != nil {
		_ = l.Close() // the first error says more
		return nil, err
	}
	return l, nil
}

func cycle(ctx context.Context, l *redlock.Locker, name string) error {
	k, err := l.Lock(ctx, name)
	if err != nil {
		return err
	}
	return k.Unlock(ctx)
}

// with opens a Locker over the proxies for a run.
func with(run func(context.Context, *masters, *redlock.Locker) (outcome, error), opts ...redlock.Option,
) func(context.Context, *masters) (outcome, error) {
	return func(ctx context.Context, m *masters) (outcome, error) {
		l, err := open(ctx, m.proxied(), opts...)
		if err != nil {
			return outcome{}, err
		}
		defer l.Close()
		return run(ctx, m, l)
	}
}

var tryFrozenOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	if err := m.last().Pause(); err != nil {
		return outcome{}, err
	}
	var k *redlock.Lock
	try := m.call(15*time.Second, func() (err error) { k, err = l.TryLock(ctx, "n"); return err })
	return triedFrozen(try, func() time.Time { return k.Until() }), nil
}, redlock.WithTTL(2*time.Second))

var extendFrozenOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	k, err := l.Lock(ctx, "n")
	if err != nil {
		return outcome{}, err
	}
	if err := m.last().Pause(); err != nil {
		return outcome{}, err
	}
	return m.extendedFrozen(func() error { return k.Extend(ctx) })
}, redlock.WithTTL(8*time.Second), redlock.WithoutRenewal())

var lockUnansweredOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	return m.unanswered(ctx, func(ctx context.Context) error { _, err := l.Lock(ctx, "n"); return err })
}, redlock.WithTTL(8*time.Second))

var waitTooLongOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	if _, err := l.Lock(ctx, "n"); err != nil {
		return outcome{}, err
	}
	return m.waitedTooLong(ctx,
		func(ctx context.Context) error { _, err := l.Lock(ctx, "n"); return err },
		func(ctx context.Context) error { _, err := l.TryLock(ctx, "m"); return err })
})

var cyclesOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	return m.cycles(func(name string) error { return cycle(ctx, l, name) })
}, redlock.WithTTL(20*time.Second))

var extendTooLateOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	k, err := l.Lock(ctx, "n")
	if err != nil {
		return outcome{}, err
	}
	another := func() error {
		l, err := open(ctx, m.addrs())
		if err != nil {
			return err
		}
		defer l.Close()
		return cycle(ctx, l, "n")
	}
	return m.extendedTooLate(another, func() (bool, error) { err := k.Extend(ctx); return err == nil, err })
}, redlock.WithTTL(time.Second), redlock.WithoutRenewal())

var partitionedOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	other, err := open(ctx, m.addrs())
	if err != nil {
		return outcome{}, err
	}
	defer other.Close()
	k, err := l.Lock(ctx, "n")
	if err != nil {
		return outcome{}, err
	}
	held, cancel := k.Context(ctx)
	defer cancel()
	return m.heldByTwo(ctx, held.Done(), func(ctx context.Context) error { _, err := other.Lock(ctx, "n"); return err })
}, redlock.WithTTL(5*time.Second))

var foreignKeyOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	return withForeignKey(
		func(i int, name string) error { return m.all[i].put(name, "somebody", time.Minute) },
		func(name string) error { _, err := l.TryLock(ctx, name); return err })
})

var ownerPrefixOurs = with(func(ctx context.Context, m *masters, l *redlock.Locker) (outcome, error) {
	k, err := l.Lock(ctx, "n")
	if err != nil {
		return outcome{}, err
	}
	other, err := open(ctx, m.addrs(), redlock.WithOwnerLabel("worker-1"))
	if err != nil {
		return outcome{}, err
	}
	defer other.Close()
	_, tried := other.TryLock(ctx, "n")
	extended := k.Extend(ctx)
	return outcome{
		fmt.Sprintf("worker-1's TryLock: %s; worker-12's Extend: %s", brief(tried), brief(extended)),
		errors.Is(tried, redlock.ErrTaken) && extended == nil,
	}, nil
}, redlock.WithOwnerLabel("worker-12"))

var shortTTLOurs = with(func(ctx context.Context, _ *masters, l *redlock.Locker) (outcome, error) {
	_, err := l.TryLock(ctx, "n", redlock.WithTTL(500*time.Microsecond))
	return outcome{"TryLock: " + brief(err), errors.Is(err, redlock.ErrInvalid)}, nil
})
