package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/runs"
)

const onceHelp = `
Runs COMMAND, unless that has been done: for a job that several machines
start and only one should carry out. While a run is under way elsewhere,
redlock waits for the result. When it succeeds – COMMAND ends with 0 – nobody
runs the job again for --done-ttl. When it fails, crashes or loses its hold,
the next one tries, until --max-runs have begun. Flags stand before NAME.
COMMAND, its environment and signals, and what happens when the hold is lost
are as for "redlock run".

--done-ttl must be longer than the differences between the machines' starts,
and shorter than the pause until the next start; or put the date or the hour
into NAME, and keep the 2 hours. All machines must use the same.

EXIT CODES
   0     this run succeeded; or the job has already run, and nothing was run
         (--done-code changes the latter)
   the command's own, or 128+n if signal n ended it: this run failed
   and of redlock itself
     64    wrong usage: flags, settings, name or nodes
     69    no quorum: too few nodes answered
     70    something else went wrong in redlock
     75    taken: a run is under way elsewhere (--no-wait), or was until
           --wait was over (--taken-code changes this)
     79    lost: the hold ended, or was about to, while the command ran
     80    runs exhausted: --max-runs have begun and none succeeded
     126   the command cannot be executed: this is no run
     127   the command was not found: this is no run
     128+n signal n ended the waiting
   With --json, standard error ends with an object that tells these apart.

EXAMPLES
   A nightly report, started by cron on every machine, run by one, and by
   another if that one fails (crontab; cron's own PATH lacks /usr/local/bin):
     PATH=/usr/local/bin:/usr/bin:/bin
     REDLOCK_NODES=redis-1,redis-2,redis-3,redis-4,redis-5
     0 3 * * *  redlock once report -- /usr/local/bin/report
   Every hour; the hour is part of the name, or two of three runs would be
   found done (in a crontab, % is written \%):
     0 * * * *  redlock once report-$(date -u +\%FT\%H) -- make report
   What has become of it:
     redlock status report`

func onceVerb() *cli.Command {
	one := 1
	return &cli.Command{
		Name:        "once",
		Usage:       "run a command that many machines start, on one of them",
		UsageText:   "redlock once [flags] NAME [--] COMMAND [ARGUMENT…]",
		Description: strings.TrimSpace(onceHelp),
		// What follows NAME belongs to the command, flags included.
		StopOnNthArg: &one, ShellComplete: completesFlags,
		Flags: withNodes(append(commandFlags(),
			&cli.DurationFlag{
				Name:  "done-ttl",
				Usage: "run nothing for `DURATION` after a run has succeeded, and remember those that failed for so long",
				Value: 2 * time.Hour,
			},
			&cli.IntFlag{Name: "max-runs", Usage: "let at most `N` runs begin until one succeeds; 0: no limit", Value: 3},
			&cli.IntFlag{Name: "done-code", Usage: "end with exit code `N` when the job has already run", Value: 0},
		)...),
		Action: underLock(runOnce),
	}
}

// runOnce is what "once" does with its locker and its command.
func runOnce(ctx context.Context, cmd *cli.Command, locker *redlock.Locker, command *command) error {
	if n := cmd.Int("done-code"); n < 0 || n > 255 {
		return usagef("--done-code %d: want 0 to 255", n)
	}
	var (
		end     ending // how it ended
		started error  // why not
	)
	w := command.await(ctx, cmd, locker)
	once := locker.Once
	if w.once {
		once = locker.TryOnce
	}
	err := once(w.ctx, command.name, func(_ context.Context, lock *redlock.Lock) error {
		if w.over().signal != 0 {
			return runs.ErrNotBegun
		}
		if end, started = command.run(lock); started != nil {
			return fmt.Errorf("%w: %w", runs.ErrNotBegun, started)
		}
		if end.stopped || end.code != exitOK { // stopped, and to end in good order, is no success
			return &failure{code: cmp.Or(end.code, exitLost)}
		}
		return nil
	}, redlock.WithDoneTTL(cmd.Duration("done-ttl")), redlock.WithMaxRuns(cmd.Int("max-runs")))
	waited := w.over()
	switch {
	case waited.signal != 0:
		return command.givenUp(waited.signal, err)
	case started != nil:
		return started
	case errors.Is(err, redlock.ErrAlreadyRun):
		return &failure{code: exitCode(cmd.Int("done-code")), outcome: "already-run"}
	case errors.Is(err, redlock.ErrNotAcquired):
		return cmp.Or(waited.refusal, err)
	case end.stopped:
		return &failure{code: exitLost} // said when it happened
	case errors.Is(err, redlock.ErrLost) && end.code == exitOK:
		const text = "lock %s was lost before it could be known that the command has succeeded: %v"
		return failf(exitLost, text, command.name, err)
	case errors.Is(err, redlock.ErrNoQuorum) && end.code == exitOK:
		const text = "the command has succeeded, but may be run again, since too few nodes know it: %s"
		return failf(exitNoQuorum, text, complaint(err))
	}
	return end.exit()
}
