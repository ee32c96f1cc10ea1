package main

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

func waitVerb() *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait until locks can be taken",
		UsageText: "redlock wait [flags]",
		Description: strings.TrimSpace(`
Ends as soon as a majority of the nodes votes, and may do what locks need:
for what is started together with them. Nothing is locked. It does not wait
for what no time mends: a wrong password, or nodes that are unfit to vote.

EXIT CODES
   0     locks can be taken
   64    wrong usage: flags, settings or nodes
   69    no majority: --wait is over, or one is not possible until somebody
         changes something`),
		Flags: withNodes(append(
			waitFlags("give up when no majority votes after `DURATION`; 0s is --no-wait", "look once"),
			jsonFlag("say what there is to say as JSON objects"))...),
		Action: settled(waitAction),
	}
}

func waitAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef(`wait takes no arguments, got %q; "redlock run NAME" waits for a lock`, cmd.Args().First())
	}
	limit, once, err := waitLimit(cmd)
	if err != nil {
		return err
	}
	var fits []redlock.Option
	if cmd.IsSet("max-ttl") { // no lock is taken, so the TTL need only not be too long
		ttl := 10 * time.Second
		if cmd.IsSet("ttl") {
			ttl = cmd.Duration("ttl")
		}
		fits = append(fits, redlock.WithTTL(min(ttl, cmd.Duration("max-ttl"))))
	}
	return connected(cmd, redlock.New, func(locker *redlock.Locker) error {
		if err := refusedAtStart(ctx, locker); err != nil {
			return named(err, "wait", "")
		}
		verb := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		switch {
		case once:
			cancel() // Ready then answers by the present state
		case limit > 0:
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		defer reports(cmd, func() error { return named(locker.Ready(ended), "wait", "") })()
		for {
			if err := locker.Ready(ctx); err != nil {
				return named(err, "wait", "")
			}
			locker.Status(verb) // the nodes that vote try what locks need, from now on until they may do it
			if locker.Ready(ended) == nil {
				return nil
			}
		}
	}, fits...)
}
