package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/redlock"
)

// Any number of processes read the price list at the same time. A process that changes it holds the lock alone.
func ExampleLocker_RLock() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	ctx := context.Background()
	first, err := locker.RLock(ctx, "prices")
	if err != nil {
		log.Fatal(err)
	}
	second, err := locker.RLock(ctx, "prices")
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.TryLock(ctx, "prices")
	fmt.Println("a writer beside two readers is refused:", errors.Is(err, redlock.ErrTaken))

	_ = first.Unlock()
	_ = second.Unlock()
	writer, err := locker.Lock(ctx, "prices") // the ordinary lock
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.TryRLock(ctx, "prices")
	fmt.Println("a reader beside a writer is refused:", errors.Is(err, redlock.ErrTaken))
	fmt.Println("the writer has a token:", writer.Token() > 0)
	_ = writer.Unlock()
	// Output:
	// a writer beside two readers is refused: true
	// a reader beside a writer is refused: true
	// the writer has a token: true
}

// RDo runs a function as a reader.
func ExampleLocker_RDo() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	fmt.Println(locker.RDo(context.Background(), "prices", func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("prices do not change meanwhile")
		return ctx.Err() // ends when the hold does
	}))
	// Output:
	// prices do not change meanwhile
	// <nil>
}
