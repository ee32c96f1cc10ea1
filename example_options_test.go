package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/redlock"
)

// An option is the default if given to New, and an exception if given to a call.
func ExampleWithTTL() {
	locker, stop := lockerOnFiveMasters(redlock.WithTTL(30 * time.Second))
	defer stop()
	ctx := context.Background()

	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithTTL(5 * time.Second)}} {
		begun := time.Now()
		lock, err := locker.Lock(ctx, "import", opts...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lock.Deadline().Sub(begun).Round(time.Second))
		_ = lock.Unlock()
	}
	// Output:
	// 30s
	// 5s
}

// A hold that is not renewed ends after its TTL, and Do returns ErrLost.
func ExampleWithoutRenewal() {
	locker, stop := lockerOnFiveMasters(redlock.WithTTL(100*time.Millisecond), redlock.WithoutRenewal())
	defer stop()

	err := locker.Do(context.Background(), "import", func(ctx context.Context, _ *redlock.Lock) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output:
	// true
}

// Work that makes no progress does not keep its lock.
func ExampleWithRenewWhile() {
	locker, stop := lockerOnFiveMasters(redlock.WithTTL(300 * time.Millisecond))
	defer stop()

	err := locker.Do(context.Background(), "import", func(ctx context.Context, _ *redlock.Lock) error {
		<-ctx.Done() // it hangs
		return nil
	}, redlock.WithRenewWhile(func(context.Context) error {
		return errors.New("no progress since 12:07")
	}))
	fmt.Println(err)
	// Output: redlock: unlock import: lost: not renewed: no progress since 12:07
}

// WithMaxHold limits a job that hangs: renewal alone would keep its lock for ever.
func ExampleWithMaxHold() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	hang := func(ctx context.Context, _ *redlock.Lock) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err := locker.Do(context.Background(), "import", hang,
		redlock.WithTTL(400*time.Millisecond), redlock.WithMaxHold(150*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrMaxHold))
	// Output:
	// true
}

// The wait may take 50 ms, and the work as long as it takes.
func ExampleWithMaxWait() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, _ *redlock.Lock) error {
		_, bounded := ctx.Deadline()
		fmt.Println("bounded:", bounded)
		return nil
	}
	err = locker.Do(ctx, "import", work, redlock.WithMaxWait(50*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrMaxWait)) // and ErrTaken, as the last attempt found

	_ = lock.Unlock()
	fmt.Println(locker.Do(ctx, "import", work, redlock.WithMaxWait(5*time.Second)))
	// Output:
	// true
	// bounded: false
	// <nil>
}

// A drift of ten per cent is for nodes whose clocks chrony may slew by its default limit of 8.3 %.
func ExampleWithDrift() {
	locker, stop := lockerOnFiveMasters(redlock.WithDrift(0.1, 2*time.Millisecond))
	defer stop()
	ctx := context.Background()

	begun := time.Now()
	lock, err := locker.Lock(ctx, "import", redlock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()
	fmt.Println(lock.Deadline().Sub(begun).Round(time.Second))
	// Output:
	// 9s
}

// A slack of 3 s is a lock-delay: a holder that is cut off stops 3 s before the nodes let anybody else have the lock.
// Unlock hands it over at once.
func ExampleWithDrift_lockDelay() {
	a, b, stop := twoLockersOnFiveMasters(redlock.WithDrift(0.01, 3*time.Second))
	defer stop()
	ctx := context.Background()

	lock, err := a.Lock(ctx, "disk:7", redlock.WithTTL(15*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	seen, err := b.Inspect(ctx, "disk:7")
	fmt.Println(seen.Remaining-time.Until(lock.Deadline()) >= 3*time.Second, err)
	_ = lock.Unlock()
	_, err = b.TryLock(ctx, "disk:7")
	fmt.Println(err)
	// Output:
	// true <nil>
	// <nil>
}

// Without tokens the nodes get a plain SET NX PX, as from other Redlock clients.
func ExampleWithoutFencing() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "cache:warm", redlock.WithoutFencing())
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()
	fmt.Println(lock.Token())
	// Output:
	// 0
}
