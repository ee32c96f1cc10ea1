package redlock

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ReplyError is a node's own refusal to do what it was asked. Test the Err of a
// [NodeError] with errors.As. The node stays in use, and is asked again.
type ReplyError struct {
	// Code is the first word of the reply: OOM, NOREPLICAS, READONLY, NOAUTH,
	// WRONGPASS, NOPERM, BUSY, LOADING, MISCONF …, or ERR. MAXCLIENTS stands for "max
	// number of clients reached", for which nodes have no word.
	Code    string
	Command string // NOPERM: what the user may not do, where known
	Reply   string // the whole reply
}

// Error returns the reply, and for what an administrator can mend how.
func (e *ReplyError) Error() string {
	text := e.Reply
	if e.Command != "" && !strings.Contains(strings.ToLower(text), e.Command) {
		text += " (" + e.Command + ")"
	}
	if advice := replyAdvice[e.Code]; advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

var replyAdvice = map[string]string{
	"OOM":        "the node's memory is full: raise maxmemory",
	"NOREPLICAS": "too few replicas are attached: lower min-replicas-to-write",
	"MAXCLIENTS": "raise maxclients",
	"NOPERM":     "docs/operations.md has the ACL",
}

// explained gives errors that nodes send a type of their own; others are returned as they are.
func explained(err error, command string) error {
	var reply redis.Error
	var already *ReplyError
	if err == nil || errors.As(err, &already) || !errors.As(err, &reply) {
		return err
	}
	e := &ReplyError{Code: codeOf(string(reply)), Reply: string(reply)}
	if e.Code == "NOPERM" {
		e.Command = command
	}
	return e
}

// codeOf returns the code of an error reply. Before Redis 7, what a script
// fails with is quoted inside an ERR of its own.
func codeOf(reply string) string {
	if strings.Contains(reply, "max number of clients") {
		return "MAXCLIENTS"
	}
	code, rest, _ := strings.Cut(reply, " ")
	if strings.HasPrefix(rest, "Error running script") {
		if _, quoted, ok := strings.Cut(rest, ": -"); ok {
			code, _, _ = strings.Cut(quoted, " ")
		}
	}
	if code != strings.ToUpper(code) {
		return "ERR"
	}
	return code
}

// AbstainError says why a node's vote is not counted although the node answers.
// Test the Err of a [NodeError] with errors.As.
type AbstainError struct {
	Reason string // in words: what it may have forgotten, or what is wrong with its clock
	// Until is when its votes will count, by this process's clock; zero where no
	// time can be named. Remaining is the same, from when the vote was given.
	Until     time.Time
	Remaining time.Duration
}

// Error says why, and for how long.
func (e *AbstainError) Error() string {
	if e.Until.IsZero() {
		return e.Reason + "; its vote does not count meanwhile"
	}
	return fmt.Sprintf("%s; its vote counts in %s", e.Reason, seconds(e.Remaining))
}

// tell describes the abstention for people.
func (a *abstention) tell(now time.Time) *AbstainError {
	if a.doubt == "" {
		way, off := "ahead of", a.clock
		if off < 0 {
			way, off = "behind", -off
		}
		return &AbstainError{Reason: fmt.Sprintf("its clock is %s %s the other nodes'", off.Round(time.Millisecond), way)}
	}
	return &AbstainError{
		Reason: fmt.Sprintf(string(a.doubt), seconds(max(time.Second, now.Sub(a.since)))),
		Until:  a.until, Remaining: max(0, a.until.Sub(now)),
	}
}

// seconds rounds for reading: up, so that nobody comes too early.
func seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}
