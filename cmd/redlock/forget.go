package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

func forgetVerb() *cli.Command {
	return &cli.Command{
		Name:      "forget",
		Usage:     "let a job that has already run or is exhausted run again",
		UsageText: "redlock forget [flags] NAME",
		Description: strings.TrimSpace(`
Makes the nodes forget the runs of the job NAME, so that the next "redlock
once" begins its first run. It takes the job's lock for a moment: a run that
is under way is not forgotten.

EXIT CODES
   0     forgotten; or no run was known
   64    wrong usage: flags, settings, name or nodes
   69    no quorum: too few nodes answered
   75    taken: a run is under way`),
		Flags: withNodes(
			&cli.DurationFlag{Name: "done-ttl", Usage: "the job's own, as `DURATION`", Value: 2 * time.Hour},
			jsonFlag("print one JSON object")),
		Action: settled(forgetAction),
	}
}

func forgetAction(ctx context.Context, cmd *cli.Command) error {
	if n := cmd.Args().Len(); n != 1 {
		return usagef(`want the name of one job, got %d; see "redlock forget --help"`, n)
	}
	name := cmd.Args().First()
	return connected(cmd, redlock.New, func(locker *redlock.Locker) error {
		runs, err := locker.Forget(ctx, name, redlock.WithDoneTTL(cmd.Duration("done-ttl")))
		if err != nil {
			return err
		}
		o := forgetObject{name, bytesOf(name), runsOf(runs)}
		return show(cmd, o, said(name+": "+forgotten(runs)))
	})
}

// forgetObject is what forget prints with --json.
type forgetObject struct {
	Name      string      `json:"name"`
	Bytes     []byte      `json:"name_base64,omitempty"` // see bytesOf
	Forgotten *runsObject `json:"forgotten"`             // null: no run was known
}

func forgotten(r redlock.Runs) string {
	last := "the last one failed"
	switch {
	case r.Begun == 0:
		return "no run was known"
	case r.Last == "done":
		last = "the last one succeeded"
	case r.Last == "begun":
		last = "the last one crashed"
	}
	if r.Begun == 1 {
		return "forgotten: one run had begun; " + strings.Replace(last, "the last one", "it", 1)
	}
	return fmt.Sprintf("forgotten: %d runs had begun; %s", r.Begun, last)
}
