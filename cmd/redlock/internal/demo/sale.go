package demo

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	units     = 100 // in stock
	customers = 300 // who want one each
	tills     = 20  // that serve them, in competition
)

// sale is the flash sale of every lock tutorial. Its numbers are those of a shop's database: each can be read
// and written safely by itself, and nothing protects what happens in between.
type sale struct {
	stock  atomic.Int64 // what the database says is left
	sold   atomic.Int64 // what customers really took home
	queue  atomic.Int64 // customers not yet served
	inside atomic.Int64 // tills between reading and writing
	crowd  atomic.Int64 // the largest inside ever was
}

func newSale() *sale {
	s := &sale{}
	s.stock.Store(units)
	s.queue.Store(customers)
	return s
}

// guard runs what one till does for one customer, under a lock or not.
type guard func(ctx context.Context, serve func(context.Context) error) error

func unguarded(ctx context.Context, serve func(context.Context) error) error { return serve(ctx) }

// open lets all tills sell until nothing is left or nobody waits.
func (s *sale) open(ctx context.Context, g guard) error {
	var running errgroup.Group
	for range tills {
		running.Go(func() error { return s.till(ctx, g) })
	}
	return running.Wait()
}

func (s *sale) till(ctx context.Context, g guard) error {
	// An empty shop needs no lock to be seen: the stock never grows again.
	for s.queue.Add(-1) >= 0 && s.stock.Load() > 0 {
		soldOut, served := false, false
		err := g(ctx, func(ctx context.Context) (err error) {
			soldOut, err = s.serve(ctx)
			served = err == nil
			return err
		})
		switch {
		case err != nil:
			return err
		case soldOut:
			return nil
		case !served:
			s.queue.Add(1) // the customer comes again
		}
	}
	return nil
}

// serve sells one unit: reads the stock, thinks a little, writes one less.
func (s *sale) serve(ctx context.Context) (soldOut bool, err error) {
	for n := s.inside.Add(1); ; {
		most := s.crowd.Load()
		if n <= most || s.crowd.CompareAndSwap(most, n) {
			break
		}
	}
	defer s.inside.Add(-1)

	stock := s.stock.Load()
	if stock <= 0 {
		return true, nil
	}
	if !pause(ctx, 20*time.Millisecond+rand.N(30*time.Millisecond)) {
		return false, context.Cause(ctx) // the hold is lost: hands off the stock
	}
	s.stock.Store(stock - 1)
	s.sold.Add(1)
	return false, nil
}

// exact says whether each unit was sold once, by one till at a time.
func (s *sale) exact() bool {
	return s.sold.Load() == units && s.stock.Load() == 0 && s.crowd.Load() == 1
}
