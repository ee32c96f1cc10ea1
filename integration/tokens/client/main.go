// Command client is a client whose wall clock a test sets back and forward: see
// TestTokensGrowWhenAClientsWallClockIsSet, which builds and runs it. It locks and unlocks until its standard input
// ends, and prints each hold: name, token, and when it was asked for, granted and ended, in ns of the true time.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

const names, workers = 6, 4

func run(nodes []string) (err error) {
	unguarded := redlock.NodeConfig{NoRestartGuard: true} // the masters have just been started
	l, err := redlock.New(nodes, redlock.WithTTL(time.Second), redlock.WithNodeConfig(unguarded))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	ctx := child.UntilInputEnds()
	out := bufio.NewWriter(os.Stdout)
	var mu sync.Mutex // protects out
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				hold(l, rand.IntN(names), func(line string) {
					mu.Lock()
					defer mu.Unlock()
					_, _ = out.WriteString(line) // Flush has the error
				})
			}
		})
	}
	all.Wait()
	return out.Flush()
}

func hold(l *redlock.Locker, name int, print func(string)) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	asked := time.Now()
	k, err := l.Lock(ctx, fmt.Sprint(name))
	granted := time.Now()
	if err != nil {
		return // a clock that is set forward ends what was under way
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	ended := time.Now()
	if k.Err() != nil {
		ended = granted
	}
	off := k.Deadline().Round(0).Sub(ended.Round(0)) // shows that the clock was really set
	_ = k.Unlock()                                   // lost, if the clock was set forward meanwhile
	print(fmt.Sprintf("%d %d %d %d %d %d\n", name, k.Token(), asked.UnixNano(), granted.UnixNano(), ended.UnixNano(), off))
}
