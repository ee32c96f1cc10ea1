package adapters

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/quorumlock/redlock"
)

// Cron is a wrapper for one job of robfig/cron that several machines have: cron.NewChain(Cron(…)).Then(job). Give each
// job a name and a chain of its own. It uses Once, since a lock alone is free again when the first machine has finished
// and a late one begins. The others wait: if the one that runs the job crashes or panics, the next one runs it.
//
// The name is the same for all times. So redlock.WithDoneTTL, among the options, must be longer than the machines are
// apart, and shorter than the pause between two runs: 30 s for a job of the minute. The TTL is half of it at most, and
// how long a crash delays the job: the default, 10 s, will do.
//
// A job of cron has no context: if the lock is lost it goes on, its run counts as failed, another machine begins, and
// the log says so. A job that must stop then calls redlock.Locker.Once itself.
func Cron(
	ctx context.Context, l *redlock.Locker, log cron.Logger, name string, opts ...redlock.OnceOption,
) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := l.Once(ctx, "cron:"+name, func(context.Context, *redlock.Lock) error {
				job.Run()
				return nil
			}, opts...)
			switch {
			case errors.Is(err, redlock.ErrAlreadyRun):
				log.Info("done by another machine", "job", name)
			case err != nil:
				log.Error(err, "job", "job", name)
			}
		})
	}
}
