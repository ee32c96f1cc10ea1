package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

// Two machines start the same job. One runs it; when the first run fails, the other machine tries again.
func ExampleLocker_Once() {
	a, b, stop := twoLockersOnFiveMasters()
	defer stop()

	ctx := context.Background()
	fmt.Println(a.Once(ctx, "report:2026-11-21", func(context.Context, *redlock.Lock) error {
		return errors.New("the disk is full")
	}))
	fmt.Println(b.Once(ctx, "report:2026-11-21", func(ctx context.Context, lock *redlock.Lock) error {
		fmt.Println("b runs", lock.Name())
		return ctx.Err() // ends when the hold does
	}))
	err := a.Once(ctx, "report:2026-11-21", func(context.Context, *redlock.Lock) error {
		fmt.Println("a runs again")
		return nil
	})
	fmt.Println(errors.Is(err, redlock.ErrAlreadyRun))
	// Output:
	// the disk is full
	// b runs report:2026-11-21
	// <nil>
	// true
}

// TryOnce does not wait for another machine's run. The function gets the hold, for its token.
func ExampleLocker_TryOnce() {
	a, b, stop := twoLockersOnFiveMasters()
	defer stop()

	ctx := context.Background()
	fmt.Println(a.TryOnce(ctx, "report", func(ctx context.Context, lock *redlock.Lock) error {
		err := b.TryOnce(ctx, "report", func(context.Context, *redlock.Lock) error { return nil })
		fmt.Println("b did not run:", errors.Is(err, redlock.ErrNotAcquired), errors.Is(err, redlock.ErrTaken))
		fmt.Println("a has a token:", lock.Token() > 0)
		return nil
	}))
	// Output:
	// b did not run: true true
	// a has a token: true
	// <nil>
}

// After a success no machine runs the job again until the done TTL is over.
func ExampleWithDoneTTL() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters, redlock.WithDoneTTL(50*time.Minute)) // for an hourly job
	defer locker.Close()

	report := func(context.Context, *redlock.Lock) error {
		fmt.Println("done")
		return nil
	}
	ctx := context.Background()
	_ = locker.Once(ctx, "report", report)
	fmt.Println(errors.Is(locker.Once(ctx, "report", report), redlock.ErrAlreadyRun))
	masters.FastForward(time.Hour)
	_ = locker.Once(ctx, "report", report)
	// Output:
	// done
	// true
	// done
}

// A job that fails on every machine must not be run for ever.
func ExampleWithMaxRuns() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	for range 3 {
		err := locker.Once(context.Background(), "report", func(context.Context, *redlock.Lock) error {
			return errors.New("no paper")
		}, redlock.WithMaxRuns(2))
		text, _, _ := strings.Cut(err.Error(), ";")
		fmt.Println(errors.Is(err, redlock.ErrRunsExhausted), text)
	}
	// Output:
	// false no paper
	// false no paper
	// true redlock: once report: runs exhausted: 2 of 2 runs have begun and none succeeded
}

// A job has failed as often as it may. When the cause is mended, its runs are forgotten, and it begins anew.
func ExampleLocker_Forget() {
	locker, stop := lockerOnFiveMasters(redlock.WithMaxRuns(1))
	defer stop()

	ctx := context.Background()
	_ = locker.Once(ctx, "report", func(context.Context, *redlock.Lock) error { return errors.New("the disk is full") })
	again := func(context.Context, *redlock.Lock) error { return nil }
	fmt.Println(errors.Is(locker.Once(ctx, "report", again), redlock.ErrRunsExhausted))

	runs, err := locker.Forget(ctx, "report")
	fmt.Println(runs.Begun, runs.Last, err)
	fmt.Println(locker.Once(ctx, "report", again))
	// Output:
	// true
	// 1 failed <nil>
	// <nil>
}
