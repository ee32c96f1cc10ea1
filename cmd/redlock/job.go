package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// job is a command that runs while a lock is held.
type job struct {
	name      string // of the lock
	path      string
	argv      []string
	signals   chan os.Signal
	killAfter time.Duration
	warn      func(format string, args ...any)

	ran   bool  // the command was started
	token int64 // of the hold under which it was
}

// jobFlags are the flags of every verb that runs a command under a lock.
func jobFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{
			Name:        "wait",
			Usage:       "give up when the lock is not held after `DURATION`; 0s is --no-wait",
			DefaultText: "wait for ever",
		},
		&cli.BoolFlag{Name: "no-wait", Usage: "ask once and give up if the lock is taken"},
		&cli.DurationFlag{
			Name:  "kill-after",
			Usage: "how long a command whose lock is lost may take to end before it is killed, as `DURATION`",
			Value: 5 * time.Second,
		},
		jsonFlag("end standard error with one JSON object that tells how it went"),
	}
}

// underLock is the action of a verb that runs a command under a lock; do takes the lock and runs it.
func underLock(do func(context.Context, *cli.Command, *redlock.Locker, *job) error) cli.ActionFunc {
	return settled(func(ctx context.Context, cmd *cli.Command) error {
		job, err := newJob(cmd)
		if err == nil {
			defer signal.Stop(job.signals)
			err = withLocker(cmd, func(locker *redlock.Locker) error { return do(ctx, cmd, locker, job) })
		}
		if !cmd.Bool("json") {
			return err
		}
		r := reportOn(err)
		r.Name, r.Ran = cmd.Args().First(), new(bool)
		if job != nil {
			*r.Ran, r.Token = job.ran, job.token
		}
		printJSON(cmd.Root().ErrWriter, r)
		return silent(err)
	})
}

// newJob reads what is to be run under which lock. It catches signals from now on: they must not end us before the lock is
// let go. The caller calls signal.Stop.
func newJob(cmd *cli.Command) (*job, error) {
	args := cmd.Args().Slice()
	switch {
	case len(args) == 0:
		return nil, usagef(`no lock name; see "%s --help"`, cmd.FullName())
	case len(args) == 1:
		return nil, usagef("no command to run while %q is held", args[0])
	case strings.HasPrefix(args[1], "-"):
		return nil, usagef("%q after the lock name: flags stand before it", args[1])
	case cmd.IsSet("wait") && cmd.Bool("no-wait"): // both on the command line; see settle
		return nil, usagef("--wait and --no-wait exclude each other")
	case cmd.Duration("wait") < 0:
		return nil, usagef("--wait %s is negative", cmd.Duration("wait"))
	case cmd.Duration("kill-after") < 0:
		return nil, usagef("--kill-after %s is negative", cmd.Duration("kill-after"))
	}
	path, err := lookUp(args[1]) // before the lock: nobody should wait for a typing error
	if err != nil {
		return nil, err
	}
	j := &job{
		name: args[0], path: path, argv: args[1:], signals: make(chan os.Signal, 16), killAfter: cmd.Duration("kill-after"),
		warn: warner(cmd),
	}
	catch(j.signals)
	return j, nil
}

// warner says what happens while a command runs.
func warner(cmd *cli.Command) func(format string, args ...any) {
	out := cmd.Root().ErrWriter
	return func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if cmd.Bool("json") {
			printJSON(out, map[string]string{"warning": text})
			return
		}
		fmt.Fprintf(out, "redlock: %s\n", text)
	}
}
