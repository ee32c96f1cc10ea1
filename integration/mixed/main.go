// Command mixed is one of several clients, of two versions of the library, that lock the same names on the same
// masters. Its tests start them: the new ones are the test's own program, and the old ones are built from this file and
// api.go with the library as it was at one commit. So nothing here knows the library but api.go.
//
// It reads commands from its standard input and carries them out beside each other until the input ends. A command and
// its answer are a line of JSON each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
)

type command struct {
	ID        int
	Do        string
	Name      string
	Most      int           // permits of the semaphore, or runs of the job
	Brief     bool          // the hold ends after Rest, before the answer
	Rest      time.Duration // how long the hold lasts, or the job
	Fails     bool          // the job does
	Of        int           // the command that acquired the hold
	Ticket    string
	Nodes, To []string // the nodes, and those to which they are being changed
	Guard     time.Duration
}

// What a command does.
const (
	open    = "open"
	lock    = "lock"
	try     = "try"
	read    = "read"
	permit  = "permit"
	release = "release"
	ticket  = "ticket"
	adopt   = "adopt"
	job     = "job"
	look    = "look" // at the nodes
)

type answer struct {
	ID          int
	Kind, Error string
	Name        string // of the lock; a permit's is that of its slot
	Token       int64
	Asked       time.Duration // read before the call
	Granted     time.Duration // read after it
	Ended       time.Duration // read before the release, and no later than the end of validity
	Ran         bool          // the job
	Ticket      string
	Count       int      // of nodes whose votes count
	Findings    []string // about the nodes
}

const (
	taken     = "taken"
	lost      = "lost"
	noQuorum  = "no quorum"
	done      = "done"
	exhausted = "exhausted"
	conflict  = "conflicting lists"
	other     = "other"
)

const ttl = 2 * time.Second

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

type client struct {
	mu     sync.Mutex // guards what follows
	locker *locker
	holds  map[int]*held // by the commands that acquired them
	out    *json.Encoder
}

// serve carries out commands until there are no more of them.
func serve(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := &client{holds: map[int]*held{}, out: json.NewEncoder(out)}
	var all sync.WaitGroup
	for commands := json.NewDecoder(in); ; {
		var cmd command
		if err := commands.Decode(&cmd); err != nil {
			stop()
			all.Wait()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if c.locker != nil {
				err = errors.Join(err, shut(c.locker))
			}
			return err
		}
		all.Go(func() {
			a := answer{ID: cmd.ID, Name: cmd.Name, Asked: now()}
			if err := c.carryOut(ctx, cmd, &a); err != nil {
				a.Kind, a.Error = kindOf(err), err.Error()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := c.out.Encode(a); err != nil {
				fmt.Fprintln(os.Stderr, "client:", err)
			}
		})
	}
}

// carryOut carries out a command, and tells the answer what came of it.
func (c *client) carryOut(ctx context.Context, cmd command, a *answer) (err error) {
	c.mu.Lock()
	l, k := c.locker, c.holds[cmd.Of]
	c.mu.Unlock()
	switch cmd.Do {
	case open:
		l, err = connect(cmd)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.locker = l
	case release:
		return end(k, 0, a)
	case ticket:
		a.Ticket, err = handOver(k)
	case job:
		return once(ctx, l, cmd, func(token int64) error {
			a.Ran, a.Token = true, token
			time.Sleep(cmd.Rest)
			if cmd.Fails {
				return errors.New("the job fails")
			}
			return nil
		})
	case look:
		a.Count, a.Findings = state(ctx, l)
	default:
		k, err = acquire(ctx, l, cmd)
		a.Granted = now()
		if err != nil {
			return err
		}
		a.Name, a.Token = facts(k)
		if cmd.Brief {
			return end(k, cmd.Rest, a)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.holds[cmd.ID] = k
	}
	return err
}

// end holds for the rest of the time, if it may, and lets go.
func end(k *held, rest time.Duration, a *answer) error {
	_, over := until(k)
	select {
	case <-time.After(rest):
	case <-over:
	}
	end, _ := until(k)
	a.Ended = min(now(), now()+time.Until(end))
	return unlock(k)
}

// now is a clock that all processes of the machine share. Nobody sets it, where the system has such a one.
func now() time.Duration {
	if d := boottime.Now(); d != 0 {
		return d
	}
	return time.Duration(time.Now().UnixNano())
}
