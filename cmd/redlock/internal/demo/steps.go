package demo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock"
)

// openTills begins a step with a sale.
func (d *demo) openTills(ctx context.Context, title, intro string) (s *sale, shut func()) {
	d.heading(title, intro)
	s = newSale()
	d.current.Store(s)
	shut = d.showState()
	timeToRead(ctx)
	d.say(neutral, "%d tills open", tills)
	return s, shut
}

func (d *demo) withoutLock(ctx context.Context) error {
	s, shut := d.openTills(ctx, "1  Without a lock",
		"Each till reads the stock, thinks a little, and writes back one less.")
	defer shut()
	d.unlocked = s
	if err := s.open(ctx, unguarded); err != nil {
		return err
	}
	d.sold(s)
	d.detail("Up to %d tills read the same number before one of them wrote.", s.crowd.Load())
	timeToRead(ctx)
	return ctx.Err()
}

func (d *demo) withLock(ctx context.Context) error {
	s, shut := d.openTills(ctx, "2  With the lock",
		`The same, but a till holds the lock "`+saleLock+`" from reading to writing.`)
	defer shut()
	d.locked = s

	var failing errgroup.Group
	open, closed := context.WithCancel(ctx)
	failing.Go(func() error {
		if !until(open, func() bool { return s.sold.Load() >= units*35/100 }) {
			return nil
		}
		gone := time.Now()
		d.kill(1, 3)
		d.detail("Three of five are still a majority: the sale goes on.")
		if !until(open, func() bool { return s.sold.Load() >= units*70/100 }) {
			return nil
		}
		d.outage = time.Since(gone)
		if err := d.revive(1, 3); err != nil {
			return err
		}
		d.detail("They vote at once: the demo runs without the restart guard.")
		d.detail("A real fleet sells on with three, and counts these again after 30 s.")
		return nil
	})
	err := s.open(ctx, d.guarded)
	closed()
	if err := errors.Join(err, failing.Wait()); err != nil {
		return err
	}
	d.sold(s)
	timeToRead(ctx)
	return ctx.Err()
}

// guarded is the guard that the demo is about. What it reports can happen on a machine that is too busy to let
// five masters answer in time.
func (d *demo) guarded(ctx context.Context, serve func(context.Context) error) error {
	err := d.locker.Do(ctx, saleLock, func(ctx context.Context, _ *redlock.Lock) error { return serve(ctx) })
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

func (d *demo) withoutMajority(ctx context.Context) error {
	d.heading("3  Without a majority",
		"Two masters cannot tell whether the other three gave the lock to somebody else.")
	defer d.showState()()
	timeToRead(ctx)
	d.kill(0, 2, 4)

	asked := time.Now()
	lock, err := d.locker.TryLock(ctx, saleLock)
	took := time.Since(asked)
	if err == nil {
		d.early++
		lock.Unlock() // it should not exist
	}
	d.say(neutral, "A till asks for the lock. The answer, after %s:", took.Round(10*time.Microsecond))
	d.explain(err)

	// All tills wait for it, until the end of the step.
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
	// Whoever has seen this expects it of a real fleet, and would look for a fault there.
	d.detail("Again without the restart guard. A real fleet locks nothing for 30 s:")
	d.detail("these masters may have forgotten who holds it (docs/safety.md).")
	if until(waits, func() bool { return granted.Load() > d.early }) {
		d.again = time.Since(back)
		d.say(good, "a till holds the lock, %s after the majority came back", d.again.Round(time.Millisecond))
	}
	if err := waiting.Wait(); err != nil {
		return fmt.Errorf("waiting for the majority's return: %w", err)
	}
	d.say(good, "all %d tills have held it, one after the other", granted.Load())
	timeToRead(ctx)
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

// timeToRead keeps what was said last on the screen for a moment.
func timeToRead(ctx context.Context) { pause(ctx, 700*time.Millisecond) }

// pause waits and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// until waits for a condition and reports whether ctx let it.
func until(ctx context.Context, ok func() bool) bool {
	for !ok() {
		if !pause(ctx, 2*time.Millisecond) {
			return false
		}
	}
	return true
}
