package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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
Asks every node how it is, and prints a line for each, then what there is to change. Nothing is locked. On the
nodes it writes at most the node record, as every client does.

EXIT CODES
   0     healthy: every node votes
   1     degraded: locks are safe, but a node does not vote, or something ought to be changed
   2     unsafe: a lock may be granted twice, or no majority votes
   64    wrong usage: flags or nodes, or one server under two addresses`),
		Flags: append(lockerFlags(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}),
		Action: doctorAction,
	}
}

func doctorAction(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("doctor takes no arguments, got %q", cmd.Args().First())
	}
	locker, err := newLocker(cmd)
	if err != nil {
		return err
	}
	defer locker.Close()
	d := diagnose(locker.Nodes(ctx))
	if out := cmd.Root().Writer; cmd.Bool("json") {
		err = d.json(out)
	} else {
		err = d.print(out)
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
	d := &diagnosis{nodes: nodes}
	for _, n := range nodes {
		if n.Err == nil {
			d.voting++
		}
		for _, f := range n.Findings {
			d.findings = append(d.findings, numbered{n.Addr, f})
		}
	}
	all := func(code string, s redlock.Severity, remedy, format string, args ...any) {
		f := redlock.Finding{Code: code, Severity: s, Text: fmt.Sprintf(format, args...), Remedy: remedy}
		d.findings = append(d.findings, numbered{"", f})
	}
	need := len(nodes)/2 + 1
	if d.voting < need {
		all("no-majority", redlock.Unsafe, "mend the nodes named above", "%d of %d nodes vote, %d are needed: no lock can be taken", d.voting, len(nodes), need)
	} else if d.voting < len(nodes) && d.voting == need {
		all("no-spare", redlock.Degraded, "mend the nodes named above", "just a majority votes: the next failure stops all locking")
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

func (d *diagnosis) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tVOTES\tSERVER\tROLE\tUP\tKEEPS\tEVICTION\tCLOCK\tROUND TRIP")
	for _, n := range d.nodes {
		fmt.Fprintln(w, strings.Join([]string{
			n.Addr, votes(n), or(strings.TrimSpace(n.Product + " " + n.Version)), or(n.Role), span(n.Uptime),
			or(n.Persistence), or(n.EvictionPolicy), clock(n), trip(n),
		}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i, f := range d.findings {
		where := f.node
		if where == "" {
			where = "all nodes"
		}
		fmt.Fprintf(out, "%d. [%s] %s: %s\n   %s\n", i+1, f.Code, where, f.Text, f.Remedy)
	}
	if len(d.findings) > 0 {
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d nodes vote\n", verdicts[d.code], d.voting, len(d.nodes))
	return err
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

// json prints the diagnosis for programs. Durations are in seconds, times in RFC 3339.
func (d *diagnosis) json(out io.Writer) error {
	type finding struct {
		Node     string `json:"node,omitempty"`
		Code     string `json:"code"`
		Severity string `json:"severity"`
		Text     string `json:"text"`
		Remedy   string `json:"remedy"`
	}
	type node struct {
		Addr          string     `json:"addr"`
		Votes         bool       `json:"votes"`
		Error         string     `json:"error,omitempty"`
		Server        string     `json:"server,omitempty"`
		Version       string     `json:"version,omitempty"`
		Role          string     `json:"role,omitempty"`
		Uptime        float64    `json:"uptime_seconds"`
		AbstainsUntil *time.Time `json:"abstains_until,omitempty"`
		Persistence   string     `json:"persistence,omitempty"`
		Eviction      string     `json:"eviction_policy,omitempty"`
		MaxMemory     int64      `json:"max_memory_bytes"`
		ClockOffset   float64    `json:"clock_offset_seconds"`
		RoundTrip     float64    `json:"round_trip_seconds"`
	}
	severities := map[redlock.Severity]string{redlock.Note: "note", redlock.Degraded: "degraded", redlock.Unsafe: "unsafe"}
	all := struct {
		Verdict  string    `json:"verdict"`
		Voting   int       `json:"voting"`
		Nodes    []node    `json:"nodes"`
		Findings []finding `json:"findings"`
	}{Verdict: verdicts[d.code], Voting: d.voting, Findings: []finding{}}
	for _, n := range d.nodes {
		v := node{
			Addr: n.Addr, Votes: n.Err == nil, Server: n.Product, Version: n.Version, Role: n.Role, Uptime: n.Uptime.Seconds(),
			Persistence: n.Persistence, Eviction: n.EvictionPolicy, MaxMemory: n.MaxMemory,
			ClockOffset: n.ClockOffset.Seconds(), RoundTrip: n.RoundTrip.Seconds(),
		}
		if n.Err != nil {
			v.Error = n.Err.Error()
		}
		if !n.AbstainsUntil.IsZero() {
			v.AbstainsUntil = &n.AbstainsUntil
		}
		all.Nodes = append(all.Nodes, v)
	}
	for _, f := range d.findings {
		all.Findings = append(all.Findings, finding{f.node, f.Code, severities[f.Severity], f.Text, f.Remedy})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}
