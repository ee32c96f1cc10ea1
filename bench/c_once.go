package main

import (
	"context"
	"errors"

	"github.com/quorumlock/redlock"
)

// Jobs that are done once: a cycle is the run of a job that nobody has run before and that has nothing to do, or a
// call that finds the job done.
var (
	redlockOnce5 = contestant{name: "redlock once, a run", nodes: 5, open: openOnce(false)}
	redlockDone5 = contestant{name: "redlock once, done before", nodes: 5, open: openOnce(true)}
)

func openOnce(done bool) func(nodes []string, goroutines int) (client, error) {
	return func(nodes []string, goroutines int) (client, error) {
		c, err := openRedlock()(nodes, goroutines)
		if err != nil {
			return nil, err
		}
		return onceClient{c.(redlockClient), done}, nil
	}
}

type onceClient struct {
	redlockClient
	done bool
}

func (c onceClient) worker() (worker, error) { return &onceWorker{c: c}, nil }

type onceWorker struct {
	c    onceClient
	name string // of the job that is done
}

func (w *onceWorker) lock(ctx context.Context, name string) error {
	switch {
	case !w.c.done:
		return w.once(ctx, name)
	case w.name == "":
		w.name = name
		return w.once(ctx, name)
	}
	err := w.once(ctx, w.name)
	if errors.Is(err, redlock.ErrDone) {
		return nil
	}
	return errors.Join(errors.New("it was not done"), err)
}

func (w *onceWorker) once(ctx context.Context, name string) error {
	return w.c.l.Once(ctx, name, func(context.Context) error { return nil })
}

func (w *onceWorker) unlock(context.Context) error { return nil } // Once has done that
