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
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

const runHelp = `
Waits until the lock NAME is held on a majority of the nodes, runs COMMAND while it is held, and lets it go.
Like flock(1), but across machines. Flags stand before NAME; what follows it is the command, with or without
the "--". No shell is involved: for pipes and redirections, run sh -c '…'.

THE COMMAND
   inherits standard input, output and error, and finds in its environment
     REDLOCK_NAME    NAME
     REDLOCK_OWNER   the random value that marks this hold on the nodes
     REDLOCK_TOKEN   the fencing token, a number that grows from hold to hold of NAME: a store that keeps
                     the largest it has seen can refuse a command that went on after its hold was lost
   It gets every INT, TERM, HUP, QUIT, USR1 and USR2 that redlock is sent, and runs in a process group of its
   own, in the terminal's foreground if redlock was: Ctrl-C reaches it once, Ctrl-Z stops both.
   The lock is let go when the command ends; what it left in the background is not waited for.

WHEN THE HOLD IS LOST
   because too few nodes could renew it in time, or somebody else took it over: the command and its process
   group get TERM, and KILL after --kill-after. The exit code is then 79, whatever the command's was: its work
   may have run unprotected. If redlock itself is killed by KILL, the command gets TERM (Linux).

EXIT CODES
   the command's own, or 128+n if signal n ended it; and of redlock itself
     64    wrong usage: flags, name or nodes
     69    no quorum: too few nodes answered
     70    something else went wrong in redlock
     75    taken: somebody else holds the lock (--no-wait), or did until --wait was over
     79    lost: the hold ended while the command ran
     126   the command cannot be executed
     127   the command was not found
     128+n signal n ended the waiting

EXAMPLES
   One backup at a time, wherever it is started; give up if it runs elsewhere (crontab):
     REDLOCK_NODES=redis-1,redis-2,redis-3,redis-4,redis-5
     0 3 * * *  redlock run --no-wait backup -- /usr/local/bin/backup --full
   Wait at most a minute to deploy:
     redlock run --wait 1m deploy:web -- ./deploy.sh
   Tell "taken" from failure:
     redlock run --no-wait report -- make report; [ $? -eq 75 ] && echo "runs elsewhere"
   Nodes with a password and TLS; keep them out of the process list by way of the environment:
     export REDLOCK_NODES='rediss://app:secret@r1:6380 rediss://app:secret@r2:6380 rediss://app:secret@r3:6380'`

func runVerb() *cli.Command {
	one := 1
	return &cli.Command{
		Name:        "run",
		Usage:       "hold a lock while a command runs",
		UsageText:   "redlock run [flags] NAME [--] COMMAND [ARGUMENT…]",
		Description: strings.TrimSpace(runHelp),
		// What follows NAME belongs to the command, flags included.
		StopOnNthArg: &one,
		Flags:        append(lockerFlags(), jobFlags()...),
		Action:       runAction,
	}
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
	}
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
	case cmd.IsSet("wait") && cmd.Bool("no-wait"):
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
		warn: func(format string, args ...any) { fmt.Fprintf(cmd.Root().ErrWriter, "redlock: "+format+"\n", args...) },
	}
	catch(j.signals)
	return j, nil
}

func runAction(ctx context.Context, cmd *cli.Command) error {
	job, err := newJob(cmd)
	if err != nil {
		return err
	}
	defer signal.Stop(job.signals)
	locker, err := newLocker(cmd)
	if err != nil {
		return err
	}
	defer locker.Close()
	lock, err := acquire(ctx, locker, cmd, job)
	if err != nil {
		return err
	}
	end, err := job.run(lock)

	unlockErr := lock.Unlock(ctx)
	switch {
	case err != nil:
		return err // the command never ran
	case end.lost != nil:
		return &failure{code: exitLost} // said when it happened
	case errors.Is(unlockErr, redlock.ErrLost):
		return &failure{exitLost, fmt.Sprintf("lock %q was lost before the command ended: %v", job.name, unlockErr)}
	case unlockErr != nil:
		job.warn("the command has ended, but its lock may stay until the TTL is over: %s", complaint(unlockErr))
	}
	return end.exit(locker)
}

// exit ends redlock as the command ended.
func (end ending) exit(locker *redlock.Locker) error {
	if end.interrupted {
		locker.Close()
		dieOfInterrupt(true)
	}
	if end.code != exitOK {
		return &failure{code: end.code}
	}
	return nil
}

// acquire gets the lock as the flags say. A signal that would end a program ends the wait.
func acquire(ctx context.Context, locker *redlock.Locker, cmd *cli.Command, job *job) (*redlock.Lock, error) {
	w := job.await(ctx, cmd)
	lock, err := locker.Lock(w.ctx, job.name, w.options...)
	ended := w.end()
	if ended != 0 && err == nil { // the lock came with the signal
		err = lock.Unlock(ctx)
	}
	if ended != 0 {
		return nil, job.givenUp(locker, ended, err)
	}
	return lock, err
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
		return &failure{exitNotFound, fmt.Sprintf("%s: command not found", file)}
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner // the errno alone: the name stands in front already
	}
	return &failure{exitNotRunnable, fmt.Sprintf("%s: %v", file, err)}
}
