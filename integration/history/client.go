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
	"sync"
	"time"

	"github.com/quorumlock/redlock"
)

// clientVariable makes this program a client, whose name it is.
const clientVariable = "REDLOCK_HISTORY_CLIENT"

// What all clients must agree about, and how much each does.
const (
	ttl     = time.Second
	guard   = 2 * time.Second // the least
	names   = 4
	workers = 3
)

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
	c.locker, err = redlock.New(nodes, redlock.WithTTL(ttl), redlock.WithRestartGuard(guard), redlock.WithDurableNodes())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.locker.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	go func() { // until the input ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var all sync.WaitGroup
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
	r.Token = k.Token()
	r.Ended = min(time.Now().UnixNano(), k.Until().UnixNano())
	over := k.Err() != nil
	err = k.Unlock(context.Background())
	r.Released = time.Now().UnixNano()
	if over || errors.Is(err, redlock.ErrLost) {
		r.Released = r.Ended
	}
	c.print(line{Hold: &r})
}
