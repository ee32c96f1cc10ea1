package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/redlock"
)

// The context ends when the hold does, so work that obeys the context stops in time. It also carries the hold: what is
// called with it may lock the same name again.
func ExampleLock_Context() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters)
	defer locker.Close()

	lock, err := locker.Lock(context.Background(), "import", redlock.WithTTL(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := lock.Context(context.Background())
	defer cancel()
	inner, err := locker.Lock(ctx, "import") // returns at once
	fmt.Println(err, inner.Unlock(), lock.Err())

	masters.Kill(0, 1, 2) // the hold cannot be renewed now
	<-ctx.Done()
	fmt.Println(ctx.Err())
	fmt.Println(context.Cause(ctx))
	// Output:
	// <nil> <nil> <nil>
	// context canceled
	// redlock: lost
}

// Done is for a select; Err says why the hold ended. Unlock returns ErrLost then: the work may have run unprotected.
func ExampleLock_Done() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import", redlock.WithTTL(100*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	work := make(chan string) // never has an item
	select {
	case item := <-work:
		fmt.Println(item)
	case <-lock.Done():
		fmt.Println(lock.Err())
	}
	fmt.Println(errors.Is(lock.Unlock(), redlock.ErrLost))
	// Output:
	// redlock: lost
	// true
}

// Ending leaves time to stop in good order while the lock is still held.
func ExampleLock_Ending() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import", redlock.WithMaxHold(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	items := make(chan string) // never has an item
	select {
	case item := <-items:
		fmt.Println(item)
	case <-lock.Ending(90 * time.Millisecond): // saves what it has, and unlocks
		fmt.Println("the rest is for the next run")
	}
	_ = lock.Unlock()
	// Output: the rest is for the next run
}

// Wanted lets a long holder give way to whoever waits.
func ExampleLock_Wanted() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	waiter := make(chan error)
	go func() { waiter <- locker.Do(ctx, "import", func(context.Context, *redlock.Lock) error { return nil }) }()
	<-lock.Wanted() // or the hold has ended: finishes the piece of work at hand
	_ = lock.Unlock()
	fmt.Println(<-waiter)
	// Output: <nil>
}

// Err is nil while the hold may be trusted. Call it just before a step that cannot be undone.
func ExampleLock_Err() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Err())
	if err := lock.Unlock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Err())
	// Output:
	// <nil>
	// redlock: unlocked
}

// Deadline is for people and logs: the TTL less the drift allowance and the time that acquiring took.
func ExampleLock_Deadline() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import", redlock.WithTTL(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()
	left := time.Until(lock.Deadline())
	fmt.Println(left > 10*time.Second, left < 20*time.Second)
	// Output:
	// true true
}

// Extend asks for a full TTL from now. With renewal, which is the default, it is not needed.
func ExampleLock_Extend() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters)
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import", redlock.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	before := lock.Deadline()
	err = lock.Extend(ctx)
	fmt.Println(err, lock.Deadline().After(before))

	masters.Empty(0, 1, 2, 3, 4) // all keys are deleted
	err = lock.Extend(ctx)
	fmt.Println(errors.Is(err, redlock.ErrLost))
	fmt.Println(errors.Is(lock.Extend(ctx), redlock.ErrLost)) // a hold that has ended cannot be extended
	// Output:
	// <nil> true
	// true
	// true
}

// A hold moves from one process to another: the first prepares the work, the second does it. A deferred Unlock of the
// first does no harm.
func ExampleLock_Ticket() {
	a, b, stop := twoLockersOnFiveMasters()
	defer stop()
	ctx := context.Background()

	first, err := a.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := first.Ticket() // the first hold ends here
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Err(), first.Unlock())

	_, err = a.TryLock(ctx, "import") // the nodes keep the lock for the holder of the ticket
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	second, err := b.Adopt(ctx, ticket) // send the ticket secretly: any process that has it can adopt the hold
	if err != nil {
		log.Fatal(err)
	}
	defer second.Unlock()
	fmt.Println(second.Name(), second.Err(), second.Token() > first.Token())

	_, err = a.Adopt(ctx, ticket) // a ticket can be used once
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output:
	// redlock: handed over <nil>
	// true
	// import <nil> true
	// true
}

// FromContext is for code that does not get the Lock as an argument, here for its fencing token.
func ExampleFromContext() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	write := func(ctx context.Context) error {
		lock, ok := redlock.FromContext(ctx)
		if !ok {
			return errors.New("write: not under a lock")
		}
		fmt.Println("with a token:", lock.Token() > 0)
		return nil
	}
	fmt.Println(write(context.Background()))
	fmt.Println(locker.Do(context.Background(), "account:7", func(ctx context.Context, _ *redlock.Lock) error {
		return write(ctx)
	}))
	// Output:
	// write: not under a lock
	// with a token: true
	// <nil>
}
