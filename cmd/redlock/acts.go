package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock"
)

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
	d.act("3  Without a majority", "Two masters cannot tell whether the other three gave the lock to somebody else.")
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
