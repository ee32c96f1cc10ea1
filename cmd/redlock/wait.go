package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// wait is how long and how often to ask for a lock.
type wait struct {
	ctx     context.Context // ends with the signal or at the time that ends the waiting
	options []redlock.Option
	end     func() syscall.Signal // ends it, and returns the signal that did so before, or 0
}

// await begins to wait as the flags say, and to look out for a signal that would end a program: it ends the wait.
func (c *command) await(ctx context.Context, cmd *cli.Command) wait {
	var w wait
	limit := cmd.Duration("wait")
	if cmd.Bool("no-wait") || cmd.IsSet("wait") && limit == 0 {
		w.options = append(w.options, redlock.WithMaxAttempts(1))
	}
	var cancel context.CancelFunc
	if limit > 0 {
		w.ctx, cancel = context.WithTimeout(ctx, limit)
	} else {
		w.ctx, cancel = context.WithCancel(ctx)
	}
	over := make(chan struct{})
	stop := sync.OnceFunc(func() { close(over) })
	var ended syscall.Signal
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			case sig := <-c.signals:
				if n, ok := sig.(syscall.Signal); ok && endsWaiting(n) {
					ended = n
					cancel()
					return
				}
			}
		}
	})
	w.end = func() syscall.Signal {
		stop()
		watching.Wait()
		cancel()
		return ended
	}
	return w
}

// givenUp ends redlock when a signal ended the waiting. err is what the wait came to.
func (c *command) givenUp(by syscall.Signal, err error) error {
	f := &failure{code: exitSignal + exitCode(by)}
	if by == syscall.SIGINT && ownsTerminal() {
		f.last = func() { dieOfInterrupt(false) } // who has pressed the key needs no words
		return f
	}
	f.text = fmt.Sprintf("lock %q: %s ended the waiting", c.name, by)
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTaken) {
		f.text += ": " + complaint(err)
	}
	return f
}
