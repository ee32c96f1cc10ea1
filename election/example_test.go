package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/election"
	"github.com/quorumlock/redlock/redlocktest"
)

// fiveMasters replaces your Redis masters, and returns a Locker for them.
func fiveMasters() (locker *redlock.Locker, stop func()) {
	masters, err := redlocktest.Start(5)
	if err != nil {
		log.Fatal(err)
	}
	locker, err = redlock.New(masters.URLs(), redlock.WithNodeTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() {
		locker.Close()
		masters.Close()
	}
}

// Run leads until the work is done, and campaigns again when a term is lost: here an administrator takes the first one.
func ExampleElection_Run() {
	locker, stop := fiveMasters()
	defer stop()
	scheduler := election.New(locker, "scheduler")

	terms := 0
	err := scheduler.Run(context.Background(), "10.0.0.7:8080", func(ctx context.Context, term *redlock.Lock) error {
		if terms++; terms == 2 {
			return nil // all is done
		}
		if err := locker.ForceUnlock(ctx, "scheduler", term.Owner()); err != nil {
			return err
		}
		<-ctx.Done() // stop whatever only the leader may do
		return context.Cause(ctx)
	})
	fmt.Println(err, terms)
	// Output: <nil> 2
}

// A term is a hold: SetValue shows another value, Token is the number, and Unlock or Resign ends it.
func ExampleElection_Campaign() {
	locker, stop := fiveMasters()
	defer stop()
	ctx := context.Background()
	scheduler := election.New(locker, "scheduler")

	term, err := scheduler.Campaign(ctx, "starting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(term.SetValue(ctx, "10.0.0.7:8080"))
	leader, err := scheduler.Leader(ctx)
	fmt.Println(leader.Value, leader.Number == term.Token(), err)

	fmt.Println(scheduler.Resign())
	_, err = scheduler.Leader(ctx)
	fmt.Println(errors.Is(err, election.ErrNoLeader))
	// Output:
	// <nil>
	// 10.0.0.7:8080 true <nil>
	// <nil>
	// true
}

// An observer is told who leads, and when nobody does. It needs no Locker: redlock.NewInspector is enough.
func ExampleObserver_Observe() {
	locker, stop := fiveMasters()
	defer stop()
	ctx := context.Background()
	scheduler := election.New(locker, "scheduler")

	for term, err := range election.NewObserver(locker.Inspector(), "scheduler").Observe(ctx) {
		switch {
		case errors.Is(err, election.ErrNoLeader):
			fmt.Println("nobody leads")
			if _, err := scheduler.Campaign(ctx, "10.0.0.7:8080"); err != nil {
				log.Fatal(err)
			}
		case err != nil:
			log.Println(err) // the next pair comes when enough nodes answer
		default:
			fmt.Println(term.Value, "leads")
			return
		}
	}
	// Output:
	// nobody leads
	// 10.0.0.7:8080 leads
}
