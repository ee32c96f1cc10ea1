// Two candidates, one leader. The leader leads as long as it holds the lock, which is renewed by itself; when it
// crashes or is cut off from the majority, it stops, and the other one takes over.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/election"
	"github.com/quorumlock/redlock/redlocktest"
)

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// candidate stands for election until ctx is done.
func candidate(ctx context.Context, name string, masters *redlocktest.Cluster, elected chan<- string) {
	// The TTL is how long there may be no leader after one has crashed. The longest TTL is how long masters that have
	// restarted do not vote.
	locker, err := redlock.New(masters.URLs(),
		redlock.WithTTL(3*time.Second), redlock.WithMaxTTL(3*time.Second), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = election.New(locker, "leader").Run(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
		elected <- name
		<-ctx.Done() // lead: do the work that only one may do, and stop when this ends
		if errors.Is(context.Cause(ctx), redlock.ErrLost) {
			fmt.Println("a leader has lost the lock and steps down")
		}
		return context.Cause(ctx)
	})
	if ctx.Err() == nil {
		fmt.Println("no election:", err) // what waiting does not mend, such as another client's list of nodes that conflicts
	}
}

func main() {
	masters, err := redlocktest.Start(5) // stands in for your Redis masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	elected := make(chan string)
	var running sync.WaitGroup
	leave := map[string]context.CancelFunc{}
	for _, name := range []string{"ann", "ben"} {
		ctx, cancel := context.WithCancel(context.Background())
		leave[name] = cancel
		running.Go(func() { candidate(ctx, name, masters, elected) })
	}

	first := <-elected
	fmt.Println("elected: one of two")
	masters.Kill(0, 1, 2) // a majority dies
	time.Sleep(4 * time.Second)
	if err := masters.Revive(0, 1, 2); err != nil {
		log.Fatal(err)
	}
	second := <-elected
	fmt.Println("elected again, after the majority came back")

	leave[second]() // a leader that shuts down unlocks, so the other one need not wait for the TTL
	third := <-elected
	fmt.Println("elected: the other one,", third != second && (first == second || first == third))
	leave[third]()
	running.Wait()
}
