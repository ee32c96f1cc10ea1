package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// oneByOne is a guard that does what a lock does. (A mutex would keep virtual time from passing.)
func oneByOne() guard {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, serve func(context.Context) error) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return serve(ctx)
	}
}

func TestSale(t *testing.T) {
	for name, c := range map[string]struct {
		guard       func() guard
		sold, crowd int64
	}{
		"unguarded":  {func() guard { return unguarded }, customers, tills},
		"one by one": {oneByOne, units, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSale()
			if err := s.open(t.Context(), c.guard()); err != nil {
				t.Fatal(err)
			}
			if got := s.sold.Load(); got != c.sold {
				t.Errorf("%s: got %d sold, want %d", name, got, c.sold)
			}
			if got := s.crowd.Load(); got != c.crowd {
				t.Errorf("%s: got up to %d tills at once, want %d", name, got, c.crowd)
			}
			if got := s.stock.Load(); c.crowd == 1 && got != 0 || got < 0 {
				t.Errorf("%s: got a stock of %d", name, got)
			}
		})
	}
}

// A till whose hold is lost leaves the stock alone, and its customer comes again.
func TestSaleUnderLostHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		inTurn, calls, lost := oneByOne(), 0, int64(0)
		err := s.open(t.Context(), func(ctx context.Context, serve func(context.Context) error) error {
			return inTurn(ctx, func(ctx context.Context) error {
				calls++
				if calls%3 > 0 {
					return serve(ctx)
				}
				held, lose := context.WithCancel(ctx)
				lose()
				if err := serve(held); errors.Is(err, context.Canceled) {
					lost++
				}
				return nil
			})
		})
		if sold, stock := s.sold.Load(), s.stock.Load(); err != nil || sold != units || stock != 0 || lost == 0 {
			t.Errorf("got %v, %d sold, a stock of %d, %d holds lost", err, sold, stock, lost)
		}
	})
}

func TestSaleEndsWithAnError(t *testing.T) {
	want := errors.New("no lock to be had")
	err := newSale().open(t.Context(), func(context.Context, func(context.Context) error) error { return want })
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}
