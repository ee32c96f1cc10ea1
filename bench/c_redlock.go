package main

import (
	"context"

	"github.com/quorumlock/redlock"
)

// This library with its defaults, but for the TTL that all contestants share.
var (
	redlockFenced5 = contestant{name: "redlock", nodes: 5, waits: true, open: openRedlock()}
	redlockPlain5  = contestant{name: "redlock plain", nodes: 5, waits: true, open: openRedlock(redlock.WithoutFencing())}
	redlockAsync5  = contestant{name: "redlock async", nodes: 5, waits: true, open: openRedlock(redlock.WithAsyncUnlock())}
	redlockBoth5   = contestant{
		name: "redlock plain async", nodes: 5, waits: true,
		open: openRedlock(redlock.WithoutFencing(), redlock.WithAsyncUnlock()),
	}
	redlockFenced1 = contestant{name: "redlock (1 node)", nodes: 1, waits: true, open: openRedlock()}
	redlockPlain1  = contestant{
		name: "redlock plain (1 node)", nodes: 1, waits: true,
		open: openRedlock(redlock.WithoutFencing()),
	}
)

func openRedlock(opts ...redlock.Option) func(nodes []string, goroutines int) (client, error) {
	return openRedlockAt("redis://", opts...)
}

func openRedlockAt(scheme string, opts ...redlock.Option) func(nodes []string, goroutines int) (client, error) {
	return func(nodes []string, _ int) (client, error) {
		urls := make([]string, len(nodes))
		for i, node := range nodes {
			urls[i] = scheme + node
		}
		// No restart guard: the masters have just been started.
		l, err := redlock.New(urls, append(opts, redlock.WithTTL(lockTTL), redlock.WithRestartGuard(0))...)
		return redlockClient{l}, err
	}
}

type redlockClient struct{ l *redlock.Locker }

func (c redlockClient) worker() (worker, error) { return &redlockWorker{c: c}, nil }
func (c redlockClient) close()                  { _ = c.l.Close() }

type redlockWorker struct {
	c    redlockClient
	held *redlock.Lock
}

func (w *redlockWorker) lock(ctx context.Context, name string) (err error) {
	w.held, err = w.c.l.Lock(ctx, name)
	return err
}

func (w *redlockWorker) unlock(ctx context.Context) error { return w.held.Unlock(ctx) }
