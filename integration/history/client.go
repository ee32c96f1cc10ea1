package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
)

const (
	clientVariable = "REDLOCK_HISTORY_CLIENT" // makes this program a client, whose name it is
	forceVariable  = "REDLOCK_HISTORY_FORCE"  // set: the client takes locks away
)

// What all clients must agree about, and how much each does.
const (
	ttl     = time.Second
	guard   = 2 * time.Second // the least
	names   = 4
	workers = 3

	jobEvery = 500 * time.Millisecond // a new job, which all clients try
	doneTTL  = 12 * time.Second       // longer than anybody tries it
)

// toList stands between the nodes of a client and those to which they are being changed.
const toList = "--"

// client is one process: it locks and unlocks until its standard input ends, and prints a line for each attempt.
type client struct {
	name   string
	locker *redlock.Locker
	mu     sync.Mutex // guards out
	out    *bufio.Writer
}

func clientMain(nodes []string) int {
	c := &client{name: os.Getenv(clientVariable), out: bufio.NewWriter(os.Stdout)}
	if err := c.run(nodes); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

func (c *client) run(nodes []string) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // until the input ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithRestartGuard(guard), redlock.WithDurableNodes()}
	if i := slices.Index(nodes, toList); i >= 0 {
		opts = append(opts, redlock.WithMigration(nodes[i+1:]))
		nodes = nodes[:i]
	}
	// The nodes remember the list of a client that was killed for a minute.
	for c.locker, err = redlock.New(nodes, opts...); errors.Is(err, redlock.ErrListConflict) && ctx.Err() == nil; {
		time.Sleep(time.Second)
		c.locker, err = redlock.New(nodes, opts...)
	}
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrListConflict): // to the end
		return nil
	default:
		return err
	}
	defer func() { err = errors.Join(err, c.locker.Close()) }()
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			c.administer(ctx)
			c.job(ctx)
			time.Sleep(rand.N(jobEvery / 2))
		}
	})
	for i := range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				c.turn(ctx, fmt.Sprintf("%s.%d", c.name, i))
				time.Sleep(rand.N(8 * time.Millisecond))
			}
		})
	}
	all.Wait()
	return nil
}

// print writes a line at once: a client may be killed at any time.
func (c *client) print(l line) {
	text, err := json.Marshal(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		_, _ = c.out.Write(append(text, '\n'))
		err = c.out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
	}
}

// turn makes one attempt, holds and lets go.
func (c *client) turn(ctx context.Context, who string) {
	var opts []redlock.Option
	rest := rand.N(4 * time.Millisecond)
	switch dice := rand.IntN(200); {
	case dice < 2: // renewed a few times, through faults
		rest = ttl + rand.N(ttl)
	case dice < 6: // outlived
		opts = append(opts, redlock.WithTTL(ttl/4), redlock.WithoutRenewal())
		rest = ttl / 3
	}
	lock := c.locker.Lock
	if rand.IntN(5) == 0 {
		lock = c.locker.TryLock
	}
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := record{Client: who, Name: rand.Int32N(names), Asked: time.Now().UnixNano()}
	k, err := lock(waiting, fmt.Sprintf("name %d", r.Name), opts...)
	r.Granted = time.Now().UnixNano()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return
	case errors.Is(err, redlock.ErrTaken):
		c.print(line{Failed: "taken"})
		return
	default:
		c.print(line{Failed: "no quorum"})
		return
	}
	timer := time.NewTimer(rest)
	select {
	case <-timer.C:
	case <-k.Done():
		timer.Stop()
	}
	r.Token, r.Owner = k.Token(), k.Owner()
	r.Ended = min(time.Now().UnixNano(), k.Until().UnixNano())
	over := k.Err() != nil
	err = k.Unlock(context.Background())
	r.Released = time.Now().UnixNano()
	if over || errors.Is(err, redlock.ErrLost) {
		r.Released = r.Ended
	}
	c.print(line{Hold: &r})
}

// act prints that something begins, does it, and prints how it ended.
func (c *client) act(what func(*act) line, about string, do func() error) {
	a := act{Client: c.name, About: about, Begun: time.Now().UnixNano()}
	c.print(what(&a))
	err := do()
	a.Ended, a.OK = time.Now().UnixNano(), err == nil
	c.print(what(&a))
}

// administer takes a lock from its holder now and then.
func (c *client) administer(ctx context.Context) {
	if os.Getenv(forceVariable) == "" || rand.IntN(40) > 0 {
		return
	}
	name := fmt.Sprintf("name %d", rand.IntN(names))
	found, err := c.locker.Inspect(ctx, name)
	if err != nil || found.Owner == "" {
		return
	}
	c.act(func(a *act) line { return line{Forced: a} }, found.Owner, func() error {
		return c.locker.ForceUnlock(ctx, name, found.Owner)
	})
}

// job runs the job of the moment, or one of a moment ago, unless it is done, or has one forgotten.
func (c *client) job(ctx context.Context) {
	number := (time.Now().UnixNano()/int64(jobEvery) - rand.Int64N(4)) % 1_000_000
	name := fmt.Sprintf("job %d", number)
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if rand.IntN(20) == 0 {
		c.act(func(a *act) line { return line{Forgot: a} }, name, func() error {
			_, err := c.locker.Forget(calling, name, redlock.WithDoneTTL(doneTTL))
			return err
		})
		return
	}
	r := record{Client: c.name + ".job", Name: names + int32(number), Asked: time.Now().UnixNano()}
	err := c.locker.Once(calling, name, func(ctx context.Context) error {
		k, ok := redlock.FromContext(ctx)
		if !ok {
			return errors.New("a run without a hold")
		}
		r.Granted, r.Token, r.Owner = time.Now().UnixNano(), k.Token(), k.Owner()
		time.Sleep(rand.N(20 * time.Millisecond))
		r.Ended = min(time.Now().UnixNano(), k.Until().UnixNano())
		return nil
	}, redlock.WithDoneTTL(doneTTL))
	if r.Granted == 0 {
		return
	}
	r.Released = time.Now().UnixNano()
	c.print(line{Hold: &r})
	if err == nil {
		c.print(line{Done: &act{Client: c.name, About: name, Begun: r.Granted, Ended: r.Released, OK: true}})
	}
}
