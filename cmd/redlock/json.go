package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/finding"
)

// What --json prints: what a verb was asked for, as an object on standard output, and how it went, as a report on
// standard error. Durations are in seconds, times in RFC 3339; docs/cli.md has the fields.

// jsonFlag is the flag of every verb that has something to tell.
func jsonFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: usage} }

// bytesOf returns a name that is not UTF-8, for a field beside its text: JSON has none for it. Other names have no such
// field.
func bytesOf(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// printJSON prints one object on one line. Where that fails on standard error, there is nobody to tell.
func printJSON(out io.Writer, v any) error { return encode(out, v, "") }

// encode prints an object. What may not be printed as it is, it escapes, since a person may look on: the library for
// JSON does so for the controls of ASCII alone. Texts are whole.
func encode(out io.Writer, v any, indent string) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range text.String() {
		if unicode.IsPrint(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// show prints what a verb was asked for: an object with --json, or else words.
func show(cmd *cli.Command, object any, words func(terminal.Printer) error) error {
	if !cmd.Bool("json") {
		return words(terminal.NewPrinter(cmd.Root().Writer))
	}
	return encode(cmd.Root().Writer, object, "  ")
}

// said is for a verb that has a line to say.
func said(text string) func(terminal.Printer) error {
	return func(p terminal.Printer) error { return p.Print(text) }
}

// report is how a call of redlock went, for programs: what standard error gets with --json.
type report struct {
	Outcome  string       `json:"outcome"`
	ExitCode exitCode     `json:"exit_code"`
	Name     string       `json:"name,omitempty"`
	Bytes    []byte       `json:"name_base64,omitempty"` // see bytesOf
	Ran      *bool        `json:"ran,omitempty"`         // run and once: whether the command was started
	Token    int64        `json:"token,omitempty"`       // run and once: of the hold
	Error    string       `json:"error,omitempty"`
	Nodes    []reportNode `json:"nodes,omitempty"`
}

type reportNode struct {
	Addr      string  `json:"addr"`
	Outcome   string  `json:"outcome"`
	Owner     string  `json:"owner,omitempty"`
	Label     string  `json:"label,omitempty"`
	Remaining float64 `json:"remaining_seconds,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// outcomeEnded says that the command ran to its end under the lock; the exit code is its own.
const outcomeEnded = "ended"

var outcomes = map[exitCode]string{
	exitUsage: "usage", exitNoQuorum: "no-quorum", exitInternal: "internal", exitTaken: "taken",
	exitLost: "lost", exitExhausted: "exhausted", exitNotRunnable: "not-runnable", exitNotFound: "not-found",
}

func reportOn(err error) report {
	r := report{ExitCode: codeOf(err), Error: complaint(err)}
	var f *failure
	if errors.As(err, &f) {
		r.Outcome = f.outcome
	}
	r.Outcome = cmp.Or(r.Outcome, outcomes[r.ExitCode], "signal") // the last one ended the waiting
	var q *redlock.QuorumError
	if errors.As(err, &q) {
		for _, n := range q.Nodes {
			v := reportNode{
				Addr: n.Addr, Outcome: n.Outcome, Owner: n.Owner, Label: n.Label, Remaining: n.Remaining.Seconds(),
			}
			if n.Err != nil {
				v.Error = n.Err.Error()
			}
			r.Nodes = append(r.Nodes, v)
		}
	}
	return r
}

// asJSON turns what a verb has to complain about into an object, where that is wanted.
func asJSON(cmd *cli.Command, err error) error {
	if !cmd.Bool("json") || complaint(err) == "" {
		return err
	}
	printJSON(cmd.Root().ErrWriter, reportOn(err))
	return silent(err)
}

// silent is err when all has been said.
func silent(err error) error {
	s := failure{code: codeOf(err)}
	var f *failure
	if errors.As(err, &f) {
		s.last = f.last
	}
	return &s
}

// nodeObject is a node as doctor and top see it.
type nodeObject struct {
	Addr          string     `json:"addr"`
	List          string     `json:"list,omitempty"` // with --to: "old list", "new list" or "both lists"
	TLS           bool       `json:"tls"`
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

func nodeObjects(nodes []redlock.NodeStatus) []nodeObject {
	list := make([]nodeObject, len(nodes))
	for i, n := range nodes {
		o := nodeObject{
			Addr: n.Addr, List: n.List, TLS: n.TLS, Votes: n.Err == nil,
			Server: n.Product, Version: n.Version, Role: n.Role,
			Uptime:      n.Uptime.Seconds(),
			Persistence: n.Persistence, Eviction: n.EvictionPolicy, MaxMemory: n.MaxMemory,
			ClockOffset: n.ClockOffset.Seconds(), RoundTrip: n.RoundTrip.Seconds(),
		}
		if n.Err != nil {
			o.Error = complaint(n.Err)
		}
		if !n.AbstainsUntil.IsZero() {
			o.AbstainsUntil = &n.AbstainsUntil
		}
		list[i] = o
	}
	return list
}

type diagnosisObject struct {
	Verdict  string          `json:"verdict"`
	Voting   int             `json:"voting"`
	Nodes    []nodeObject    `json:"nodes"`
	Clients  []clientsObject `json:"clients"`
	Findings []findingObject `json:"findings"`
}

// clientsObject is how many clients were seen in the last minute with which lists of nodes.
type clientsObject struct {
	Lists    [][]string `json:"lists"`
	Clients  int        `json:"clients"`
	Conflict bool       `json:"conflict"` // with the lists that were given
}

type findingObject struct {
	Node     string       `json:"node,omitempty"`
	Code     finding.Code `json:"code"`
	Severity string       `json:"severity"`
	Text     string       `json:"text"`
	Remedy   string       `json:"remedy"`
}

func (d *diagnosis) object() diagnosisObject {
	o := diagnosisObject{verdicts[d.worst].word, d.voting, nodeObjects(d.nodes), []clientsObject{}, []findingObject{}}
	for _, c := range d.clients {
		o.Clients = append(o.Clients, clientsObject{c.Lists, c.Clients, c.Conflict})
	}
	for _, f := range d.findings {
		o.Findings = append(o.Findings, findingObject{f.node, f.Code, f.Severity.String(), f.Text, f.Remedy})
	}
	return o
}

// nameObject is a name as status and top see it.
type nameObject struct {
	Name      string           `json:"name"`
	Bytes     []byte           `json:"name_base64,omitempty"` // see bytesOf
	Known     bool             `json:"known"`                 // a majority has answered
	Held      bool             `json:"held"`
	Owner     string           `json:"owner,omitempty"`
	Label     string           `json:"label,omitempty"` // what the owner's client calls itself
	Readers   []string         `json:"readers,omitempty"`
	Labels    []string         `json:"reader_labels,omitempty"` // in the order of the readers
	Value     string           `json:"value,omitempty"`
	Token     int64            `json:"token,omitempty"`
	Age       float64          `json:"age_seconds,omitempty"`
	Remaining float64          `json:"remaining_seconds"`
	Waiting   int              `json:"waiting"`
	Runs      *runsObject      `json:"runs,omitempty"`
	Nodes     []nodeViewObject `json:"nodes"`
}

type runsObject struct {
	Begun     int     `json:"begun"`
	Last      string  `json:"last"`
	Token     int64   `json:"token"`
	Remaining float64 `json:"remaining_seconds"`
}

// runsOf is nil if no run has begun.
func runsOf(r redlock.Runs) *runsObject {
	if r.Begun == 0 {
		return nil
	}
	return &runsObject{r.Begun, r.Last, r.Token, max(r.Remaining, 0).Seconds()}
}

// nodeViewObject is what one node knows of a name.
type nodeViewObject struct {
	Addr      string      `json:"addr"`
	Counts    bool        `json:"counts"`
	Error     string      `json:"error,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	Label     string      `json:"label,omitempty"`
	Value     string      `json:"value,omitempty"`
	Token     int64       `json:"token,omitempty"`
	Remaining float64     `json:"remaining_seconds"`
	Waiting   int         `json:"waiting"`
	Runs      *runsObject `json:"runs,omitempty"`
}

// inspectionObject says the same as printStatus; unknown is why a majority's word is not known, or nil.
func inspectionObject(i redlock.Inspection, unknown error) nameObject {
	o := nameObject{
		Name: i.Name, Bytes: bytesOf(i.Name), Known: unknown == nil, Held: i.Owner != "", Owner: i.Owner, Label: i.Label,
		Readers: i.Readers, Labels: i.ReaderLabels, Value: i.Value, Token: i.Token, Age: i.Age.Seconds(),
		Remaining: i.Remaining.Seconds(), Waiting: i.Waiting, Runs: runsOf(i.Runs), Nodes: []nodeViewObject{},
	}
	for _, n := range i.Nodes {
		v := nodeViewObject{
			Addr: n.Addr, Counts: n.Err == nil, Owner: n.Owner, Label: n.Label, Token: n.Token, Remaining: n.Remaining.Seconds(),
			Value: n.Value, Waiting: n.Waiting, Runs: runsOf(n.Runs),
		}
		if n.Err != nil {
			v.Error = complaint(n.Err)
		}
		o.Nodes = append(o.Nodes, v)
	}
	return o
}

type viewObject struct {
	Voting int          `json:"voting"`
	Nodes  []nodeObject `json:"nodes"`
	Names  []nameObject `json:"names"`
}

func (v *view) object() viewObject {
	o := viewObject{Voting: voting(v.nodes), Nodes: nodeObjects(v.nodes), Names: []nameObject{}}
	for k, i := range v.names {
		o.Names = append(o.Names, inspectionObject(i, v.known[k]))
	}
	return o
}
