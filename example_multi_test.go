package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/redlock"
)

// A transfer needs both accounts. Callers may name the accounts in any order: no deadlock is possible.
// TryLockAll does not wait, and its error says which name was taken.
func ExampleLocker_LockAll() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := locker.LockAll(ctx, []string{"account:7", "account:3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Name())

	_, err = locker.TryLockAll(ctx, []string{"account:5", "account:7"})
	var failure *redlock.QuorumError
	fmt.Println(errors.As(err, &failure), errors.Is(err, redlock.ErrTaken))
	for _, node := range failure.Nodes {
		if node.Outcome == "taken" {
			fmt.Println(node.Name, node.Owner == lock.Owner())
			break
		}
	}
	fmt.Println(lock.Unlock())
	// Output:
	// account:3, account:7
	// true true
	// account:7 true
	// <nil>
}
