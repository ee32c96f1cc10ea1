package main

import (
	"context"
	"sync"

	"github.com/quorumlock/redlock"
)

// Permits of semaphores with eight, all of them free or all but one taken by another process. Each goroutine has a
// semaphore of its own: that of the first name it is given. Who keeps a Semaphore remembers the slot that it
// found free; who makes a new one each time, as a process that has just begun, has to look for it.
const permits = 8

var (
	redlockPermit5 = contestant{name: "redlock permit", nodes: 5, waits: true, open: openPermits(0, false)}
	redlockLast5   = contestant{
		name: "redlock permit, 7 of 8 taken", nodes: 5, waits: true,
		open: openPermits(permits-1, false),
	}
	redlockFind5 = contestant{
		name: "redlock permit, 7 of 8 taken, new each time", nodes: 5, waits: true,
		open: openPermits(permits-1, true),
	}
)

func openPermits(taken int, anew bool) func(nodes []string, goroutines int) (client, error) {
	return func(nodes []string, goroutines int) (client, error) {
		ours, err := openRedlock()(nodes, goroutines)
		if err != nil {
			return nil, err
		}
		other, err := openRedlock()(nodes, goroutines)
		return &permitClient{redlockClient: ours.(redlockClient), other: other.(redlockClient), taken: taken, anew: anew}, err
	}
}

type permitClient struct {
	redlockClient
	other redlockClient // the other process
	taken int
	anew  bool

	mu    sync.Mutex
	holds []*redlock.Lock // of the other process; guarded by mu
}

func (c *permitClient) worker() (worker, error) {
	return &permitWorker{redlockWorker: redlockWorker{c: c.redlockClient}, c: c}, nil
}

// occupy has the other process take permits.
func (c *permitClient) occupy(ctx context.Context, name string) error {
	s := c.other.l.Semaphore(name, permits)
	for range c.taken {
		h, err := s.Acquire(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.holds = append(c.holds, h)
		c.mu.Unlock()
	}
	return nil
}

func (c *permitClient) close() {
	for _, h := range c.holds {
		_ = h.Unlock(context.Background())
	}
	c.other.close()
	c.redlockClient.close()
}

type permitWorker struct {
	redlockWorker
	c    *permitClient
	name string
	s    *redlock.Semaphore
}

func (w *permitWorker) lock(ctx context.Context, name string) (err error) {
	if w.s == nil {
		if err := w.c.occupy(ctx, name); err != nil {
			return err
		}
		w.name = name
	}
	if w.s == nil || w.c.anew {
		w.s = w.c.l.Semaphore(w.name, permits)
	}
	w.held, err = w.s.Acquire(ctx)
	return err
}
