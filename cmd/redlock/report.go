package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// report is how a call of redlock went, for programs: what standard error gets with --json.
type report struct {
	Outcome  string       `json:"outcome"`
	ExitCode exitCode     `json:"exit_code"`
	Name     string       `json:"name,omitempty"`
	Ran      *bool        `json:"ran,omitempty"`   // run and once: whether the command was started
	Token    int64        `json:"token,omitempty"` // run and once: of the hold
	Error    string       `json:"error,omitempty"`
	Nodes    []reportNode `json:"nodes,omitempty"`
}

type reportNode struct {
	Addr      string  `json:"addr"`
	Outcome   string  `json:"outcome"`
	Owner     string  `json:"owner,omitempty"`
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
	if r.Outcome == "" {
		r.Outcome = outcomes[r.ExitCode]
	}
	if r.Outcome == "" {
		r.Outcome = "signal" // that ended the waiting
	}
	var q *redlock.QuorumError
	if errors.As(err, &q) {
		r.Error = summed(err).Error()
		for _, n := range q.Nodes {
			v := reportNode{Addr: n.Addr, Outcome: string(n.Outcome), Owner: n.Owner, Remaining: n.Remaining.Seconds()}
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

// printJSON prints one object on one line.
func printJSON(out io.Writer, v any) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // nobody to tell
}

// printObject prints what a verb was asked for.
func printObject(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// jsonFlag is the flag of every verb that has something to tell.
func jsonFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: usage} }
