// Three machines have the same crontab. The first to run the nightly report fails, another one takes over, the third
// finds it done.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

var errDiskFull = errors.New("disk full")

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

func main() {
	masters, err := redlocktest.Start(5) // stands in for your Redis masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	var runs, done atomic.Int64
	report := func(context.Context, *redlock.Lock) error {
		if runs.Add(1) == 1 {
			fmt.Println("the first run fails")
			return errDiskFull
		}
		fmt.Println("the second succeeds")
		return nil
	}
	var machines sync.WaitGroup
	for range 3 {
		locker, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		machines.Go(func() {
			// The date is part of the name: tomorrow's report is another job.
			err := locker.Once(context.Background(), "report:2026-11-21", report)
			switch {
			case errors.Is(err, redlock.ErrAlreadyRun):
				done.Add(1)
			case err != nil && !errors.Is(err, errDiskFull):
				log.Fatal(err)
			}
		})
	}
	machines.Wait()
	fmt.Printf("%d runs; %d machine found it done\n", runs.Load(), done.Load())
}
