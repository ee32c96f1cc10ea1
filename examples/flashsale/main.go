// A hundred units, twenty tills on their own connections, three hundred customers: nobody is sold what is not
// there, also while two of the five masters are down.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// shop is a database without transactions: it can read the stock, and write it.
type shop struct{ stock, sold atomic.Int64 }

func main() {
	masters, err := redlocktest.Start(5) // stands in for your Redis masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	var s shop
	s.stock.Store(100)
	var customers atomic.Int64
	customers.Store(300)
	var tills sync.WaitGroup
	for range 20 {
		locker, err := redlock.New(masters.URLs(), patient) // each till is a process of its own
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		tills.Go(func() {
			for customers.Add(-1) >= 0 {
				if err := s.sell(locker); err != nil {
					log.Fatal(err)
				}
				if s.sold.Load() >= 20 {
					masters.Kill(1, 3) // a majority is left; killing the dead does nothing
				}
			}
		})
	}
	tills.Wait()
	fmt.Printf("sold %d, left %d\n", s.sold.Load(), s.stock.Load())
}

// sell reads the stock and writes one less. In between, nobody else may do the same.
func (s *shop) sell(locker *redlock.Locker) error {
	sold := false
	err := locker.Do(context.Background(), "stock:4711", func(ctx context.Context, _ *redlock.Lock) error {
		left := s.stock.Load()
		if left == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil { // the lock was lost: do not write
			return err
		}
		s.stock.Store(left - 1)
		s.sold.Add(1)
		sold = true
		return nil
	})
	if sold && errors.Is(err, redlock.ErrNoQuorum) {
		return nil // masters were killed just before the unlock, and too few confirm it: the sale is made
	}
	return err
}
