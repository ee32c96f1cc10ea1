package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/redlock"
)

// Inspect says which owner holds a lock, and how the last run of a job ended.
func ExampleInspector_Inspect() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	ctx := context.Background()
	lock, _ := locker.Lock(ctx, "report")
	i, err := locker.Inspect(ctx, "report")
	fmt.Println(i.Owner == lock.Owner(), i.Token == lock.Token(), i.Waiting, len(i.Nodes), err)
	_ = lock.Unlock()

	_ = locker.Once(ctx, "report", func(context.Context, *redlock.Lock) error { return nil })
	i, _ = locker.Inspect(ctx, "report")
	fmt.Println(i.Runs.Begun, i.Runs.Last == "done")
	// Output:
	// true true 0 5 <nil>
	// 1 true
}

// Who holds what: an inventory.
func ExampleInspector_List() {
	locker, stop := lockerOnFiveMasters(redlock.WithOwnerLabel("web-3"))
	defer stop()

	ctx := context.Background()
	_, _ = locker.Lock(ctx, "deploy:web")
	_, _ = locker.Lock(ctx, "deploy:api")
	_, _ = locker.Lock(ctx, "report")
	for lock, err := range locker.List(ctx, "deploy:") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lock.Name, "is held by", lock.Label)
	}
	// Output:
	// deploy:api is held by web-3
	// deploy:web is held by web-3
}

// A process hangs and goes on renewing its lock. An administrator who knows that it does no harm takes the lock away.
func ExampleInspector_ForceUnlock() {
	masters, stop := fiveMasters()
	defer stop()
	hangs := newLocker(masters)
	defer hangs.Close()
	admin := newLocker(masters)
	defer admin.Close()

	ctx := context.Background()
	stuck, _ := hangs.Lock(ctx, "report")
	held, _ := admin.Inspect(ctx, "report")
	fmt.Println(admin.ForceUnlock(ctx, "report", held.Owner))

	// The former holder notices within its TTL. A resource that checks tokens refuses it from now on.
	next, err := admin.TryLock(ctx, "report")
	fmt.Println(next.Token() > stuck.Token(), err)
	// Output:
	// <nil>
	// true <nil>
}

// Watch shows who has a lock, and what its holder says, until ctx ends or the loop is left.
func ExampleInspector_Watch() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	ctx := context.Background()
	lock, _ := locker.Lock(ctx, "primary", redlock.WithValue("10.0.0.7:5432"))
	for now, err := range locker.Watch(ctx, "primary") {
		switch {
		case err != nil:
			fmt.Println("unknown:", err)
		case now.Owner == "":
			fmt.Println("free")
			return
		case now.Value == "10.0.0.7:5432":
			fmt.Println(now.Value)
			_ = lock.SetValue(ctx, "leaving")
		default:
			fmt.Println(now.Value)
			_ = lock.Unlock()
		}
	}
	// Output:
	// 10.0.0.7:5432
	// leaving
	// free
}

// A service is sent a token, and cannot store the largest that it has seen.
func ExampleInspector_Check() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	ctx := context.Background()
	lock, _ := locker.Lock(ctx, "primary", redlock.WithValue("10.0.0.7:5432"))
	token := lock.Token()
	fmt.Println(locker.Check(ctx, "primary", token))
	_ = lock.Unlock()
	fmt.Println(errors.Is(locker.Check(ctx, "primary", token), redlock.ErrLost))
	// Output:
	// <nil>
	// true
}
