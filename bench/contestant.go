package main

import (
	"context"
	"time"
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

// An opener opens what one process would have.
type opener func(nodes []string, w wish) (*client, error)

// A wish is what is asked of a client.
type wish struct {
	ttl        time.Duration // 0: the library's own
	goroutines int           // that use it
	owner      string        // "": a random one
	unrenewed  bool          // where the library lets one choose
}

// A client is shared by the goroutines of a process.
type client struct {
	worker func() (worker, error) // called once for each goroutine, before the clock starts
	close  func()
	// run drives the client instead of goroutines that call workers (the limit); nil: they do.
	run func(ctx context.Context, inFlight int, names [][]string, rec *recorder) error
}

// A worker locks and unlocks for one goroutine: one lock at a time, which it keeps between the two calls, so that
// calling it allocates nothing. lock waits for a name that is taken, and try does not. What nobody asks of a library
// is nil.
type worker struct {
	lock, try      func(ctx context.Context, name string) error
	unlock, extend func(ctx context.Context) error
	until          func() time.Time // when the hold ends
	context        func(context.Context) (context.Context, context.CancelFunc)
	held           func() any // what the library calls its lock
	token          func() (int64, error)
	close          func()
}

// cycle locks and unlocks.
func (w worker) cycle(ctx context.Context, name string) error {
	if err := w.lock(ctx, name); err != nil {
		return err
	}
	return w.unlock(ctx)
}
