package redlockgocron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/quorumlock/redlock"
	redlockgocron "github.com/quorumlock/redlock/gocron"
	"github.com/quorumlock/redlock/redlocktest"
)

// patient is for masters that share this process's processors with everything else, and may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// Each run of the job is one machine's.
func ExampleNewLocker() {
	masters, err := redlocktest.Start(3) // instead of your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	done := make(chan struct{}, 2)
	for range 2 { // each stands for a machine
		locker, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(redlockgocron.NewLocker(locker, 10*time.Second)))
		if err != nil {
			log.Fatal(err)
		}
		_, err = scheduler.NewJob(
			gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { fmt.Println("the report is sent") }),
			gocron.WithName("report"),
			gocron.WithEventListeners(
				gocron.AfterJobRuns(func(uuid.UUID, string) { done <- struct{}{} }),
				gocron.AfterLockError(func(uuid.UUID, string, error) { done <- struct{}{} }),
			),
		)
		if err != nil {
			log.Fatal(err)
		}
		scheduler.Start()
		<-done
		_ = scheduler.Shutdown()
	}
	// Output: the report is sent
}

// One machine, the leader, runs all jobs.
func ExampleNewElector() {
	masters, err := redlocktest.Start(3) // instead of your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	ctx := context.Background()
	var electors []*redlockgocron.Elector
	for range 2 { // each stands for a machine
		locker, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		elector := redlockgocron.NewElector(locker, "scheduler")
		electors = append(electors, elector)
		_, err = gocron.NewScheduler(gocron.WithDistributedElector(elector)) // and so on
		fmt.Println(err, elector.IsLeader(ctx) == nil)
	}
	fmt.Println(electors[0].Close(ctx), electors[1].IsLeader(ctx) == nil)
	// Output:
	// <nil> true
	// <nil> false
	// <nil> true
}
