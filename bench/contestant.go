package main

import (
	"context"
	"time"

	"github.com/quorumlock/redlock"
)

// What every contestant is asked to do: the same TTL, and names of one shape.
const (
	lockTTL    = 10 * time.Second
	namePrefix = "bench:"
	// For clients that have no limit of their own (redigo: a frozen node would stop them for good).
	peerTimeout = time.Second
)

// A contestant is a lock under measurement.
type contestant struct {
	name   string
	nodes  int  // how many of the five masters, or of the system's members, it uses
	spared bool // from what the scenario does to the masters: what it would be without
	open   opener
	system *system // nil: the masters
	leader bool    // the fault of a scenario befalls the system's leader, not a follower
}

// An opener opens what one process would have, for so many goroutines.
type opener func(nodes []string, goroutines int) (*client, error)

// A client is shared by the goroutines of a process.
type client struct {
	worker func() (worker, error) // called once for each goroutine, before the clock starts
	close  func()
	// run drives the client instead of goroutines that call workers (the limit); nil: they do.
	run func(ctx context.Context, inFlight int, names [][]string, rec *recorder) error
}

// A worker locks and unlocks for one goroutine: one lock at a time, which it keeps between the two calls, so that
// calling it allocates nothing.
type worker struct {
	lock   func(ctx context.Context, name string) error
	unlock func(ctx context.Context) error
	close  func()               // nil: there is nothing to close
	hold   func() *redlock.Lock // of this library's
}
