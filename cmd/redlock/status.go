package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

func statusVerb() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show who holds a lock, and what has become of a job",
		UsageText: "redlock status [flags] NAME",
		Description: strings.TrimSpace(`
Asks every node who holds the lock NAME, who waits for it, and what is known of its runs under "redlock once". It
takes no lock, and changes nothing.

EXIT CODES
   0     the nodes have answered, whether or not somebody holds the lock
   64    wrong usage: flags, name or nodes
   69    no quorum: too few nodes answered; what the others said is printed`),
		Flags: append(lockerFlags(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}),
		Action: statusAction,
	}
}

func statusAction(ctx context.Context, cmd *cli.Command) error {
	if n := cmd.Args().Len(); n != 1 {
		return usagef(`want one lock name, got %d; see "redlock status --help"`, n)
	}
	locker, err := newLocker(cmd)
	if err != nil {
		return err
	}
	defer locker.Close()
	i, err := locker.Inspect(ctx, cmd.Args().First())
	if len(i.Nodes) == 0 {
		return err
	}
	out := cmd.Root().Writer
	if cmd.Bool("json") {
		return errors.Join(err, statusJSON(out, i, err))
	}
	return errors.Join(err, printStatus(out, i, err))
}

// printStatus prints what the nodes said; unknown is why a majority's word is not known, or nil.
func printStatus(out io.Writer, i redlock.Inspection, unknown error) error {
	fmt.Fprintf(out, "%s: %s\n", i.Name, holder(i, unknown))
	if i.Waiting > 0 {
		fmt.Fprintf(out, "waiting: %d\n", i.Waiting)
	}
	if i.Runs.Begun > 0 {
		fmt.Fprintf(out, "runs: %s\n", story(i))
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tHOLDER\tTOKEN\tREMAINING\tWAITING\tRUNS\tCOUNTS")
	for _, n := range i.Nodes {
		runs, counts := "-", "yes"
		if n.Runs.Begun > 0 {
			runs = fmt.Sprintf("%d %s", n.Runs.Begun, n.Runs.Last)
		}
		var part redlock.NodeError
		if errors.As(n.Err, &part) {
			counts = fmt.Sprintf("no: %v", part.Err)
		}
		fmt.Fprintln(w, strings.Join([]string{
			n.Addr, or(n.Owner), or(number(n.Token)), remaining(n), strconv.Itoa(n.Waiting), runs, counts,
		}, "\t"))
	}
	return w.Flush()
}

func holder(i redlock.Inspection, unknown error) string {
	switch {
	case unknown != nil:
		return "not known"
	case i.Owner == "":
		return "nobody holds it"
	case i.Token == 0:
		return fmt.Sprintf("held by %s for %s, unless renewed", i.Owner, i.Remaining)
	default:
		return fmt.Sprintf("held by %s with token %d for %s, unless renewed", i.Owner, i.Token, i.Remaining)
	}
}

// story says what has become of a job, from the state of its last run and whether somebody holds the lock.
func story(i redlock.Inspection) string {
	r := i.Runs
	kept := "remembered for " + span(r.Remaining)
	switch {
	case r.Last == redlock.RunDone:
		return fmt.Sprintf("the %s succeeded; nobody begins another for %s", ordinal(r.Begun), span(r.Remaining))
	case r.Last == redlock.RunFailed:
		return fmt.Sprintf("%d begun, the last one failed; %s", r.Begun, kept)
	case i.Owner != "":
		return fmt.Sprintf("the %s is under way, or has crashed and its lock remains", ordinal(r.Begun))
	default:
		return fmt.Sprintf("%d begun, the last one crashed; %s", r.Begun, kept)
	}
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

func number(token int64) string {
	if token == 0 {
		return ""
	}
	return strconv.FormatInt(token, 10)
}

func remaining(n redlock.NodeInspection) string {
	switch {
	case n.Remaining < 0:
		return "for ever"
	case n.Remaining == 0:
		return "-"
	default:
		return n.Remaining.String()
	}
}

// statusJSON prints the same for programs. Durations are in seconds.
func statusJSON(out io.Writer, i redlock.Inspection, unknown error) error {
	type runs struct {
		Begun     int     `json:"begun"`
		Last      string  `json:"last"`
		Token     int64   `json:"token"`
		Remaining float64 `json:"remaining_seconds"`
	}
	type node struct {
		Addr      string  `json:"addr"`
		Counts    bool    `json:"counts"`
		Error     string  `json:"error,omitempty"`
		Owner     string  `json:"owner,omitempty"`
		Token     int64   `json:"token,omitempty"`
		Remaining float64 `json:"remaining_seconds"`
		Waiting   int     `json:"waiting"`
		Runs      *runs   `json:"runs,omitempty"`
	}
	all := struct {
		Name      string  `json:"name"`
		Known     bool    `json:"known"`
		Held      bool    `json:"held"`
		Owner     string  `json:"owner,omitempty"`
		Token     int64   `json:"token,omitempty"`
		Remaining float64 `json:"remaining_seconds"`
		Waiting   int     `json:"waiting"`
		Runs      *runs   `json:"runs,omitempty"`
		Nodes     []node  `json:"nodes"`
	}{
		Name: i.Name, Known: unknown == nil, Held: i.Owner != "", Owner: i.Owner, Token: i.Token,
		Remaining: i.Remaining.Seconds(), Waiting: i.Waiting,
	}
	of := func(r redlock.Runs) *runs {
		if r.Begun == 0 {
			return nil
		}
		return &runs{r.Begun, string(r.Last), r.Token, max(r.Remaining, time.Duration(0)).Seconds()}
	}
	all.Runs = of(i.Runs)
	for _, n := range i.Nodes {
		v := node{Addr: n.Addr, Counts: n.Err == nil, Owner: n.Owner, Token: n.Token, Remaining: n.Remaining.Seconds(), Waiting: n.Waiting, Runs: of(n.Runs)}
		if n.Err != nil {
			v.Error = n.Err.Error()
		}
		all.Nodes = append(all.Nodes, v)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}
