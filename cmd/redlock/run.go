package main

import (
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

const runHelp = `
Waits until the lock NAME is held on a majority of the nodes, runs COMMAND
while it is held, and unlocks. Like flock(1), but across machines. Flags
stand before NAME; what follows it is the command, with or without the "--".
No shell is involved: for pipes and redirections, run sh -c '…'.

COMMAND inherits standard input, output and error, and finds in its
environment
   REDLOCK_NAME    NAME
   REDLOCK_OWNER   the random value that marks this hold on the nodes
   REDLOCK_TOKEN   the fencing token, a number that grows from hold to hold
                   of NAME: a store that keeps the largest it has seen can
                   refuse a command that went on after its hold was lost
but not REDLOCK_NODES, REDLOCK_TO and REDLOCK_PASSWORD_COMMAND, which may
have passwords in them, unless --pass-nodes is given.
redlock passes signals on to it after a second, since whoever sent one may
have sent it to COMMAND, too; write KillMode=mixed. It unlocks when COMMAND
ends, and does not wait for what that left in the background.

When too few nodes renew the hold, COMMAND and what it has started get TERM
--term-before its end, even if it is renewed after that, and KILL before its
end: so nothing of it runs beside the next holder. If the hold is over at
once, since somebody else took it over, KILL comes at once. The exit code is
79, whatever the command's was: its work may be unfinished or unprotected.
With --again, redlock then waits for the lock anew, and runs COMMAND under a
new token: it ends with COMMAND, or by a signal.

EXIT CODES
   the command's own, or 128+n if signal n ended it; and of redlock itself
     64    wrong usage: flags, settings, name or nodes
     69    no quorum: too few nodes answered
     70    something else went wrong in redlock
     75    taken: somebody else holds the lock (--no-wait), or did until
           --wait was over (--taken-code changes this)
     79    lost: the hold ended, or was about to, while the command ran
     126   the command cannot be executed
     127   the command was not found
     128+n signal n ended the waiting
   With --json, standard error ends with an object that tells redlock's own
   from the command's: its "outcome" is "ended" for the latter.

EXAMPLES
   Every five minutes, unless the last one is still at it on some machine; no
   mail from cron about that:
     */5 * * * *  redlock run --no-wait --taken-code 0 sync -- /opt/bin/sync
   A nightly job that several machines start and one should carry out is for
   "redlock once".
   Wait at most a minute to deploy:
     redlock run --wait 1m deploy:web -- ./deploy.sh
   Nodes with a password and TLS:
     export REDLOCK_NODES='rediss://app:secret@r1:6380,rediss://app:secret@…'`

func runVerb() *cli.Command {
	one := 1
	return &cli.Command{
		Name:        "run",
		Usage:       "hold a lock while a command runs",
		UsageText:   "redlock run [flags] NAME [--] COMMAND [ARGUMENT…]",
		Description: strings.TrimSpace(runHelp),
		// What follows NAME belongs to the command, flags included.
		StopOnNthArg: &one, ShellComplete: completesFlags,
		Flags: withNodes(append(commandFlags(),
			&cli.StringFlag{Name: "value", Usage: "show `TEXT` beside the lock while it is held, 1 KiB at most"},
			&cli.BoolFlag{Name: "again", Usage: "when the hold was lost, wait for the lock and run COMMAND once more"},
		)...),
		Action: underLock(runCommand),
	}
}

// runCommand is what "run" does with its locker and its command.
func runCommand(ctx context.Context, cmd *cli.Command, locker *redlock.Locker, command *command) error {
	lock, err := acquire(ctx, locker, cmd, command)
	if err != nil {
		return err
	}
	end, err := command.run(lock)

	unlockErr := lock.Unlock()
	switch {
	case err != nil:
		return err // the command never ran
	case end.stopped && cmd.Bool("again") && !end.asked && !end.interrupted:
		return runCommand(ctx, cmd, locker, command)
	case end.stopped:
		return &failure{code: exitLost} // said when it happened
	case errors.Is(unlockErr, redlock.ErrLost):
		return failf(exitLost, "lock %s was lost before the command ended: %v", command.name, unlockErr)
	case unlockErr != nil:
		command.warn("the command has ended, but its lock may stay until the TTL is over: %s", complaint(unlockErr))
	}
	return end.exit()
}

// acquire gets the lock as the flags say. A signal that would end a program ends the wait.
func acquire(ctx context.Context, locker *redlock.Locker, cmd *cli.Command, command *command) (*redlock.Lock, error) {
	w := command.await(ctx, cmd, locker)
	lock := locker.Lock
	if w.once {
		lock = locker.TryLock
	}
	held, err := lock(w.ctx, command.name, redlock.WithValue(cmd.String("value")))
	switch end := w.over(); {
	case end.signal != 0:
		if err == nil { // the lock came with the signal
			err = held.Unlock()
		}
		return nil, command.givenUp(end.signal, err)
	case err != nil && end.refusal != nil:
		return nil, end.refusal
	}
	return held, err
}
