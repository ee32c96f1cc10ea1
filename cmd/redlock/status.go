package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func statusVerb() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show who holds a lock, and what has become of a job",
		UsageText: "redlock status [flags] NAME",
		Description: strings.TrimSpace(`
Asks every node who holds the lock NAME, who waits for it, and what is known
of its runs under "redlock once". It takes no lock, and changes nothing.

EXIT CODES
   0     the nodes have answered, whether or not somebody holds the lock
   64    wrong usage: flags, settings, name or nodes
   69    no quorum: too few nodes answered; what the others said is printed`),
		Flags:  withNodes(jsonFlag("print one JSON object")),
		Action: settled(statusAction),
	}
}

func statusAction(ctx context.Context, cmd *cli.Command) error {
	if n := cmd.Args().Len(); n != 1 {
		return usagef(`want one lock name, got %d; see "redlock status --help"`, n)
	}
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		i, err := inspector.Inspect(ctx, cmd.Args().First())
		if len(i.Nodes) == 0 {
			return err
		}
		shown := show(cmd, inspectionObject(i, err), func(p terminal.Printer) error { return printStatus(p, i, err) })
		if err != nil && !cmd.Bool("json") {
			err = summed(err)
		}
		return errors.Join(err, shown)
	})
}

// printStatus prints what the nodes said; unknown is why a majority's word is not known, or nil.
func printStatus(p terminal.Printer, i redlock.Inspection, unknown error) error {
	lines := []string{fmt.Sprintf("%s: %s", i.Name, holder(i, unknown))}
	add := func(is bool, what, text string) {
		if is {
			lines = append(lines, what+": "+text)
		}
	}
	add(i.Token > 0, "token", token(i.Token))
	add(i.Age > 0, "age", span(i.Age))
	add(i.Owner != "", "left", kept(i))
	add(i.Value != "", "value", whole(i.Value))
	for r, owner := range i.Readers {
		add(true, "reader", known(owner, i.ReaderLabels[r]))
	}
	add(i.Waiting > 0, "waiting", strconv.Itoa(i.Waiting))
	add(i.Runs.Begun > 0, "runs", runsInWords(i))
	rows := [][]string{{"NODE", "HOLDER", "TOKEN", "LEFT", "WAITING", "RUNS", "COUNTS"}}
	for _, n := range i.Nodes {
		runs, counts := "-", "yes"
		if n.Runs.Begun > 0 {
			runs = fmt.Sprintf("%d %s", n.Runs.Begun, n.Runs.Last)
		}
		var part redlock.NodeError
		if errors.As(n.Err, &part) {
			counts = fmt.Sprintf("no: %v", part.Err)
		}
		rows = append(rows, []string{
			n.Addr, cmp.Or(n.Label, brief(n.Owner)), token(n.Token), left(n.Remaining), strconv.Itoa(n.Waiting), runs, counts,
		})
	}
	if err := p.Print(append(lines, "")...); err != nil {
		return err
	}
	return p.Table(rows)
}

// kept is for how long the nodes keep a lock.
func kept(i redlock.Inspection) string {
	if i.Remaining < 0 {
		return `for ever, since the key has no TTL: no lock has set it; delete it, or run redlock unlock --force`
	}
	return left(i.Remaining) + ", unless renewed"
}

func holder(i redlock.Inspection, unknown error) string {
	switch {
	case unknown != nil:
		return "not known"
	case i.Owner == "":
		return "nobody holds it"
	default:
		return "held by " + known(i.Owner, i.Label)
	}
}

// known names an owner by what its client calls itself, if that is known.
func known(owner, label string) string {
	if label == "" {
		return whole(owner)
	}
	return label + " (" + whole(owner) + ")"
}

// runsInWords says what has become of a job, from the state of its last run and whether somebody holds the lock.
func runsInWords(i redlock.Inspection) string {
	r := i.Runs
	kept := "remembered for " + span(r.Remaining)
	switch {
	case r.Last == "done":
		return fmt.Sprintf("%d begun, the last one succeeded; nobody begins another for %s", r.Begun, span(r.Remaining))
	case r.Last == "failed":
		return fmt.Sprintf("%d begun, the last one failed; %s", r.Begun, kept)
	case i.Owner != "":
		return fmt.Sprintf("%d begun, the last one is under way, or has crashed and its lock remains", r.Begun)
	default:
		return fmt.Sprintf("%d begun, the last one crashed; %s", r.Begun, kept)
	}
}
