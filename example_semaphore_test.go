package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/redlock"
)

// At most two processes hold a permit at a time. Each Locker here represents a process. TryAcquire does not wait.
func ExampleLocker_Semaphore() {
	masters, stop := fiveMasters()
	defer stop()

	ctx := context.Background()
	var held []*redlock.Lock
	for range 3 {
		locker, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()

		permit, err := locker.Semaphore("encoder", 2).TryAcquire(ctx)
		fmt.Println(err == nil, errors.Is(err, redlock.ErrTaken))
		if err == nil {
			held = append(held, permit)
		}
	}
	fmt.Println("two slots:", held[0].Name() != held[1].Name())
	for _, permit := range held {
		fmt.Println(permit.Unlock())
	}
	// Output:
	// true false
	// true false
	// false true
	// two slots: true
	// <nil>
	// <nil>
}

// Acquire waits until a permit is free. Keep the Semaphore, and share it among goroutines.
func ExampleSemaphore_Acquire() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	encoders := locker.Semaphore("encoder", 1)
	ctx := context.Background()
	permit, _ := encoders.Acquire(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := encoders.Acquire(ctx)
		fmt.Println("next:", next.Name(), err)
		_ = next.Unlock()
	}()
	fmt.Println("first:", permit.Name())
	_ = permit.Unlock()
	<-done
	// Output:
	// first: redlock:permit:encoder:0
	// next: redlock:permit:encoder:0 <nil>
}

// Do runs a function with a permit.
func ExampleSemaphore_Do() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	encoders := locker.Semaphore("encoder", 2)
	fmt.Println(encoders.Do(context.Background(), func(ctx context.Context, permit *redlock.Lock) error {
		fmt.Println("one of two")
		return ctx.Err() // ends when the permit does
	}))
	// Output:
	// one of two
	// <nil>
}
