package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

// A QuorumError says what every node answered.
func ExampleQuorumError() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters)
	defer locker.Close()
	masters.Kill(0, 2, 4)

	_, err := locker.TryLock(context.Background(), "report")
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		log.Fatal(err)
	}
	fmt.Printf("%s %q: %d nodes of %d are needed\n", q.Op, q.Name, q.Need, len(q.Nodes))
	for i, node := range q.Nodes {
		if errors.Is(node.Err, redlock.ErrNodeDown) {
			fmt.Println("node", i, node.Outcome) // and node.Addr, node.Err
		}
	}
	fmt.Println("a node's error is not the call's:", !errors.Is(err, redlock.ErrNodeDown))
	// Output:
	// lock "report": 3 nodes of 5 are needed
	// node 0 failed
	// node 2 failed
	// node 4 failed
	// a node's error is not the call's: true
}

// If another client holds the lock, the nodes return its owner and how long they keep the lock for it.
func ExampleNodeError() {
	a, b, stop := twoLockersOnFiveMasters()
	defer stop()
	ctx := context.Background()

	lock, err := a.Lock(ctx, "report", redlock.WithTTL(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()

	_, err = b.TryLock(ctx, "report")
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		log.Fatal(err)
	}
	for _, node := range q.Nodes {
		if node.Outcome == "taken" {
			fmt.Println(node.Owner == lock.Owner(), node.Remaining.Round(10*time.Second))
			break
		}
	}
	// Output:
	// true 20s
}

// An error says who holds the lock. Without the option it is the host's name and the process id.
func ExampleWithOwnerLabel() {
	a, b, stop := twoLockersOnFiveMasters(redlock.WithOwnerLabel("billing on web-3"))
	defer stop()
	ctx := context.Background()

	lock, err := a.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()

	_, err = b.TryLock(ctx, "report")
	who, _, _ := strings.Cut(err.Error(), ", ") // 10.0 s left (3 of 5)
	fmt.Println(who)
	// Output:
	// redlock: lock report: taken by billing on web-3
}

// Status says whether the masters are fit for locks; the command redlock doctor prints it.
func ExampleInspector_Status() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters)
	defer locker.Close()
	masters.Kill(3)
	_, _ = locker.TryLock(context.Background(), "report") // notices that node 3 is down

	for i, node := range locker.Status(context.Background()) {
		if node.Err != nil {
			fmt.Println("the vote of node", i, "does not count") // and node.Err, node.Findings
		}
	}
	// Output:
	// the vote of node 3 does not count
}
