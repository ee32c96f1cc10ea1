package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/internal/endpoint"
)

// Waiting for a lock: for how long, what ends it, and what is said meanwhile.

// waitFlags are the flags of every verb that waits.
func waitFlags(limit, once string) []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "wait", Usage: limit, DefaultText: "wait for ever"},
		&cli.BoolFlag{Name: "no-wait", Usage: once},
		&cli.BoolFlag{Name: "quiet", Usage: "do not say what is waited for"},
	}
}

// waitLimit returns for how long to wait; 0: without end. once: do not wait at all.
func waitLimit(cmd *cli.Command) (limit time.Duration, once bool, err error) {
	limit = cmd.Duration("wait")
	switch {
	case cmd.IsSet("wait") && cmd.Bool("no-wait"): // both on the command line; see settle
		return 0, false, usagef("--wait and --no-wait exclude each other")
	case limit < 0:
		return 0, false, usagef("--wait %s is negative", limit)
	default:
		return limit, cmd.Bool("no-wait") || cmd.IsSet("wait") && limit == 0, nil
	}
}

// A wait is told of for the first time when a person begins to wonder; where nobody looks on, as in cron's mail, when
// it is long, unless a URL seems to be wrong.
const (
	firstReport   = 2 * time.Second
	reportEvery   = time.Minute
	checksRefused = time.Minute
)

// reports says what is waited for until the returned function is called: find returns why the wait is not over.
func reports(cmd *cli.Command, find func() error) (stop func()) {
	if cmd.Bool("quiet") {
		return func() {}
	}
	out := cmd.Root().ErrWriter
	person := terminal.Is(out) && !cmd.Bool("json")
	over := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		begun, next := time.Now(), firstReport
		for first := true; ; first = false {
			select {
			case <-time.After(next):
			case <-over:
				return
			}
			why := find()
			if first && !person && !mismatched(why) {
				next = reportEvery - firstReport
				continue
			}
			text := complaint(why)
			if person && first && errors.Is(why, redlock.ErrNoQuorum) {
				text = unfolded(why)
			}
			next = reportEvery
			if cmd.Bool("json") {
				printJSON(out, map[string]string{"waiting": text})
				continue
			}
			fmt.Fprintf(out, "redlock: waiting for %s: %s\n", span(time.Since(begun).Round(time.Second)), text)
		}
	})
	return func() {
		close(over)
		reporting.Wait()
	}
}

// mismatched reports whether there is no majority, and what answers somewhere is not what the URL says, perhaps.
func mismatched(err error) bool {
	var q *redlock.QuorumError
	return errors.As(err, &q) && slices.ContainsFunc(q.Nodes, func(n redlock.NodeError) bool {
		return errors.As(n.Err, new(endpoint.MismatchError))
	})
}

// attempts keeps what the last attempt to get a lock has found. It is a Locker's observer.
type attempts struct {
	mu     sync.Mutex
	last   error      // nil: no attempt has ended yet; guarded by mu
	barred chan error // gets that of an attempt for which too few nodes grant the rights; nil: nobody listens
}

func (a *attempts) observe(ev redlock.Event) {
	if ev.Kind != redlock.EventAttempt {
		return
	}
	a.mu.Lock()
	a.last = ev.Err
	a.mu.Unlock()
	var q *redlock.QuorumError
	if errors.As(ev.Err, &q) && onlyAPersonMends(q) {
		select {
		case a.barred <- ev.Err:
		default: // nobody listens, or has heard it
		}
	}
}

// found says who has the lock and how many wait for it before this one, or why there is no majority.
func (a *attempts) found() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var q *redlock.QuorumError
	switch {
	case a.last == nil:
		return errors.New("no answer yet")
	case !errors.Is(a.last, redlock.ErrTaken) || !errors.As(a.last, &q):
		return a.last
	}
	ahead := 0
	for _, n := range q.Nodes {
		ahead = max(ahead, n.Ahead)
	}
	if ahead == 0 {
		return fmt.Errorf("%w; the next in the queue", a.last)
	}
	return fmt.Errorf("%w; %d wait before this one", a.last, ahead)
}

// watching are the options by which the command learns what its Locker has found.
func (c *command) watching() []redlock.Option {
	t := &troubles{warn: c.warn, nodes: c.nodes, known: make(map[string]bool)}
	return []redlock.Option{redlock.WithLogger(slog.New(t)), redlock.WithObserver(func(ev redlock.Event) {
		c.attempts.observe(ev)
		t.observe(ev)
	})}
}

// nodes returns what is known of the nodes, once there is a Locker. It asks them nothing.
func (c *command) nodes() []redlock.NodeStatus {
	if l := c.locker.Load(); l != nil {
		return l.Status(ended)
	}
	return nil
}

// ended has calls answer by what is known.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// wait is how long and how often to ask for a lock.
type wait struct {
	ctx  context.Context // ends with the signal, the time or the refusal that ends the waiting
	once bool
	over func() outcome // ends it, and returns what has ended it before
}

// outcome is what ended a wait, other than the lock and the time.
type outcome struct {
	signal  syscall.Signal // 0: none
	refusal error          // why no majority is possible until somebody changes something, or nil
}

// await begins to wait as the flags say. A signal that would end a program ends the wait, and so does a majority of
// nodes that refuse this client. Meanwhile, what is waited for is told.
func (c *command) await(ctx context.Context, cmd *cli.Command, locker *redlock.Locker) wait {
	c.locker.Store(locker)
	var w wait
	var limit time.Duration
	limit, w.once, _ = waitLimit(cmd) // which newCommand has checked
	var cancel context.CancelFunc
	if limit > 0 {
		w.ctx, cancel = context.WithTimeout(ctx, limit)
	} else {
		w.ctx, cancel = context.WithCancel(ctx)
	}
	var end outcome
	var watching sync.WaitGroup
	done := make(chan struct{})
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case sig := <-c.signals:
				if n := sig.(syscall.Signal); endsWaiting(n) {
					end.signal = n
					cancel()
					return
				} else if stopsUs(n) {
					terminal.Suspend(os.Getpid(), true)
				}
			}
		}
	})
	stopReports := func() {}
	if end.refusal = refusedAtStart(w.ctx, locker); end.refusal != nil {
		cancel() // before a lock is taken that could not be kept, or given back
	} else if !w.once {
		stopReports = reports(cmd, c.attempts.found)
		watching.Go(func() {
			if end.refusal = untilRefused(w.ctx, done, locker, c.attempts.barred); end.refusal != nil {
				cancel()
			}
		})
	}
	w.over = sync.OnceValue(func() outcome {
		close(done)
		stopReports()
		cancel()
		watching.Wait()
		if end.refusal != nil {
			end.refusal = named(end.refusal, "lock", c.name)
		}
		return end
	})
	return w
}

// untilRefused returns why no majority is possible until somebody changes something, or nil when ctx or the wait ends.
// barred tells of what only an attempt finds.
func untilRefused(ctx context.Context, done <-chan struct{}, locker *redlock.Locker, barred <-chan error) error {
	for {
		if err := locker.Ready(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(checksRefused):
		case err := <-barred:
			return refusal{err}
		case <-done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// refusedAtStart returns why no majority is possible until somebody changes something, or nil. The nodes that vote try
// what locks need. What is read at each connect may be right the next time, so that Ready waits for it. But what a
// majority refuses before anything has worked is a mistake that no time mends, and a cron job should not wait for ever
// because of it.
func refusedAtStart(ctx context.Context, locker *redlock.Locker) error {
	err := locker.Ready(ended)
	if err == nil {
		locker.Status(ctx)
		err = locker.Ready(ended)
	}
	var q *redlock.QuorumError
	switch {
	case !errors.As(err, &q): // nothing is wrong, or nothing of this kind
		return nil
	case !errors.Is(err, context.Canceled): // Ready says so itself
		return err
	case onlyAPersonMends(q):
		return refusal{err}
	}
	return nil
}

// onlyAPersonMends reports whether the nodes that time may mend, or that need no mending, are no majority.
func onlyAPersonMends(q *redlock.QuorumError) bool {
	left := len(q.Nodes)
	for _, n := range q.Nodes {
		if endpoint.Lasts(n.Err) {
			left--
		}
	}
	return left < q.Need
}

// refusal says that no majority is possible until somebody changes something, where Ready does not.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func (r refusal) Error() string {
	return r.error.Error() + "; no majority is possible until somebody changes that"
}

// named returns the error of Ready as that of what the user has called.
func named(err error, op, name string) error {
	if r, ok := err.(refusal); ok { //nolint:errorlint // what it wraps is named
		return refusal{named(r.error, op, name)}
	}
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		return err
	}
	own := *q
	own.Op, own.Name = op, name
	return &own
}

// givenUp ends redlock when a signal ended the waiting. err is what the wait came to.
func (c *command) givenUp(by syscall.Signal, err error) error {
	f := &failure{code: exitSignal + exitCode(by)}
	if by == syscall.SIGINT && ownsTerminal() {
		f.last = func() { dieOfInterrupt(false) } // who has pressed the key needs no words
		return f
	}
	f.text = fmt.Sprintf("lock %s: %s ended the waiting", c.name, signalName(by))
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTaken) {
		f.text, f.cause = complaint(err)+"; "+signalName(by)+" ended the waiting", err
	}
	return f
}
