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
	"github.com/quorumlock/redlock/internal/printable"
)

func unlockVerb() *cli.Command {
	return &cli.Command{
		Name:      "unlock",
		Usage:     "take a lock from a holder that is stuck",
		UsageText: "redlock unlock --force [flags] NAME\nredlock unlock --force --older-than DURATION [flags] PREFIX",
		Description: strings.TrimSpace(fmt.Sprintf(`
Takes the lock NAME from its holder, and hands it to the client that has
waited longest. It shows the holder and asks first. The lock of a holder that
has crashed needs no such help: it is free when its TTL is over.

%s

With --older-than, it does so with all locks whose names begin with PREFIX
and that have been held for so long: it lists them, asks once, and takes each
from the holder that was listed and from no other. '' is the PREFIX of all.
Of readers, and of holds without a token, the age is not known: they stay.

EXIT CODES
   0     the locks were taken from their holders; or nobody held them
   1     not confirmed: nothing was changed
   64    wrong usage: flags, settings, name or nodes; or nobody to ask
   69    no quorum: too few nodes answered`, effect)),
		Flags: withNodes(
			&cli.BoolFlag{Name: "force", Usage: "must be given: only its holder may release a lock"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.DurationFlag{Name: olderThan, HideDefault: true, Usage: "take all locks held for longer than `DURATION`"},
			jsonFlag("print one JSON object; needs --yes")),
		Action: settled(unlockAction),
	}
}

// effect is what it means to take a lock from its holder.
const effect = `The holder is told at once; one that does not listen notices at its next
renewal, at the latest after its TTL. Until then it works on beside the next
holder: end it first if you can. The next hold has a larger token, so a
resource that checks tokens rejects the former holder from then on. Nothing
protects any other resource.`

// olderThan is the flag that makes a prefix of the name.
const olderThan = "older-than"

func unlockAction(ctx context.Context, cmd *cli.Command) error {
	asks, many := !cmd.Bool("yes"), cmd.IsSet(olderThan)
	switch n := cmd.Args().Len(); {
	case n != 1 && many:
		return usagef(`want one prefix of names, got %d ('' is that of all); see "redlock unlock --help"`, n)
	case n != 1:
		return usagef(`want one lock name, got %d; see "redlock unlock --help"`, n)
	case !cmd.Bool("force"):
		return usagef("only its holder may release a lock; to take it from a holder that is stuck, add --force")
	case many && cmd.Duration(olderThan) <= 0:
		return usagef("--older-than %s is not positive", cmd.Duration(olderThan))
	case asks && (cmd.Bool("json") || !terminal.Is(os.Stdin)):
		return usagef("no terminal to ask on; add --yes if you are sure")
	}
	name := cmd.Args().First()
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		if many {
			return unlockMany(ctx, cmd, inspector)
		}
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
		text := fmt.Sprintf("%s: taken from %s; now %s", name, holders(held), holder(now, err))
		if held.Owner == "" {
			text = name + ": nobody held it"
		}
		return errors.Join(err, show(cmd, unlockObject{ownersOf(held), inspectionObject(now, err)}, said(text)))
	})
}

// unlockMany takes the locks that have been held for long from those who were seen to hold them.
func unlockMany(ctx context.Context, cmd *cli.Command, inspector *redlock.Inspector) error {
	var found []redlock.Inspection
	old := 0
	for i, err := range inspector.List(ctx, cmd.Args().First()) {
		if err != nil {
			return err
		}
		if i.Age > cmd.Duration(olderThan) {
			old++
		} else if i.Age > 0 {
			continue
		}
		found = append(found, i)
	}
	p, quiet := terminal.NewPrinter(cmd.Root().Writer), cmd.Bool("json")
	if len(found) > 0 && !quiet {
		if err := p.Draw(lockTable(found, p.Width)...); err != nil {
			return err
		}
	}
	if old > 0 && !cmd.Bool("yes") {
		question := fmt.Sprintf("Take %d of these locks from their holders?", old)
		if err := confirmed(p, question); err != nil {
			return err
		}
	}
	o, counts, code := manyObject{[]takenObject{}}, make(map[string]int), exitOK
	for _, i := range found {
		outcome, text := "age-unknown", i.Name+": not touched, since its age is not known"
		if i.Age > 0 {
			outcome, text = "taken", fmt.Sprintf("%s: taken from %s", i.Name, holders(i))
			if err := inspector.ForceUnlock(ctx, i.Name, i.Owner); err != nil {
				outcome, text, code = "failed", complaint(err), codeOf(err)
			}
		}
		counts[outcome]++
		o.Locks = append(o.Locks, takenObject{inspectionObject(i, nil), outcome})
		if !quiet {
			_ = p.Print(text) // what has been begun is done
		}
	}
	sum := fmt.Sprintf("%d taken, %d failed, %d of unknown age",
		counts["taken"], counts["failed"], counts["age-unknown"])
	err := show(cmd, o, said(sum))
	if code != exitOK {
		err = errors.Join(failf(code, "%d of %d locks may not have been taken", counts["failed"], old), err)
	}
	return err
}

// manyObject is what unlock prints with --json and --older-than.
type manyObject struct {
	Locks []takenObject `json:"locks"`
}

type takenObject struct {
	nameObject
	Outcome string `json:"outcome"` // "taken", "failed" or "age-unknown"
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
	text := fmt.Sprintf("%s: held by %s  left: %s", i.Name, changed(i), kept(i))
	if i.Waiting > 0 {
		text += fmt.Sprintf("  waiting: %d", i.Waiting)
	}
	if err := p.Print(text); err != nil {
		return err
	}
	return confirmed(p, fmt.Sprintf("Take the lock from %s?", cmp.Or(holders(i), "its holder")))
}

// confirmed says what it means to take a lock from its holder, and asks. The error says that it is not to be done.
func confirmed(p terminal.Printer, question string) error {
	if err := p.Item("   ", "", strings.ReplaceAll(effect, "\n", " ")); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s [y/N] ", printable.Text(question))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return failf(exitFailure, "not confirmed: nothing was changed")
}
