package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func topVerb() *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch the nodes, and who holds which lock",
		UsageText: "redlock top [flags] [NAME…]",
		Description: strings.TrimSpace(`
Shows every node and, for each NAME, who holds the lock: once a second until
q or Ctrl-C on a terminal, elsewhere once. Locks that do not fit are counted.
TROUBLE is a code that "redlock doctor" explains; the rest is as in "redlock
ls". It takes no lock.

EXIT CODES
   0     shown
   64    wrong usage: flags, settings, names or nodes
   69    shown once, and too few nodes vote for any lock to be taken`),
		Flags: withNodes(
			&cli.BoolFlag{Name: "once", Usage: "show it once, also on a terminal"},
			jsonFlag("print one JSON object")),
		Action: settled(topAction),
	}
}

func topAction(ctx context.Context, cmd *cli.Command) error {
	return connected(cmd, redlock.NewInspector, func(inspector *redlock.Inspector) error {
		names := cmd.Args().Slice()
		v, err := look(ctx, inspector, names)
		if err != nil {
			return err
		}
		screen := terminal.NewScreen(cmd.Root().Writer)
		if screen.Live && !cmd.Bool("once") && !cmd.Bool("json") {
			watch(ctx, inspector, names, screen, v)
			return nil
		}
		err = show(cmd, v.object(), func(p terminal.Printer) error { return p.Draw(v.lines(p.Width, 0, p.Colours)...) })
		for _, l := range listsOf(v.nodes) {
			if err == nil && !l.majority() {
				err = failf(exitNoQuorum, "%s, a majority is %d", votesInWords(v.nodes), l.need())
			}
		}
		return err
	})
}

// watch shows the latest view until a signal or the key q comes, and leaves it on the screen.
func watch(ctx context.Context, inspector *redlock.Inspector, names []string, screen *terminal.Screen, first *view) {
	ctx, stop := untilSignalled(ctx)
	defer stop()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	var latest atomic.Pointer[view]
	latest.Store(first)
	draw := func(width, height int) []string { return latest.Load().lines(width, height, screen.Colours) }
	screen.OnKey(os.Stdin, 'q', quit)
	end := screen.Animate(draw)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			if v, err := look(ctx, inspector, names); err == nil && ctx.Err() == nil {
				latest.Store(v)
			}
		}
	}
	end()
	screen.Print(draw(screen.Room())...)
}

// view is what top shows at one moment.
type view struct {
	at    time.Time
	nodes []redlock.NodeStatus
	names []redlock.Inspection
	known []error // why a name's holder is not known, or nil; as names
}

// look asks the nodes. The error says that a name makes no sense.
func look(ctx context.Context, inspector *redlock.Inspector, names []string) (*view, error) {
	v := &view{at: time.Now(), nodes: inspector.Status(ctx)}
	for _, name := range names {
		i, err := inspector.Inspect(ctx, name)
		if errors.Is(err, redlock.ErrInvalid) {
			return nil, err
		}
		v.names, v.known = append(v.names, i), append(v.known, err)
	}
	return v, nil
}

// lines draws the view, cut at width and height; 0: no limit. Whole lines are in colour: columns are aligned by what is
// seen.
func (v *view) lines(width, height int, c terminal.Colours) []string {
	head := fmt.Sprintf("%s  %s", v.at.Format(time.TimeOnly), votesInWords(v.nodes))
	nodes := [][]string{{"NODE", "VOTES", "ROLE", "UP", "CLOCK", "TRIP", "TROUBLE"}}
	for _, n := range v.nodes {
		nodes = append(nodes, []string{withList(n, n.Addr), votes(n), role(n), span(n.Uptime), clock(n), trip(n), trouble(n)})
	}
	names := slices.Clone(v.names)
	for k := range names {
		if v.known[k] != nil {
			names[k].Label, names[k].Readers = "not known", nil
		}
	}
	lines := append([]string{head, ""}, terminal.Align(terminal.Narrow(nodes, width, []int{0}))...)
	below := append([]string{""}, lockTable(names, width)...)
	terminal.Clip(lines, width)
	lines[0] = c.Paint(terminal.Bold, lines[0])
	for i, n := range v.nodes {
		switch at := 3 + i; { // behind the table's head
		case n.Err == nil:
		case n.AbstainsUntil.IsZero():
			lines[at] = c.Paint(terminal.Red, lines[at])
		default:
			lines[at] = c.Paint(terminal.Yellow, lines[at])
		}
	}
	// Rather a lock than empty lines.
	const least = 4 // lines, to show a lock and how many there are beside it
	if len(v.names) > 0 && height > 0 && height < len(lines)+min(len(below), least) {
		lines, below = slices.Delete(lines, 1, 2), below[1:]
	}
	lines = cutAt(height, lines, len(lines)-len(v.nodes))
	if len(v.names) == 0 || height > 0 && height == len(lines) {
		return lines
	}
	return append(lines, cutAt(max(height-len(lines), 0), below, len(below)-len(v.names))...)
}

// cutAt cuts a table, of which some lines are its head, at a height, and says how many rows are missing; 0: no limit.
func cutAt(height int, lines []string, head int) []string {
	if height == 0 || len(lines) <= height {
		return lines
	}
	return append(lines[:height-1:height-1], fmt.Sprintf("and %d more", len(lines)-max(height-1, head)))
}
