package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func unlockVerb() *cli.Command {
	return &cli.Command{
		Name:      "unlock",
		Usage:     "take a lock from a holder that is stuck",
		UsageText: "redlock unlock --force [flags] NAME",
		Description: strings.TrimSpace(`
Takes the lock NAME from its holder, and hands it to the client that has
waited longest. It shows the holder and asks first. The lock of a holder that
has crashed needs no such help: it is free when its TTL is over.

The holder notices at its next renewal, at the latest after its TTL. Until
then it works on beside the next holder: end it first if you can. The next
hold has a larger fencing token, so a resource that checks tokens rejects the
former holder from then on. Nothing protects any other resource.

EXIT CODES
   0     the lock was taken from its holder; or nobody held it
   1     not confirmed: nothing was changed
   64    wrong usage: flags, settings, name or nodes; or nobody to ask
   69    no quorum: too few nodes answered`),
		Flags: withNodes(
			&cli.BoolFlag{Name: "force", Usage: "must be given: only its holder may release a lock"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			jsonFlag("print one JSON object; needs --yes")),
		Action: settled(unlockAction),
	}
}

func unlockAction(ctx context.Context, cmd *cli.Command) error {
	asks := !cmd.Bool("yes")
	switch n := cmd.Args().Len(); {
	case n != 1:
		return usagef(`want one lock name, got %d; see "redlock unlock --help"`, n)
	case !cmd.Bool("force"):
		return usagef("only its holder may release a lock; to take it from a holder that is stuck, add --force")
	case asks && (cmd.Bool("json") || !terminal.Is(os.Stdin)):
		return usagef("no terminal to ask on; add --yes if you are sure")
	}
	name := cmd.Args().First()
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		held, err := inspector.Inspect(ctx, name)
		if err != nil {
			return err
		}
		if held.Owner != "" && asks {
			if err := confirm(terminal.NewPrinter(cmd.Root().Writer), held); err != nil {
				return err
			}
		}
		for _, owner := range ownersOf(held) {
			if err := inspector.ForceUnlock(ctx, name, owner); err != nil {
				return err
			}
		}
		now, err := inspector.Inspect(ctx, name)
		text := fmt.Sprintf("%s: taken from %s; now %s", printable(name), holders(held), holder(now, err))
		if held.Owner == "" {
			text = printable(name) + ": nobody held it"
		}
		return errors.Join(err, show(cmd, unlockObject{ownersOf(held), inspectionObject(now, err)}, said(text)))
	})
}

// unlockObject is what unlock prints with --json.
type unlockObject struct {
	TakenFrom []string   `json:"taken_from"` // owners
	Now       nameObject `json:"now"`
}

// ownersOf are those from which a lock is taken: its owner, or all readers.
func ownersOf(i redlock.Inspection) []string {
	switch {
	case i.Owner == "":
		return []string{}
	case len(i.Readers) > 0:
		return i.Readers
	default:
		return []string{i.Owner}
	}
}

// confirm shows what is about to be done, and asks. The error says that it is not to be done.
func confirm(p terminal.Printer, i redlock.Inspection) error {
	text := fmt.Sprintf("%s: held by %s", printable(i.Name), holders(i))
	if i.Token > 0 {
		text += fmt.Sprintf(" with token %d", i.Token)
	}
	text += fmt.Sprintf(", for %s unless renewed", left(i.Remaining))
	if i.Waiting > 0 {
		text += fmt.Sprintf("; waiting: %d", i.Waiting)
	}
	const effect = "The holder notices at its next renewal, at the latest after its TTL. Until then it works on beside " +
		"the next holder: end it first if you can. The next hold has a larger token, so a resource that checks tokens " +
		"rejects the former holder then. Nothing protects any other resource."
	if err := errors.Join(p.Print(text), p.Item("   ", effect)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stderr, "Take the lock from %s? [y/N] ", cmp.Or(holders(i), "its holder"))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return failf(exitFailure, "not confirmed: nothing was changed")
}
