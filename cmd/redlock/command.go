package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// command is what run and once run while a lock is held.
type command struct {
	name      string // of the lock
	path      string
	argv      []string
	signals   chan os.Signal
	killAfter time.Duration
	warn      func(format string, args ...any)
	attempts  attempts // to get the lock

	ran   bool  // the command was started
	token int64 // of the hold under which it was
}

// commandFlags are the flags of every verb that runs a command.
func commandFlags() []cli.Flag {
	return append(
		waitFlags("give up when the lock is not held after `DURATION`; 0s is --no-wait",
			"ask once and give up if the lock is taken"),
		&cli.DurationFlag{
			Name:  "kill-after",
			Usage: "how long a command whose lock is lost may take to end before it is killed, as `DURATION`",
			Value: 5 * time.Second,
		},
		jsonFlag("end standard error with one JSON object that tells how it went"),
	)
}

// underLock is the action of a verb that runs a command under a lock; do takes the lock and runs it.
func underLock(do func(context.Context, *cli.Command, *redlock.Locker, *command) error) cli.ActionFunc {
	return settled(func(ctx context.Context, cmd *cli.Command) error {
		command, err := newCommand(cmd)
		if err == nil {
			defer signal.Stop(command.signals)
			err = withLocker(cmd, func(locker *redlock.Locker) error {
				return do(ctx, cmd, locker, command)
			}, redlock.WithObserver(command.attempts.observe))
		}
		if !cmd.Bool("json") {
			return err
		}
		r := reportOn(err)
		r.Name, r.Ran = cmd.Args().First(), new(bool)
		if command != nil {
			*r.Ran, r.Token = command.ran, command.token
		}
		printJSON(cmd.Root().ErrWriter, r)
		return silent(err)
	})
}

// newCommand reads what is to be run under which lock. It catches signals from now on: they must not end us before the
// lock is let go. The caller calls signal.Stop.
func newCommand(cmd *cli.Command) (*command, error) {
	args := cmd.Args().Slice()
	if _, _, err := waitLimit(cmd); err != nil {
		return nil, err
	}
	switch {
	case len(args) == 0:
		return nil, usagef(`no lock name; see "%s --help"`, cmd.FullName())
	case len(args) == 1:
		return nil, usagef("no command to run while %q is held", args[0])
	case strings.HasPrefix(args[1], "-"):
		return nil, usagef("%q after the lock name: flags stand before it", args[1])
	case cmd.Duration("kill-after") < 0:
		return nil, usagef("--kill-after %s is negative", cmd.Duration("kill-after"))
	}
	path, err := lookUp(args[1]) // before the lock: nobody should wait for a typing error
	if err != nil {
		return nil, err
	}
	c := &command{
		name: args[0], path: path, argv: args[1:], signals: make(chan os.Signal, 16),
		killAfter: cmd.Duration("kill-after"), warn: warner(cmd),
	}
	catch(c.signals)
	return c, nil
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

// ending is how a command ended.
type ending struct {
	code        exitCode
	interrupted bool  // by the terminal's Ctrl-C, which our own process group has not seen
	lost        error // why the lock was lost while the command ran, or nil
}

// run starts the command and stays with it while the lock is held. It returns when the command has ended and, if the
// lock was lost, nothing is left of its process group. The error says that the command could not be started.
func (c *command) run(lock *redlock.Lock) (ending, error) {
	p, err := start(&exec.Cmd{
		Path: c.path, Args: c.argv, Env: environment(lock),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return ending{}, notRunnable(c.argv[0], err)
	}
	defer p.close()
	c.ran, c.token = true, lock.Token()

	var (
		end   ending
		ended bool
		lost  = lock.Done()
		kill  <-chan time.Time // set while a lost lock's command may still end by itself
		poll  <-chan time.Time // set while we wait for what a lost lock's command left behind
	)
	trusted := func() bool { return lock.Err() == nil }
	for {
		select {
		case <-lost:
			lost, end.lost = nil, lock.Err()
			c.warn("lock %s is lost: ending the command", printable(c.name))
			p.terminate()
			kill = time.After(c.killAfter)
		case <-kill:
			kill = nil
			c.warn("not ended within %s: killing it", c.killAfter)
			p.kill()
			if ended {
				return end, nil
			}
		case sig := <-c.signals:
			p.forward(sig.(syscall.Signal), trusted)
		case <-poll:
		case change := <-p.changes:
			if change.exited {
				ended = true
				end.code, end.interrupted = change.code, p.interrupted(change)
			} else {
				p.stopped(change.signal, trusted)
			}
		}
		if ended {
			switch {
			case end.lost == nil, p.gone():
				return end, nil
			case poll == nil:
				ticker := time.NewTicker(10 * time.Millisecond)
				defer ticker.Stop()
				poll = ticker.C
			}
		}
	}
}

// exit ends redlock as the command ended.
func (end ending) exit() error {
	f := &failure{code: end.code, outcome: outcomeEnded}
	if end.interrupted {
		f.last = func() { dieOfInterrupt(true) }
	}
	return f
}

// environment is what the command gets: ours, and who it is on the nodes.
func environment(lock *redlock.Lock) []string {
	return append(os.Environ(),
		"REDLOCK_NAME="+lock.Name(),
		"REDLOCK_OWNER="+lock.Owner(),
		"REDLOCK_TOKEN="+strconv.FormatInt(lock.Token(), 10),
	)
}

// lookUp finds the command as a shell does, with a shell's exit codes.
func lookUp(file string) (string, error) {
	path, err := exec.LookPath(file)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", notRunnable(file, err)
}

func notRunnable(file string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return failf(exitNotFound, "%s: command not found", file)
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner // the errno alone: the name stands in front already
	}
	return failf(exitNotRunnable, "%s: %v", file, err)
}
