package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// fiveMasters replaces your Redis masters: it starts five masters in this process.
func fiveMasters() (masters *redlocktest.Cluster, stop func()) {
	masters, err := redlocktest.Start(5)
	if err != nil {
		log.Fatal(err)
	}
	return masters, masters.Close
}

// patient is for masters that share the processors with everything else in this process, and may answer late.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// lockerOnFiveMasters replaces redlock.New with the URLs of your masters, in examples that do not use the masters
// otherwise.
func lockerOnFiveMasters() (locker *redlock.Locker, stop func()) {
	masters, stopMasters := fiveMasters()
	locker, err := redlock.New(masters.URLs(), patient)
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() {
		locker.Close()
		stopMasters()
	}
}

func Example() {
	masters, stop := fiveMasters()
	defer stop()

	locker, err := redlock.New(masters.URLs(), patient) // redis://10.0.0.1, redis://10.0.0.2, …
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx := context.Background()
	err = locker.Do(ctx, "stock:4711", func(ctx context.Context) error {
		fmt.Println("nobody else is here")
		return ctx.Err() // ends when the hold does
	})
	fmt.Println(err)
	// Output:
	// nobody else is here
	// <nil>
}

// New refuses arguments that cannot work, but not nodes that cannot be reached.
func ExampleNew() {
	_, err := redlock.New([]string{"redis://10.0.0.1", "redis://10.0.0.1:6379"})
	fmt.Println(errors.Is(err, redlock.ErrInvalid), err)

	_, err = redlock.New([]string{"redis://10.0.0.1"}, redlock.WithTTL(time.Microsecond))
	fmt.Println(errors.Is(err, redlock.ErrInvalid), err)
	// Output:
	// true redlock: New: invalid: nodes 1 and 2 are the same server 10.0.0.1:6379: it would have two votes
	// true redlock: New: invalid: TTL 1µs: Redis counts in milliseconds, 1ms is the least
}

// Lock waits. The context bounds the wait and has no influence on the hold.
func ExampleLocker_Lock() {
	masters, stop := fiveMasters()
	defer stop()
	a, _ := redlock.New(masters.URLs(), patient)
	defer a.Close()
	b, _ := redlock.New(masters.URLs(), patient) // usually another process
	defer b.Close()

	lock, err := a.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err = b.Lock(ctx, "report")
	fmt.Println("somebody has it:", errors.Is(err, redlock.ErrTaken))
	fmt.Println("I ran out of time:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// somebody has it: true
	// I ran out of time: true
}

// TryLock makes one attempt. Its error distinguishes "another client has it" from "too few nodes answered".
func ExampleLocker_TryLock() {
	masters, stop := fiveMasters()
	defer stop()
	a, _ := redlock.New(masters.URLs(), patient)
	defer a.Close()
	b, _ := redlock.New(masters.URLs(), patient)
	defer b.Close()
	ctx := context.Background()

	try := func(name string) {
		lock, err := b.TryLock(ctx, name)
		switch {
		case err == nil:
			fmt.Println("mine")
			_ = lock.Unlock(ctx)
		case errors.Is(err, redlock.ErrTaken):
			fmt.Println("somebody else is at it")
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("too few nodes answered")
		default:
			fmt.Println(err)
		}
	}

	lock, err := a.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	try("report")
	masters.Kill(0, 1) // three of five are a majority
	try("invoice")
	masters.Kill(2)
	try("invoice")
	// Output:
	// somebody else is at it
	// mine
	// too few nodes answered
}

// Do locks, runs the function and unlocks. Its error wraps that of the function.
func ExampleLocker_Do() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	errSoldOut := errors.New("sold out")
	err := locker.Do(context.Background(), "stock:4711", func(ctx context.Context) error {
		lock, _ := redlock.FromContext(ctx)
		fmt.Println("holding", lock.Name())
		return errSoldOut
	})
	fmt.Println(errors.Is(err, errSoldOut))
	// Output:
	// holding stock:4711
	// true
}

// Inside Do, the same name can be locked again: the call joins the hold and asks no node.
func ExampleLocker_Do_nested() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	pay := func(ctx context.Context) error {
		return locker.Do(ctx, "account:7", func(context.Context) error {
			fmt.Println("paid")
			return nil
		})
	}
	err := locker.Do(context.Background(), "account:7", func(ctx context.Context) error {
		if err := pay(ctx); err != nil { // the context carries the hold
			return err
		}
		return pay(ctx)
	})
	fmt.Println(err)
	// Output:
	// paid
	// paid
	// <nil>
}

// A hold moves from one process to another: the first prepares the work, the second does it.
func ExampleLocker_Adopt() {
	masters, stop := fiveMasters()
	defer stop()
	a, _ := redlock.New(masters.URLs(), patient)
	defer a.Close()
	b, _ := redlock.New(masters.URLs(), patient) // in another process
	defer b.Close()
	ctx := context.Background()

	first, err := a.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := first.Ticket() // the first hold ends here
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Err())

	second, err := b.Adopt(ctx, ticket) // send the ticket secretly: any process that has it can adopt the hold
	if err != nil {
		log.Fatal(err)
	}
	defer second.Unlock(ctx)
	fmt.Println(second.Name(), second.Err(), second.Token() > first.Token())

	_, err = a.Adopt(ctx, ticket) // a ticket can be used once
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output:
	// redlock: handed over
	// import <nil> true
	// true
}

// Close ends the remaining holds; it does not unlock them on the nodes.
func ExampleLocker_Close() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), patient)

	lock, err := locker.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	locker.Close()
	fmt.Println(lock.Err())
	_, err = locker.TryLock(context.Background(), "report")
	fmt.Println(errors.Is(err, redlock.ErrClosed))
	// Output:
	// redlock: closed
	// true
}
