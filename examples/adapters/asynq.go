package adapters

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/election"
)

// RunAsynq runs asynq's Scheduler where this process leads, until ctx is done: each task is enqueued once. build
// returns a new Scheduler with its tasks registered, since one that was shut down cannot be started again.
//
// When the term is lost, the Scheduler is shut down and this process campaigns again. A task that it was just
// enqueuing may be enqueued twice: asynq.Unique or asynq.TaskID rule that out. What falls due while nobody leads is
// left out. That is for a TTL after a crash: choose one shorter than the shortest period.
func RunAsynq(ctx context.Context, e *election.Election, self string, build func() (*asynq.Scheduler, error)) error {
	return e.Run(ctx, self, func(ctx context.Context, _ *redlock.Lock) error {
		scheduler, err := build()
		if err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		scheduler.Shutdown()
		return context.Cause(ctx)
	})
}
