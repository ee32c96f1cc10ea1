// Command history lets several client processes lock on five real masters, breaks something every second, records every
// hold, and judges the history: no two holds that exclude each other were valid at once, every token was larger than
// those before, and each lock was a linearizable register that tokens fence. Then every key must be gone, and the
// throughput must be back.
//
//	go run -C integration ./history -minutes 10
//
// REDLOCK_PROVIDER chooses containers or processes. It ends with 1 where the history is wrong, or where too little
// happened to prove anything. A wrong history is left in -out, as JSON and as porcupine's view of the part that cannot
// be.
//
// Clients lock one name and several, read and write, and take permits. They take locks from each other, too
// (ForceUnlock), run jobs once and have some forgotten, and the list of nodes is changed under them. A hold that was
// taken away counts until then alone; no job is done twice unless it was forgotten.
//
// Without the restart guard (-guard 0), holds may overlap where masters have forgotten. Their tokens must be in order
// all the same, and nothing else is judged.
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
	if told := os.Getenv(clientVariable); told != "" {
		os.Exit(clientMain(told))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	minutes := flag.Float64("minutes", 10, "for how long faults strike")
	clients := flag.Int("clients", 12, "how many client processes")
	goroutines := flag.Int("goroutines", 3, "how many goroutines of each lock")
	guard := flag.Duration("guard", leastGuard, "the clients' restart guard; 0: none")
	seed := flag.Uint64("seed", rand.Uint64(), "the order of faults")
	out := flag.String("out", ".", "the directory for a history that is wrong")
	flag.Parse()
	c := config{
		length: time.Duration(*minutes * float64(time.Minute)), calm: 5 * time.Second, every: time.Second,
		guard: *guard, seed: *seed, clients: *clients, workers: *goroutines, out: *out, full: true,
		patience: backoff * time.Duration(max(1, *clients/3)),
	}
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	provider, err := masters.Choose(ctx)
	if err != nil {
		return err
	}
	report, err := c.run(ctx, provider, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Print(report)
	return report.err()
}
