package main

import (
	"context"
	"time"
)

// What every contestant is asked to do: the same TTL, and names of one shape.
const (
	lockTTL    = 10 * time.Second
	namePrefix = "bench:"
	// For clients that have no limit of their own (redigo: a frozen node would stop them
	// for good).
	peerTimeout = time.Second
)

// A contestant is a lock under measurement.
type contestant struct {
	name   string
	nodes  int  // how many of the five masters it uses
	waits  bool // its lock waits for a taken name: it can take part under contention
	spared bool // from what the scenario does to the masters: what it would be without
	open   func(nodes []string, goroutines int) (client, error)
	// Commands that it sends by themselves and never from within a script: with EVAL and EVALSHA, all that it asks.
	native []string
}

// A client is what one process would have: shared by its goroutines.
type client interface {
	// worker is called once for each goroutine, before the clock starts.
	worker() (worker, error)
	close()
}

// A worker locks and unlocks for one goroutine: one lock at a time, kept by the
// worker between the two calls so that the interface adds no allocation.
type worker interface {
	lock(ctx context.Context, name string) error
	unlock(ctx context.Context) error
}

// A pipeliner drives itself instead of being called by goroutines (the limit).
type pipeliner interface {
	run(ctx context.Context, inFlight int, names [][]string, rec *recorder) error
}
