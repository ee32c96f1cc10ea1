package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/redlock"
)

// Any number of processes read the price list at the same time. A process that changes it holds the lock alone.
func ExampleRWMutex() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	ctx := context.Background()
	prices := locker.RWMutex("prices")
	first, err := prices.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := prices.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.TryLock(ctx)
	fmt.Println("a writer beside two readers is refused:", errors.Is(err, redlock.ErrTaken))

	_ = first.Unlock(ctx)
	_ = second.Unlock(ctx)
	writer, err := prices.Lock(ctx) // the ordinary lock of the name "prices"
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.TryRLock(ctx)
	fmt.Println("a reader beside a writer is refused:", errors.Is(err, redlock.ErrTaken))
	fmt.Println("the writer has a token:", writer.Token() > 0)
	_ = writer.Unlock(ctx)
	// Output:
	// a writer beside two readers is refused: true
	// a reader beside a writer is refused: true
	// the writer has a token: true
}
