package main

import (
	"context"
	"fmt"

	"github.com/quorumlock/redlock"
)

// This library with its defaults, but for the TTL that all contestants share.
var (
	redlockFenced5 = contestant{name: "redlock", nodes: 5, waits: true, open: openRedlock()}
	redlockPlain5  = contestant{name: "redlock plain", nodes: 5, waits: true, open: openRedlock(redlock.WithoutFencing())}
	redlockAsync5  = contestant{name: "redlock async", nodes: 5, waits: true, open: openRedlock(redlock.WithAsyncUnlock())}
	redlockBoth5   = contestant{name: "redlock plain async", nodes: 5, waits: true, open: openRedlock(redlock.WithoutFencing(), redlock.WithAsyncUnlock())}
	redlockFenced1 = contestant{name: "redlock (1 node)", nodes: 1, waits: true, open: openRedlock()}
	redlockPlain1  = contestant{name: "redlock plain (1 node)", nodes: 1, waits: true, open: openRedlock(redlock.WithoutFencing())}
)

// redlockReaders5 locks to read, and to write once in twenty cycles.
var redlockReaders5 = contestant{name: "redlock rw", nodes: 5, waits: true, open: func(nodes []string, goroutines int) (client, error) {
	c, err := openRedlock()(nodes, goroutines)
	if err != nil {
		return nil, err
	}
	return redlockReaders{c.(redlockClient)}, nil
}}

type redlockReaders struct{ redlockClient }

func (c redlockReaders) worker() (worker, error) {
	return &redlockReader{redlockWorker: redlockWorker{c: c.redlockClient}}, nil
}

type redlockReader struct {
	redlockWorker
	cycles int
}

func (w *redlockReader) lock(ctx context.Context, name string) (err error) {
	if w.cycles++; w.cycles%20 == 0 {
		return w.redlockWorker.lock(ctx, name)
	}
	w.held, err = w.c.l.RWMutex(name).RLock(ctx)
	return err
}

func openRedlock(opts ...redlock.Option) func(nodes []string, goroutines int) (client, error) {
	return func(nodes []string, _ int) (client, error) {
		urls := make([]string, len(nodes))
		for i, node := range nodes {
			urls[i] = "redis://" + node
		}
		l, err := redlock.New(urls, append(opts, redlock.WithTTL(lockTTL), redlock.WithRestartGuard(0))...) // the masters have just been started
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

// Ten names at once: each name that is asked for stands for ten.
var redlockTen5 = contestant{name: "redlock, 10 names", nodes: 5, waits: true, open: func(nodes []string, goroutines int) (client, error) {
	c, err := openRedlock()(nodes, goroutines)
	if err != nil {
		return nil, err
	}
	return redlockTen{c.(redlockClient)}, nil
}}

type redlockTen struct{ redlockClient }

func (c redlockTen) worker() (worker, error) {
	return &tenWorker{redlockWorker: redlockWorker{c: c.redlockClient}, names: make(map[string][]string)}, nil
}

type tenWorker struct {
	redlockWorker
	names map[string][]string // so that the making of names is not measured
}

func (w *tenWorker) lock(ctx context.Context, name string) (err error) {
	ten := w.names[name]
	if ten == nil {
		for i := range 10 {
			ten = append(ten, fmt.Sprintf("%s:%d", name, i))
		}
		w.names[name] = ten
	}
	w.held, err = w.c.l.LockAll(ctx, ten)
	return err
}
