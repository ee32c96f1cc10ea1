package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

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
Starts five Redis masters inside this process and holds a flash sale: 20 tills sell 100 units to 300
customers, without the lock and with it, while masters are killed and brought back. Takes about ten seconds
and touches nothing outside this process. Plain lines are printed where standard output is not a terminal or
NO_COLOR is set.

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
	err = d.play(ctx)
	if ctx.Err() != nil {
		return &failure{exitSignal + exitCode(syscall.SIGINT), "demo interrupted"}
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
	d.print("", d.paint(bold, "redlock demo")+d.paint(dim, ": 100 units, 300 customers, 20 tills, 5 Redis masters in this process"))
	for _, act := range []func(context.Context) error{d.withoutLock, d.withLock, d.withoutMajority} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.summary()
}

// breath is a moment to read.
func (d *demo) breath(ctx context.Context) { pause(ctx, 700*time.Millisecond) }

func (d *demo) withoutLock(ctx context.Context) error {
	d.act("1  Without a lock", "Each till reads the stock, thinks a little, and writes back one less.")
	s := newSale()
	d.unlocked = s
	d.sale.Store(s)
	stop := d.animate(d.status)
	defer stop()
	d.breath(ctx)
	d.say(neutral, "%d tills open", tills)
	if err := s.open(ctx, unguarded); err != nil {
		return err
	}
	d.say(bad, "sold %d of %d units; the stock says that %d are left", s.sold.Load(), units, s.stock.Load())
	d.detail("Up to %d tills read the same number before one of them wrote.", s.crowd.Load())
	d.breath(ctx)
	return ctx.Err()
}

func (d *demo) withLock(ctx context.Context) error {
	d.act("2  With the lock", `The same, but a till holds the lock "`+saleLock+`" from reading to writing.`)
	s := newSale()
	d.locked = s
	d.sale.Store(s)
	stop := d.animate(d.status)
	defer stop()
	d.breath(ctx)
	d.say(neutral, "%d tills open", tills)

	var story errgroup.Group
	closed, shut := context.WithCancel(ctx)
	story.Go(func() error {
		if !until(closed, func() bool { return s.sold.Load() >= units*35/100 }) {
			return nil
		}
		gone := time.Now()
		d.kill(1, 3)
		d.detail("Three of five are still a majority: the sale goes on.")
		if !until(closed, func() bool { return s.sold.Load() >= units*70/100 }) {
			return nil
		}
		d.outage = time.Since(gone)
		return d.revive(1, 3)
	})
	err := s.open(ctx, d.guarded)
	shut()
	if err := errors.Join(err, story.Wait()); err != nil {
		return err
	}
	mark := good
	if !d.exact() {
		mark = bad
	}
	d.say(mark, "sold %d of %d units; the stock says that %d are left", s.sold.Load(), units, s.stock.Load())
	d.breath(ctx)
	return ctx.Err()
}

// guarded is the guard that the demo is about. What it reports can happen on a machine that is too busy to let
// five masters answer in time.
func (d *demo) guarded(ctx context.Context, serve func(context.Context) error) error {
	err := d.locker.Do(ctx, saleLock, serve)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, redlock.ErrLost):
		d.say(neutral, "a till lost the lock, and was told so")
		return nil
	case errors.Is(err, redlock.ErrNoQuorum):
		d.say(neutral, "a till is done, but too few masters heard of it; the TTL will tell them")
		return nil
	}
	return err
}

// exact says whether the lock did its work.
func (d *demo) exact() bool {
	s := d.locked
	return s.sold.Load() == units && s.stock.Load() == 0 && s.crowd.Load() == 1
}

func (d *demo) withoutMajority(ctx context.Context) error {
	d.act("3  Without a majority", "Two masters cannot tell whether the other three have granted the lock to somebody else.")
	stop := d.animate(d.status)
	defer stop()
	d.breath(ctx)
	d.kill(0, 2, 4)

	asked := time.Now()
	lock, err := d.locker.TryLock(ctx, saleLock)
	took := time.Since(asked)
	if err == nil {
		d.early++
		lock.Unlock(ctx) // it should not exist
	}
	d.say(neutral, "A till asks for the lock. The answer, after %s:", took.Round(10*time.Microsecond))
	d.explain(err)

	// All tills wait for it, until the end of the act.
	var waiting errgroup.Group
	var granted atomic.Int64
	waits, enough := context.WithTimeout(ctx, 6*time.Second)
	defer enough()
	for range tills {
		waiting.Go(func() error {
			return d.guarded(waits, func(context.Context) error {
				granted.Add(1)
				return nil
			})
		})
	}
	d.say(neutral, "%d tills wait for the lock", tills)
	pause(ctx, time.Second)
	d.early += granted.Load()
	if d.early > 0 {
		d.say(bad, "the lock was granted %d times without a majority", d.early)
	} else {
		d.say(good, "after one second nobody holds it")
	}

	back := time.Now()
	if err := d.revive(0, 2, 4); err != nil {
		return err
	}
	if until(waits, func() bool { return granted.Load() > d.early }) {
		d.again = time.Since(back)
		d.say(good, "a till holds the lock, %s after the majority came back", d.again.Round(time.Millisecond))
	}
	if err := waiting.Wait(); err != nil {
		return fmt.Errorf("waiting for the majority's return: %w", err)
	}
	d.say(good, "all %d tills have held it, one after the other", granted.Load())
	d.breath(ctx)
	return ctx.Err()
}

// explain shows why a lock was not granted, node by node.
func (d *demo) explain(err error) {
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		d.detail("%v", err)
		return
	}
	d.detail("%s: %d of %d nodes granted it, %d are needed", d.paint(red, reason(err)), q.Granted, len(q.Nodes), q.Need)
	for i, n := range q.Nodes {
		mark := bad
		if n.Outcome == redlock.OutcomeGranted {
			mark = good
		} else if n.Outcome == redlock.OutcomeLate {
			mark = neutral
		}
		d.detail("  %s %d  %s", d.mark(mark), i+1, n.Error())
	}
}

func reason(err error) string {
	for _, known := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost} {
		if errors.Is(err, known) {
			return strings.TrimPrefix(known.Error(), "redlock: ")
		}
	}
	return "not granted"
}

func (d *demo) kill(nodes ...int) {
	d.cluster.Kill(nodes...)
	d.say(down, "masters %s are killed: connections cut, data gone", numbers(nodes))
}

func (d *demo) revive(nodes ...int) error {
	err := d.cluster.Revive(nodes...)
	if err == nil {
		d.say(up, "masters %s are back, and empty", numbers(nodes))
	}
	return err
}

// numbers lists nodes as people count them: "1, 3 and 5".
func numbers(nodes []int) string {
	var b strings.Builder
	for i, n := range nodes {
		switch {
		case i > 0 && i == len(nodes)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n+1)
	}
	return b.String()
}

// status draws the changing lines.
func (d *demo) status(width int) []string {
	alive := 0
	dots := make([]string, d.cluster.Len())
	for i := range dots {
		mark := down
		if d.cluster.State(i) == redlocktest.Up {
			mark, alive = up, alive+1
		}
		if dots[i] = d.mark(mark); d.live {
			dots[i] += " " + d.paint(dim, fmt.Sprint(i+1))
		}
	}
	s := d.sale.Load()
	sold, stock := int(s.sold.Load()), s.stock.Load()
	if !d.live {
		return []string{fmt.Sprintf("masters %s, sold %d, stock %d", strings.Join(dots, ""), sold, stock)}
	}
	verdict := fmt.Sprintf("%d of %d up: a majority", alive, masters)
	if alive < majority {
		verdict = d.paint(red, fmt.Sprintf("%d of %d up: no majority", alive, masters))
	}
	numbers := fmt.Sprintf("%d sold, stock says %d", sold, stock)
	if sold > units {
		numbers = d.paint(red, numbers)
	}
	cells := min(max(width-40, 9), 48)
	return []string{
		"  masters  " + strings.Join(dots, "  ") + "   " + verdict,
		"  sold     " + d.bar(sold, units, customers, cells) + " " + numbers,
	}
}

// summary tells the outcome, and returns an error where the lock did not hold.
func (d *demo) summary() error {
	d.act("Summary")
	d.total(bad, "without the lock", "%d sold of %d: oversold by %d", d.unlocked.sold.Load(), units, max(0, d.unlocked.sold.Load()-units))
	sold := d.locked.sold.Load()
	if d.exact() {
		d.total(good, "with the lock", "%d sold of %d: exact, with 2 of %d masters dead for %.1f s of it", sold, units, masters, d.outage.Seconds())
	} else {
		d.total(bad, "with the lock", "%d sold of %d, up to %d tills at once: THE LOCK DID NOT HOLD", sold, units, d.locked.crowd.Load())
	}
	if d.early == 0 {
		d.total(good, "without majority", "no lock granted; again %s after it came back", d.again.Round(time.Millisecond))
	} else {
		d.total(bad, "without majority", "%d locks granted: THAT MUST NOT BE", d.early)
	}
	d.print("", d.paint(dim, fmt.Sprintf("Took %.1f s. Next: redlock run --help", time.Since(d.start).Seconds())))
	if !d.exact() || d.early > 0 {
		return &failure{exitFailure, "the lock did not hold"}
	}
	return nil
}

func (d *demo) total(mark, what, format string, args ...any) {
	d.print(fmt.Sprintf("  %s %-18s %s", d.mark(mark), what, fmt.Sprintf(format, args...)))
}
