package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

func topVerb() *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch the nodes, and who holds which lock",
		UsageText: "redlock top [flags] [NAME…]",
		Description: strings.TrimSpace(`
Shows every node and, for each NAME, who holds the lock: once a second until
Ctrl-C on a terminal, elsewhere once. TROUBLE is a code that "redlock doctor"
explains; NODES is how many gave the lock to the holder. It takes no lock.

EXIT CODES
   0     shown
   64    wrong usage: flags, settings, names or nodes
   69    shown once, and too few nodes vote for any lock to be taken` + settingsHelp),
		Flags: append(lockerFlags(),
			&cli.BoolFlag{Name: "once", Usage: "show it once, also on a terminal"},
			jsonFlag("print one JSON object")),
		Action: settled(topAction),
	}
}

func topAction(ctx context.Context, cmd *cli.Command) error {
	return withLocker(cmd, func(locker *redlock.Locker) error {
		names, out := cmd.Args().Slice(), cmd.Root().Writer
		v, err := see(ctx, locker, names)
		if err != nil {
			return err
		}
		screen := newStage(out)
		switch {
		case cmd.Bool("json"):
			err = printObject(out, v.object())
		case cmd.Bool("once") || !screen.live:
			_, err = fmt.Fprintln(out, strings.Join(v.painted(v.lines(), screen.ink), "\n"))
		default:
			watch(ctx, locker, names, screen, v)
			return nil
		}
		if n, need := voting(v.nodes), len(v.nodes)/2+1; err == nil && n < need {
			return &failure{code: exitNoQuorum, text: fmt.Sprintf("%d of %d nodes vote, %d are needed", n, len(v.nodes), need)}
		}
		return err
	})
}

// watch shows the latest view until a signal comes, and leaves it on the screen.
func watch(ctx context.Context, locker *redlock.Locker, names []string, screen *stage, first *view) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var shown atomic.Pointer[view]
	shown.Store(first)
	defer screen.heedStops()()
	end := screen.animate(func(width int) []string {
		v := shown.Load()
		return v.painted(clip(v.lines(), width), screen.ink)
	})
	for pause(ctx, time.Second) {
		if v, err := see(ctx, locker, names); err == nil && ctx.Err() == nil {
			shown.Store(v)
		}
	}
	end()
	last := shown.Load()
	screen.print(last.painted(clip(last.lines(), screen.width()), screen.ink)...)
}

// view is what top shows at one moment.
type view struct {
	at    time.Time
	nodes []redlock.NodeStatus
	names []redlock.Inspection
	known []error // why a name's holder is not known, or nil; as names
}

// see asks the nodes. The error says that a name makes no sense.
func see(ctx context.Context, locker *redlock.Locker, names []string) (*view, error) {
	v := &view{at: time.Now(), nodes: locker.Nodes(ctx)}
	for _, name := range names {
		i, err := locker.Inspect(ctx, name)
		if errors.Is(err, redlock.ErrInvalid) {
			return nil, err
		}
		v.names, v.known = append(v.names, i), append(v.known, err)
	}
	return v, nil
}

// headLines is how many lines stand above the nodes.
const headLines = 3

func (v *view) lines() []string {
	head := fmt.Sprintf("%s  %d of %d nodes vote", v.at.Format(time.TimeOnly), voting(v.nodes), len(v.nodes))
	nodes := [][]string{{"NODE", "VOTES", "ROLE", "UP", "CLOCK", "TRIP", "TROUBLE"}}
	for _, n := range v.nodes {
		nodes = append(nodes, []string{n.Addr, votes(n), role(n), span(n.Uptime), clock(n), trip(n), trouble(n)})
	}
	lines := append([]string{head, ""}, aligned(nodes)...)
	if len(v.names) == 0 {
		return lines
	}
	names := [][]string{{"HOLDER", "TOKEN", "LEFT", "NODES", "WAITING", "NAME"}}
	for k, i := range v.names {
		who, on := or(brief(i.Owner)), 0
		if v.known[k] != nil {
			who = "not known"
		}
		for _, n := range i.Nodes {
			if n.Err == nil && n.Owner != "" && n.Owner == i.Owner {
				on++
			}
		}
		names = append(names, []string{
			who, or(number(i.Token)), left(i.Remaining), fmt.Sprintf("%d/%d", on, len(i.Nodes)), strconv.Itoa(i.Waiting), i.Name,
		})
	}
	return append(append(lines, ""), aligned(names)...)
}

// painted has lines in colour: whole lines, since the columns are aligned by what is seen.
func (v *view) painted(lines []string, ink ink) []string {
	lines[0] = ink.paint(bold, lines[0])
	for i, n := range v.nodes {
		switch at := headLines + i; {
		case n.Err == nil:
		case n.AbstainsUntil.IsZero():
			lines[at] = ink.paint(red, lines[at])
		default:
			lines[at] = ink.paint(yellow, lines[at])
		}
	}
	return lines
}
