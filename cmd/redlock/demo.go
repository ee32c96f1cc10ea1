package main

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/cmd/redlock/internal/demo"
)

func demoVerb() *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "see the lock at work, with nothing installed",
		UsageText: "redlock demo",
		Description: strings.TrimSpace(`
Starts five Redis masters inside this process and holds a flash sale: 20
tills sell 100 units to 300 customers, without the lock and with it, while
masters are killed and brought back. Takes about ten seconds and touches
nothing outside this process. Plain lines are printed where standard output
is not a terminal or NO_COLOR is set.

EXIT CODES
   0     the lock held: exactly 100 units were sold under it
   1     it did not: oversold, or granted without a majority
   130   interrupted by Ctrl-C; 128+n by signal n`),
		Action: demoAction,
	}
}

func demoAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("demo takes no arguments, got %q", cmd.Args().First())
	}
	ctx, stop := untilSignalled(ctx)
	defer stop()
	err := demo.Run(ctx, cmd.Root().Writer)
	var end signalled
	if errors.As(context.Cause(ctx), &end) {
		return failf(exitSignal+exitCode(end.by.(syscall.Signal)), "demo interrupted")
	}
	return err
}
