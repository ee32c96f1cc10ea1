package main

import "context"

// redlockReaders5 locks to read, and to write once in twenty cycles.
var redlockReaders5 = contestant{
	name: "redlock rw", nodes: 5, waits: true,
	open: func(nodes []string, goroutines int) (client, error) {
		c, err := openRedlock()(nodes, goroutines)
		if err != nil {
			return nil, err
		}
		return redlockReaders{c.(redlockClient)}, nil
	},
}

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
