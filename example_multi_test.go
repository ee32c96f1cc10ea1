package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/redlock"
)

// A transfer needs both accounts. Callers may name the accounts in any order: no deadlock is possible.
func ExampleLocker_LockAll() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.LockAll(ctx, []string{"account:7", "account:3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Name())

	// Each of the names is taken now.
	_, err = locker.TryLock(ctx, "account:3")
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// account:3, account:7
	// true
	// <nil>
}

// WithMaxAttempts(1) makes one attempt and does not wait. The error says which name was taken.
func ExampleLocker_LockAll_once() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	other, err := locker.Lock(ctx, "account:5")
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock(ctx)

	_, err = locker.LockAll(ctx, []string{"account:3", "account:5", "account:7"}, redlock.WithMaxAttempts(1))
	var failure *redlock.QuorumError
	fmt.Println(errors.As(err, &failure), errors.Is(err, redlock.ErrTaken))
	for _, node := range failure.Nodes {
		if node.Outcome == redlock.OutcomeTaken {
			fmt.Println(node.Name, node.Owner == other.Owner())
			break
		}
	}
	// Output:
	// true true
	// account:5 true
}

// Names returns the names of the hold, sorted.
func ExampleLock_Names() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.LockAll(ctx, []string{"rack 2", "rack 1", "rack 3"})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	for _, name := range lock.Names() {
		fmt.Println(name)
	}
	// Output:
	// rack 1
	// rack 2
	// rack 3
}
