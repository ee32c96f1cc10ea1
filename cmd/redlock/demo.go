package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

const (
	masters  = 5
	majority = masters/2 + 1
	saleLock = "sale:4711"
)

// demoOptions are what the demo's Locker differs in from the default. A dead master refuses at once here; the
// node timeout is only for a busy machine, on which the masters compete with whatever else is running. Holds are
// short, so that a till which lost the race asks again soon.
var demoOptions = []redlock.Option{
	redlock.WithTTL(3 * time.Second),
	redlock.WithNodeTimeout(500 * time.Millisecond),
	// The masters come back empty while nobody holds the lock, and only two of five while somebody does. Elsewhere
	// the guard keeps them out of the vote for half a minute: too long for a demo.
	redlock.WithRestartGuard(0),
	redlock.WithBackoff(redlock.Jitter(10*time.Millisecond, 100*time.Millisecond)),
}

func demoVerb() *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "see the lock at work, with nothing installed",
		UsageText: "redlock demo",
		Description: strings.TrimSpace(`
Starts five Redis masters inside this process and holds a flash sale: 20
tills sell 100 units to 300 customers, without the lock and with it, while
masters are killed and brought back. Takes about ten seconds and touches
nothing outside this process. Plain lines are printed where standard output
is not a terminal or NO_COLOR is set.

EXIT CODES
   0     the lock held: exactly 100 units were sold under it
   1     it did not: oversold, or granted without a majority
   130   interrupted by Ctrl-C`),
		Action: demoAction,
	}
}

func demoAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("demo takes no arguments, got %q", cmd.Args().First())
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	cluster, err := redlocktest.Start(masters)
	if err != nil {
		return fmt.Errorf("start five masters: %w", err)
	}
	defer cluster.Close()
	locker, err := redlock.New(cluster.URLs(), demoOptions...)
	if err != nil {
		return err
	}
	defer locker.Close()

	d := &demo{stage: newStage(cmd.Root().Writer), cluster: cluster, locker: locker}
	d.live = d.live && bool(d.ink) // without colours, the plain lines read better
	defer d.heedStops()()
	err = d.play(ctx)
	if ctx.Err() != nil {
		return &failure{code: exitSignal + exitCode(syscall.SIGINT), text: "demo interrupted"}
	}
	return err
}

// demo is the story in three acts.
type demo struct {
	*stage
	cluster *redlocktest.Cluster
	locker  *redlock.Locker
	sale    atomic.Pointer[sale] // that is on, for the changing lines

	unlocked, locked *sale
	outage           time.Duration // of two masters, during the sale with the lock
	early            int64         // grants without a majority
	again            time.Duration // from the majority's return to the next grant
}

func (d *demo) play(ctx context.Context) error {
	d.print("", d.paint(bold, "redlock demo")+d.paint(dim, ": 100 units, 300 customers, 20 tills, 5 masters in this process"))
	for _, act := range []func(context.Context) error{d.withoutLock, d.withLock, d.withoutMajority} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.summary()
}
