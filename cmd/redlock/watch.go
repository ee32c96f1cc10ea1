package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func watchVerb() *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Usage:     "say each time a lock changes hands",
		UsageText: "redlock watch [flags] NAME",
		Description: strings.TrimSpace(`
Prints who holds the lock NAME, with which token and value and how many
wait, or that it is free; and then a line for each change, until a signal
ends it. That others wait is a change, how many is none. It takes no lock.
If too few nodes answer it says so once, and goes on.

EXIT CODES
   64    wrong usage: flags, settings, name or nodes
   128+n signal n ended it`),
		Flags:  withNodes(jsonFlag("print one JSON object a line")),
		Action: settled(watchAction),
	}
}

func watchAction(ctx context.Context, cmd *cli.Command) error {
	if n := cmd.Args().Len(); n != 1 {
		return usagef(`want one lock name, got %d; see "redlock watch --help"`, n)
	}
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		ctx, stop := untilSignalled(ctx)
		defer stop()
		out := cmd.Root().Writer
		for i, err := range inspector.Watch(ctx, cmd.Args().First()) {
			now := time.Now()
			switch {
			case errors.Is(err, redlock.ErrNoQuorum):
				warner(cmd)("%s", complaint(err))
				continue
			case err != nil:
			case cmd.Bool("json"):
				err = printJSON(out, changeObject{now, inspectionObject(i, nil)})
			default:
				err = terminal.NewPrinter(out).Print(now.Format("2006-01-02T15:04:05.000Z07:00") + "  " + changed(i))
			}
			if err != nil {
				return err
			}
		}
		var end signalled
		if !errors.As(context.Cause(ctx), &end) {
			return nil
		}
		f := &failure{code: exitSignal + exitCode(end.by.(syscall.Signal))}
		if end.by == syscall.SIGINT && ownsTerminal() {
			f.last = func() { dieOfInterrupt(false) }
		}
		return f
	})
}

// changeObject is what watch prints with --json.
type changeObject struct {
	Time time.Time `json:"time"`
	nameObject
}

// changed says what a name has come to.
func changed(i redlock.Inspection) string {
	parts := []string{"free"}
	if i.Owner != "" {
		parts[0] = holders(i)
	}
	if i.Token > 0 {
		parts = append(parts, "token "+token(i.Token))
	}
	if i.Value != "" {
		parts = append(parts, "value "+whole(i.Value))
	}
	if i.Waiting > 0 {
		parts = append(parts, "waiting "+strconv.Itoa(i.Waiting))
	}
	if i.Runs.Begun > 0 {
		parts = append(parts, "runs: "+runsInWords(i))
	}
	return strings.Join(parts, "  ")
}
