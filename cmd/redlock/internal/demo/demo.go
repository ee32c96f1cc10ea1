// Package demo shows what a lock is for: tills sell from one stock, without the lock and with it, while masters die and
// come back.
//
// It uses the library as any program would, on masters in its own process, and draws on a terminal. It must not know
// the command around it: flags, exit codes, and what ends the demo early are its caller's.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/redlocktest"
)

const (
	masters  = 5
	majority = masters/2 + 1
	saleLock = "sale:4711"
)

// options are what the demo's Locker differs in from the default. A dead master refuses at once here; the node timeout
// is only for a busy machine, on which the masters compete with whatever else is running.
var options = []redlock.Option{
	redlock.WithTTL(3 * time.Second),
	redlock.WithNodeTimeout(500 * time.Millisecond),
	// The masters come back empty while nobody holds the lock, and only two of five while somebody does. Elsewhere
	// the guard keeps them out of the vote for half a minute: too long for a demo, which says so.
	redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}),
}

// ErrNotHeld says that the lock let too much be sold, or was granted without a majority.
var ErrNotHeld = errors.New("the lock did not hold")

// Run shows the demo on out: in place on a terminal; elsewhere, or without colours, in plain lines. It takes about ten
// seconds, and ends early when ctx does.
func Run(ctx context.Context, out io.Writer) error {
	cluster, err := redlocktest.Start(masters)
	if err != nil {
		return fmt.Errorf("start five masters: %w", err)
	}
	defer cluster.Close()
	locker, err := redlock.New(cluster.URLs(), options...)
	if err != nil {
		return err
	}
	defer locker.Close()

	d := newDemo(out)
	d.cluster, d.locker = cluster, locker
	d.Print("", d.Paint(terminal.Bold, "redlock demo")+
		d.Paint(terminal.Dim, ": 100 units, 300 customers, 20 tills, 5 masters in this process"))
	for _, step := range []func(context.Context) error{d.withoutLock, d.withLock, d.withoutMajority} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.summary()
}

// demo is what its steps share.
type demo struct {
	*terminal.Screen
	start   time.Time
	cluster *redlocktest.Cluster
	locker  *redlock.Locker
	current atomic.Pointer[sale] // the sale that the changing lines tell of

	// What the steps came to, for the summary.
	unlocked, locked *sale
	outage           time.Duration // of two masters, during the sale with the lock
	early            int64         // grants without a majority
	again            time.Duration // from the majority's return to the next grant
}

func newDemo(out io.Writer) *demo {
	d := &demo{Screen: terminal.NewScreen(out), start: time.Now()}
	d.Live = d.Live && bool(d.Colours) // without colours, the plain lines read better
	return d
}
