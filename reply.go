package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/redisconn"
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

// explained gives errors that nodes send a type of their own; others are returned as they are. command is what was
// refused, where that is known.
func explained(err error, command string) error {
	var said redis.Error
	var already *ReplyError
	switch {
	case err == nil || errors.As(err, &already):
		return err
	case errors.Is(err, redisconn.ErrClosed):
		return ErrClosed
	case !errors.As(err, &said):
		return err
	}
	e := &ReplyError{Code: redisconn.Code(said), Reply: string(said)}
	if e.Code == "NOPERM" {
		e.Command = command
	}
	return e
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
	return fmt.Sprintf("%s; its vote counts in %s", e.Reason, guard.Seconds(e.Remaining))
}

// abstainError describes an abstention for people.
func abstainError(a *guard.Abstention, now time.Time) *AbstainError {
	e := &AbstainError{Reason: a.Reason(now), Until: a.Until}
	if !a.Until.IsZero() {
		e.Remaining = max(0, a.Until.Sub(now))
	}
	return e
}
