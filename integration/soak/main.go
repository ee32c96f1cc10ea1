// Command soak acquires a million locks on five real masters while those are
// killed, restarted without their data, frozen and made to forget their
// scripts, and the network in front of them is delayed, held and reset. Then it
// judges every token that was handed out.
//
//	go run -C integration ./soak -acquisitions 1000000 -minutes 10
//
// It ends with 1 where a token was not in order, or two holds overlapped, or
// there was too little of traffic or of any kind of fault to prove anything.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/redlock/integration/masters"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	acquisitions := flag.Int("acquisitions", 1_000_000, "how many locks to acquire at least")
	minutes := flag.Float64("minutes", 10, "for how long at least; the acquisitions are spread over it")
	ttl := flag.Duration("ttl", 2*time.Second, "the locks' TTL")
	guard := flag.Duration("guard", 2*time.Second,
		"the restart guard; where it and -down are shorter than the TTL, overlaps are counted and allowed")
	down := flag.Duration("down", 0, "how long a killed master stays down at least")
	seed := flag.Uint64("seed", rand.Uint64(), "the order of faults and of names")
	flag.Parse()
	if err := run(ctx, config{
		acquisitions: *acquisitions, length: time.Duration(*minutes * float64(time.Minute)),
		ttl: *ttl, guard: *guard, down: *down, seed: *seed,
		lockers: 4, workers: 32, hot: 4, warm: 2000, every: 10 * time.Second,
	}); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	provider, err := masters.Choose(ctx)
	if err != nil {
		return err
	}
	report, err := soak(ctx, c, provider, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Print(report)
	return report.err()
}
