package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/demo"
	"github.com/quorumlock/redlock/internal/printable"
)

// exitCode is how redlock ends. Its own codes come from sysexits.h, which cron and mail systems know and
// commands rarely use; "lost" means that work may have run unprotected, which nothing there expresses, and is
// the first number above that range. 126 and up are the shell's.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailure     exitCode = 1  // demo: something was oversold under the lock; unlock: not confirmed
	exitUsage       exitCode = 64 // EX_USAGE: flags, names or nodes that make no sense
	exitNoQuorum    exitCode = 69 // EX_UNAVAILABLE: too few nodes answered
	exitInternal    exitCode = 70 // EX_SOFTWARE: anything else that went wrong in redlock
	exitTaken       exitCode = 75 // EX_TEMPFAIL: somebody else holds the lock; later may work
	exitLost        exitCode = 79 // the hold ended under the command, or was about to: the command was ended
	exitExhausted   exitCode = 80 // once: as many runs as may be have begun, and none succeeded
	exitNotRunnable exitCode = 126
	exitNotFound    exitCode = 127
	exitSignal      exitCode = 128 // + the signal's number
)

// failure is an error that knows its exit code. An empty text ends redlock without a word: the command has
// said what there was to say.
type failure struct {
	code    exitCode
	text    string
	outcome string // for --json; "": what the code stands for
	cause   error  // what is said in text, with its nodes, or nil
	last    func() // what is done when all is said and closed, or nil
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

func failf(code exitCode, format string, args ...any) error {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// codeOf maps what a verb returned to the exit code.
func codeOf(err error) exitCode {
	var f *failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, demo.ErrNotHeld):
		return exitFailure
	case errors.Is(err, redlock.ErrRunsExhausted):
		return exitExhausted
	// A hold that was lost may be what ended a wait, and is named then beside what the wait was for.
	case errors.Is(err, redlock.ErrNoQuorum), errors.As(err, new(*redlock.ListConflictError)):
		return exitNoQuorum
	case errors.Is(err, redlock.ErrTaken):
		return exitTaken
	case errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrMaxHold):
		return exitLost
	case errors.Is(err, redlock.ErrInvalid):
		return exitUsage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTaken // the wait was over before the first attempt was: later may work
	}
	return exitInternal
}

// inOurWords puts what the library says, and a node in it, into the words of a user who has flags and writes no Go, on
// one line that may be printed.
func inOurWords(text string) string {
	return printable.Text(inSeconds.ReplaceAllString(ourWords.Replace(text), "$1$2"))
}

// inSeconds finds times that are written otherwise than in flags and tables, and no part of a name.
var inSeconds = regexp.MustCompile(`((?:,| for| in| of| and| one| is| to| over| within| restarted) [\d.]+) (m?s)\b`)

// pages is where those have the documentation who have got the command alone.
const pages = "https://github.com/quorumlock/redlock/blob/main/docs/"

var ourWords = strings.NewReplacer(
	"\n", "; ",
	"New: invalid: ", "",
	"NewInspector: invalid: ", "",
	"New: conflicting", "conflicting",
	"for New, set ", "set ",
	"WithMaxTTL", "--max-ttl",
	"call ForceUnlock", "run redlock unlock --force",
	"NodeConfig.NoRestartGuard", "--no-restart-guard",
	"NodeConfig.AllowEviction", "--allow-eviction",
	"NodeConfig.AllowNoInfo", "--no-node-info",
	"use WithNewNodes", "use --to",
	"set RootCAs or ServerName of NodeConfig.TLS", "set --ca or --server-name",
	"set Certificates of NodeConfig.TLS", "set --cert and --key",
	"fix the function of NodeConfig.Credentials or NodeConfig.TLS", "mend what it names",
	"options are given to New", "see redlock help nodes",
	"docs/operations.md", pages+"operations.md", "docs/changing-nodes.md", pages+"changing-nodes.md",
	"; context deadline exceeded", "; the wait is over",
	"; context canceled", "",
)

// complaint is the one line that stderr gets, without the "redlock: " in front, or "" for none.
func complaint(err error) string {
	if err == nil {
		return ""
	}
	return inOurWords(strings.TrimPrefix(err.Error(), "redlock: "))
}

// unfolded is the complaint for a person at a terminal: each node has a line of its own.
func unfolded(err error) string {
	lines := []string{complaint(err)}
	var q *redlock.QuorumError
	if errors.As(err, &q) {
		for _, n := range q.Nodes {
			lines = append(lines, inOurWords(n.Error()))
		}
	}
	return strings.Join(lines, "\n  ")
}

// summed is the complaint without the nodes' parts, where they are shown anyway.
func summed(err error) error { return &failure{code: codeOf(err), text: complaint(err)} }
