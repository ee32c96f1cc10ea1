package migration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/tokens"
)

// clientVariable makes this program a client. It is the client's job, in JSON.
const clientVariable = "REDLOCK_TEST_MIGRATION_CLIENT"

// job is what a client is told.
type job struct {
	From, To []string // the lists of URLs; no To: the client has one list
	Lasting  bool     // it also has holds that last
	Keeps    bool     // it also holds one name as long as it lives
}

// The names that clients lock: some for a moment, some for so long that the hold is extended, through several clients'
// restarts, and one by the client that keeps it.
var (
	briefNames = []string{"brief 0", "brief 1", "brief 2"}
	longNames  = []string{"long 0", "long 1"}
	turnNames  = slices.Concat(briefNames, longNames) // those that all clients take turns at
)

const keptName = "kept"

// line is what a client prints, in JSON.
type line struct {
	Did  string
	Hold tokens.Hold
	Why  string `json:",omitempty"`
}

// What a client did.
const (
	acquired = "acquired" // printed before anything comes of the hold
	released = "released" // printed before Unlock
	lost     = "lost"
	failed   = "failed" // something that never should, or New
	// An Unlock found no majority. That is right where a master dies whose vote the hold had needed.
	unanswered = "unanswered"
)

// client is one process: it locks and unlocks until it gets SIGTERM, or until its standard input ends because the test
// has died.
type client struct {
	locker *redlock.Locker
	mu     sync.Mutex // guards out
	out    *json.Encoder
}

// runClient is main of a client.
func runClient(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(child.UntilInputEnds(), stop)
	c := &client{out: json.NewEncoder(os.Stdout)}
	if err := c.run(ctx, text); err != nil {
		c.say(line{Did: failed, Why: err.Error()})
		return 1
	}
	return 0
}

func clientOptions() []redlock.Option {
	return []redlock.Option{
		redlock.WithTTL(ttl), redlock.WithMaxTTL(guard), redlock.WithNodeTimeout(5 * time.Second),
	}
}

func (c *client) run(ctx context.Context, text string) (err error) {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	opts := clientOptions()
	if j.To != nil {
		opts = append(opts, redlock.WithNewNodes(j.To))
	}
	if c.locker, err = redlock.New(j.From, opts...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.locker.Close()) }()
	var workers sync.WaitGroup
	// A name that a killed client has blocked keeps nobody from the others.
	work := func(name string, least, more, pause time.Duration) {
		workers.Go(func() {
			for ctx.Err() == nil {
				c.hold(ctx, name, least+rand.N(more))
				sleep(ctx, rand.N(pause))
			}
		})
	}
	for _, name := range briefNames {
		work(name, 0, 3*time.Millisecond, time.Second)
	}
	if j.Lasting {
		for _, name := range longNames {
			work(name, ttl/2, ttl/2, time.Second)
		}
	}
	if j.Keeps {
		work(keptName, time.Hour, 1, 1)
	}
	workers.Wait()
	return nil
}

// hold waits for the name, holds it for some time, or until the client is to end, and lets go.
func (c *client) hold(ctx context.Context, name string, rest time.Duration) {
	h := tokens.Hold{Name: name, Asked: now()}
	k, err := c.locker.Lock(ctx, name)
	h.Granted = now()
	if err != nil {
		if ctx.Err() == nil {
			c.say(line{Did: failed, Hold: h, Why: err.Error()})
		}
		return
	}
	h.Token = k.Token()
	c.say(line{Did: acquired, Hold: h})
	holding, cancel := k.Context(ctx)
	sleep(holding, rest)
	cancel()
	h.Ended = min(now(), now()+time.Until(k.Deadline()))
	end := line{Did: released, Hold: h}
	if err := k.Err(); err != nil {
		end.Did, end.Why = lost, err.Error()
	}
	c.say(end)
	err = k.Unlock()
	switch {
	case err == nil || end.Did == lost:
	case errors.Is(err, redlock.ErrNoQuorum):
		c.say(line{Did: unanswered, Hold: h, Why: err.Error()})
	case errors.Is(err, redlock.ErrLost):
		c.say(line{Did: lost, Hold: h, Why: err.Error()})
	default:
		c.say(line{Did: failed, Hold: h, Why: err.Error()})
	}
}

// say prints a line at once: a client may be killed at any time.
func (c *client) say(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Encode(l); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
