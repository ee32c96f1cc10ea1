package main

import (
	"context"
	"fmt"
)

// Ten names at once: each name that is asked for stands for ten.
var redlockTen5 = contestant{
	name: "redlock, 10 names", nodes: 5, waits: true,
	open: func(nodes []string, goroutines int) (client, error) {
		c, err := openRedlock()(nodes, goroutines)
		if err != nil {
			return nil, err
		}
		return redlockTen{c.(redlockClient)}, nil
	},
}

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
