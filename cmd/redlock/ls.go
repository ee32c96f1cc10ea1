package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func lsVerb() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the locks that are held, and who holds them",
		UsageText: "redlock ls [flags] [PREFIX]",
		Description: strings.TrimSpace(`
Lists the locks that a majority of the nodes knows as held, all or those
whose names begin with PREFIX: the holder, its fencing token and age, for how
long the nodes keep the lock unless it is renewed, how many wait, how many
NODES gave it, and the values that holders have set. A semaphore's permits
are locks, too. It takes no lock and changes nothing. It looks at all keys of
each node, in small steps.

EXIT CODES
   0     listed, whether or not there are any
   64    wrong usage: flags, settings or nodes
   69    no quorum: too few nodes answered`),
		Flags:  withNodes(jsonFlag("print one JSON object")),
		Action: settled(lsAction),
	}
}

func lsAction(ctx context.Context, cmd *cli.Command) error {
	if n := cmd.Args().Len(); n > 1 {
		return usagef(`want one prefix, got %d; see "redlock ls --help"`, n)
	}
	prefix := cmd.Args().First()
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		o, locks := listObject{Locks: []nameObject{}}, []redlock.Inspection(nil)
		for i, err := range inspector.List(ctx, prefix) {
			if err != nil {
				return err
			}
			o.Locks = append(o.Locks, inspectionObject(i, nil))
			locks = append(locks, i)
		}
		return show(cmd, o, func(p terminal.Printer) error {
			if len(locks) > 0 {
				return p.Draw(lockTable(locks, p.Width)...)
			}
			text := "no lock is held" // said beside the list, which is empty
			if prefix != "" {
				text = fmt.Sprintf("no lock is held whose name begins with %q", prefix)
			}
			_, err := fmt.Fprintf(cmd.Root().ErrWriter, "redlock: %s\n", text)
			return err
		})
	})
}

// listObject is what ls prints with --json.
type listObject struct {
	Locks []nameObject `json:"locks"`
}

// lockTable draws what ls, top and unlock show of locks, for a width; 0: no limit. Values have a column if one is set.
func lockTable(locks []redlock.Inspection, width int) []string {
	rows := [][]string{{"NAME", "HOLDER", "TOKEN", "AGE", "LEFT", "WAITING", "NODES", "VALUE"}}
	names, columns := []int{0, 1, 7}, 7
	for _, i := range locks {
		on := 0
		for _, n := range i.Nodes {
			if n.Err == nil && n.Owner != "" && n.Owner == i.Owner {
				on++
			}
		}
		if i.Value != "" {
			columns = 8
		}
		rows = append(rows, []string{
			i.Name, holders(i), token(i.Token), span(i.Age), left(i.Remaining), strconv.Itoa(i.Waiting),
			fmt.Sprintf("%d/%d", on, len(i.Nodes)), cmp.Or(i.Value, "-"),
		})
	}
	for r := range rows {
		rows[r] = rows[r][:columns]
	}
	return terminal.Clip(terminal.Align(terminal.Narrow(rows, width, names[:columns-5], 2, 6, 5, 3)), width)
}

// holders is who holds a lock, in a column: of readers the first, and how many there are.
func holders(i redlock.Inspection) string {
	if len(i.Readers) == 0 {
		return cmp.Or(i.Label, brief(i.Owner))
	}
	first := cmp.Or(i.ReaderLabels[0], brief(i.Readers[0]))
	if len(i.Readers) == 1 {
		return first + " reads"
	}
	return fmt.Sprintf("%s and %d more read", first, len(i.Readers)-1)
}
