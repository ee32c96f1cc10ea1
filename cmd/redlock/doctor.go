package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// Doctor's verdicts are the exit codes that monitoring systems expect of a check: fine, warning, critical.
const (
	exitDegraded exitCode = 1
	exitUnsafe   exitCode = 2
)

func doctorVerb() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "look for what makes locks unsafe or unavailable",
		UsageText: "redlock doctor [flags]",
		Description: strings.TrimSpace(`
Asks every node how it is, and prints a line for each, then what there is to
change; docs/operations.md explains each [code]. Nothing is locked. On the
nodes it writes at most the node record, as every client does.

EXIT CODES
   0     healthy: every node votes
   1     degraded: locks are safe, but a node does not vote, or something
         ought to be changed
   2     unsafe: a lock may be granted twice, or no majority votes
   64    wrong usage: flags, settings or nodes` + settingsHelp),
		Flags:  append(lockerFlags(), jsonFlag("print one JSON object")),
		Action: settled(doctorAction),
	}
}

func doctorAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("doctor takes no arguments, got %q", cmd.Args().First())
	}
	nodes, opts, err := lockerOf(cmd)
	if err != nil {
		return err
	}
	fleet, err := survey(ctx, nodes, opts)
	if err != nil {
		return err
	}
	d := diagnose(fleet)
	if out := cmd.Root().Writer; cmd.Bool("json") {
		err = printObject(out, d.object())
	} else {
		err = d.print(pageOn(out))
	}
	if err != nil {
		return err
	}
	if d.code != exitOK {
		return &failure{code: d.code}
	}
	return nil
}

// diagnosis is what doctor has to say.
type diagnosis struct {
	nodes    []redlock.NodeStatus
	voting   int
	findings []numbered
	code     exitCode
}

// numbered is a finding and the node it concerns; "" for all.
type numbered struct {
	node string
	redlock.Finding
}

var verdicts = map[exitCode]string{exitOK: "healthy", exitDegraded: "degraded", exitUnsafe: "unsafe"}

func diagnose(nodes []redlock.NodeStatus) *diagnosis {
	d := &diagnosis{nodes: nodes, voting: voting(nodes)}
	for _, n := range nodes {
		for _, f := range n.Findings {
			f.Text = inOurWords.Replace(f.Text)
			d.findings = append(d.findings, numbered{n.Addr, f})
		}
	}
	all := func(code string, s redlock.Severity, remedy, format string, args ...any) {
		f := redlock.Finding{Code: code, Severity: s, Text: fmt.Sprintf(format, args...), Remedy: remedy}
		d.findings = append(d.findings, numbered{"", f})
	}
	const mend = "mend the nodes named above, or wait for those that abstain"
	need := len(nodes)/2 + 1
	if d.voting < need {
		all("no-majority", redlock.Unsafe, mend, "%d of %d nodes vote, %d are needed: no lock can be taken", d.voting, len(nodes), need)
	} else if d.voting < len(nodes) && d.voting == need {
		all("no-spare", redlock.Degraded, mend, "just a majority votes: the next failure stops all locking")
	}
	if len(nodes)%2 == 0 {
		all("even", redlock.Degraded, "use one node more or one less", "%d nodes bear no more failures than %d", len(nodes), len(nodes)-1)
	}
	if d.voting < len(nodes) {
		d.code = exitDegraded
	}
	for _, f := range d.findings {
		switch f.Severity {
		case redlock.Unsafe:
			d.code = exitUnsafe
		case redlock.Degraded:
			d.code = max(d.code, exitDegraded)
		case redlock.Note:
			// nothing to worry about
		}
	}
	return d
}

func (d *diagnosis) print(p page) error {
	rows := [][]string{{"NODE", "VOTES", "ROLE", "UP", "CLOCK", "TRIP", "EVICTION", "SERVER", "KEEPS"}}
	for _, n := range d.nodes {
		rows = append(rows, []string{
			n.Addr, votes(n), role(n), span(n.Uptime), clock(n), trip(n), or(n.EvictionPolicy),
			or(strings.TrimSpace(n.Product + " " + n.Version)), or(n.Persistence),
		})
	}
	errs := []error{p.table(rows), p.print("")}
	for i, f := range d.findings {
		where := f.node
		if where == "" {
			where = "all nodes"
		}
		code := p.paint(colours[f.Severity], "["+f.Code+"]")
		errs = append(errs, p.item(fmt.Sprintf("%d. ", i+1), fmt.Sprintf("%s %s: %s", code, where, f.Text)))
		// Once is enough for nodes that have the same.
		if f.Remedy != "" && (i+1 == len(d.findings) || d.findings[i+1].Remedy != f.Remedy) {
			errs = append(errs, p.item("   ", f.Remedy))
		}
	}
	if len(d.findings) > 0 {
		errs = append(errs, p.print(""))
	}
	verdict := p.paint(verdictColours[d.code], verdicts[d.code])
	return errors.Join(append(errs, p.print(fmt.Sprintf("%s: %d of %d nodes vote", verdict, d.voting, len(d.nodes))))...)
}

// Colours say at a glance what matters.
var (
	colours        = map[redlock.Severity]string{redlock.Note: dim, redlock.Degraded: yellow, redlock.Unsafe: red}
	verdictColours = map[exitCode]string{exitOK: green, exitDegraded: yellow, exitUnsafe: red}
)

func voting(nodes []redlock.NodeStatus) int {
	count := 0
	for _, n := range nodes {
		if n.Err == nil {
			count++
		}
	}
	return count
}

func votes(n redlock.NodeStatus) string {
	switch {
	case n.Err == nil:
		return "yes"
	case !n.AbstainsUntil.IsZero():
		return "in " + span(time.Until(n.AbstainsUntil)+time.Second)
	default:
		return "no"
	}
}

// role calls a replica what everybody else calls it.
func role(n redlock.NodeStatus) string {
	if n.Role == "slave" {
		return "replica"
	}
	return or(n.Role)
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d > 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.Truncate(time.Second).String()
}

func clock(n redlock.NodeStatus) string {
	if n.RoundTrip == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1fms", float64(n.ClockOffset.Microseconds())/1000)
}

func trip(n redlock.NodeStatus) string {
	if n.RoundTrip == 0 {
		return "-"
	}
	return n.RoundTrip.Round(10 * time.Microsecond).String()
}

// trouble is the code of the worst finding; docs/operations.md explains it.
func trouble(n redlock.NodeStatus) string {
	code, worst := "-", redlock.Note
	for _, f := range n.Findings {
		if f.Severity > worst {
			code, worst = f.Code, f.Severity
		}
	}
	return code
}
