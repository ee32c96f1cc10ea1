package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
)

// clientVariable makes this program a client. It is the client's settings, in JSON.
const clientVariable = "REDLOCK_HISTORY_CLIENT"

type settings struct {
	Name        string
	Nodes, To   []string // the URLs of the nodes, and of those to which they are being changed
	Guard       time.Duration
	NodeTimeout time.Duration
	Forces      bool // it takes locks away
	Goroutines  int
}

// What all clients must agree about, and how much each does.
const (
	ttl = time.Second

	hot, warm = 4, 200 // names that all want, and names that are wanted now and then
	permits   = 3

	jobEvery = 500 * time.Millisecond // a new job, which all clients try
	doneTTL  = 12 * time.Second       // longer than anybody tries it
)

// client is one process: it locks and unlocks until its standard input ends, and prints a line for each attempt.
type client struct {
	settings
	locker *redlock.Locker
	mu     sync.Mutex // guards out
	out    *json.Encoder
}

func clientMain(told string) int {
	c := &client{out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(told), &c.settings)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

func (c *client) run() (err error) {
	ctx := child.UntilInputEnds()
	opts := []redlock.Option{
		redlock.WithTTL(ttl), redlock.WithMaxTTL(max(c.Guard, ttl)), redlock.WithNodeTimeout(c.NodeTimeout),
		redlock.WithNodeConfig(redlock.NodeConfig{TrustDisk: true, NoRestartGuard: c.Guard == 0}),
	}
	if c.To != nil {
		opts = append(opts, redlock.WithNewNodes(c.To))
	}
	// The nodes remember the list of a client that was killed for a minute.
	refused := func() bool { return errors.As(err, new(*redlock.ListConflictError)) }
	for c.locker, err = redlock.New(c.Nodes, opts...); refused() && ctx.Err() == nil; {
		time.Sleep(time.Second)
		c.locker, err = redlock.New(c.Nodes, opts...)
	}
	if refused() { // to the end
		return nil
	}
	if err != nil {
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
	for i := range c.Goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				c.turn(ctx, fmt.Sprintf("%s.%d", c.Name, i))
				time.Sleep(rand.N(8 * time.Millisecond))
			}
		})
	}
	all.Wait()
	return nil
}

// print writes a line at once: a client may be killed at any time.
func (c *client) print(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Encode(l); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
	}
}

// lock waits for something by one of the library's ways to do so, or only tries. It returns which way that was.
func (c *client) lock(ctx context.Context, try bool, opts []redlock.LockOption) (*redlock.Lock, string, error) {
	gpu := c.locker.Semaphore("gpu", permits)
	lock, read, all, acquire := c.locker.Lock, c.locker.RLock, c.locker.LockAll, gpu.Acquire
	if try {
		lock, read, all, acquire = c.locker.TryLock, c.locker.TryRLock, c.locker.TryLockAll, gpu.TryAcquire
	}
	switch dice := rand.IntN(10); {
	case dice < 3:
		k, err := lock(ctx, fmt.Sprint("name ", rand.IntN(hot)), opts...)
		return k, oneName, err
	case dice < 6:
		k, err := lock(ctx, fmt.Sprint("name ", hot+rand.IntN(warm)), opts...)
		return k, oneName, err
	case dice < 7:
		names := []string{fmt.Sprint("name ", hot+rand.IntN(warm))}
		for _, i := range rand.Perm(hot)[:1+rand.IntN(hot)] {
			names = append(names, fmt.Sprint("name ", i))
		}
		k, err := all(ctx, names, opts...)
		return k, severalNames, err
	case dice < 8:
		k, err := acquire(ctx, opts...)
		return k, permit, err
	case rand.IntN(6) == 0:
		k, err := lock(ctx, "book", opts...)
		return k, writing, err
	}
	k, err := read(ctx, "book", opts...)
	return k, reading, err
}

// turn makes one attempt, holds and lets go.
func (c *client) turn(ctx context.Context, who string) {
	var opts []redlock.LockOption
	rest := rand.N(4 * time.Millisecond)
	switch dice := rand.IntN(200); {
	case dice < 2: // renewed a few times, through faults
		rest = ttl + rand.N(ttl)
	case dice < 6: // outlived
		opts = append(opts, redlock.WithTTL(ttl/4), redlock.WithoutRenewal())
		rest = ttl / 3
	}
	longest := 5 * time.Second
	if rand.IntN(10) == 0 { // it gives up in the middle of anything
		longest = rand.N(60 * time.Millisecond)
	}
	waiting, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	r := record{Client: who, Asked: time.Now().UnixNano()}
	k, kind, err := c.lock(waiting, rand.IntN(5) == 0, opts)
	r.Granted = time.Now().UnixNano()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return
	case errors.Is(err, redlock.ErrTaken):
		c.print(line{Failed: taken})
		return
	default:
		c.print(line{Failed: noQuorum})
		return
	}
	select {
	case <-time.After(rest):
	case <-k.Done():
	}
	r.Kind, r.Token, r.Owner = kind, k.Token(), k.Owner()
	r.Ended = min(time.Now().UnixNano(), k.Deadline().UnixNano())
	over := k.Err() != nil
	err = k.Unlock()
	r.Released = time.Now().UnixNano()
	if over || errors.Is(err, redlock.ErrLost) {
		r.Released = r.Ended
	}
	c.print(line{Hold: &r, Names: strings.Split(k.Name(), ", ")})
}

// act prints that something begins, does it, and prints how it ended.
func (c *client) act(what func(*act) line, about string, do func() error) {
	a := act{Client: c.Name, About: about, Begun: time.Now().UnixNano()}
	c.print(what(&a))
	err := do()
	a.Ended, a.OK = time.Now().UnixNano(), err == nil
	c.print(what(&a))
}

// administer takes a lock from its holder now and then.
func (c *client) administer(ctx context.Context) {
	if !c.Forces || rand.IntN(40) > 0 {
		return
	}
	name := fmt.Sprint("name ", rand.IntN(hot))
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
	name := fmt.Sprint("job ", time.Now().UnixNano()/int64(jobEvery)-rand.Int64N(4))
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if rand.IntN(20) == 0 {
		c.act(func(a *act) line { return line{Forgot: a} }, name, func() error {
			_, err := c.locker.Forget(calling, name, redlock.WithDoneTTL(doneTTL))
			return err
		})
		return
	}
	r := record{Client: c.Name + ".job", Kind: aRun, Asked: time.Now().UnixNano()}
	err := c.locker.Once(calling, name, func(_ context.Context, k *redlock.Lock) error {
		r.Granted, r.Token, r.Owner = time.Now().UnixNano(), k.Token(), k.Owner()
		time.Sleep(rand.N(20 * time.Millisecond))
		r.Ended = min(time.Now().UnixNano(), k.Deadline().UnixNano())
		return nil
	}, redlock.WithDoneTTL(doneTTL))
	if r.Granted == 0 {
		return
	}
	r.Released = time.Now().UnixNano()
	c.print(line{Hold: &r, Names: []string{name}})
	if err == nil {
		c.print(line{Done: &act{Client: c.Name, About: name, Begun: r.Granted, Ended: r.Released, OK: true}})
	}
}
