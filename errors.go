package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// What a call or a hold can end with; test with [errors.Is].
var (
	// ErrTaken says that others hold so many nodes that no majority was possible.
	ErrTaken = errors.New("redlock: taken")
	// ErrNoQuorum says that too few nodes answered in time with a word that counts.
	ErrNoQuorum = errors.New("redlock: no quorum")
	// ErrLost says that a hold ended before it was unlocked: its validity ran
	// out, or a majority of the nodes no longer had it.
	ErrLost = errors.New("redlock: lost")
	// ErrUnlocked says that a hold was ended by Unlock.
	ErrUnlocked = errors.New("redlock: unlocked")
	// ErrHandedOver says that a hold was ended by Ticket, for another process to adopt.
	ErrHandedOver = errors.New("redlock: handed over")
	// ErrMaxHold says that a hold was ended at the limit set by WithMaxHold.
	ErrMaxHold = errors.New("redlock: held for the longest time allowed")
	// ErrDone says that a run of Once has succeeded within the done TTL.
	ErrDone = errors.New("redlock: done")
	// ErrExhausted says that as many runs of Once have begun as may within the done TTL, and that none has succeeded.
	ErrExhausted = errors.New("redlock: exhausted")
	// ErrClosed says that the Locker is closed.
	ErrClosed = errors.New("redlock: closed")
	// ErrInvalid says that an argument or option is not acceptable.
	ErrInvalid = errors.New("redlock: invalid")
)

// Why a node's vote failed, beside what the node itself or the network said;
// test the Err of a [NodeError] with [errors.Is].
var (
	// ErrNodeTimeout says that the node did not answer within the node timeout, or
	// has not answered an earlier request for that long. It is not a
	// context.DeadlineExceeded: that is the caller's own deadline.
	ErrNodeTimeout = redisconn.ErrTimeout
	// ErrNodeDown says that there is no connection to the node.
	ErrNodeDown = redisconn.ErrDown
	// ErrNodeBusy says that too many requests to the node are unanswered.
	ErrNodeBusy = redisconn.ErrBusy
	// ErrNodeRefused says that a node answers but is not fit to vote: a replica, a
	// member of a cluster, one that may evict locks or that is in the list twice.
	// The error's text says what to change.
	ErrNodeRefused = guard.ErrRefused
)

// Outcome is what one node contributed to a call.
type Outcome string

// The outcomes.
const (
	OutcomeGranted   Outcome = "granted"
	OutcomeOutbid    Outcome = "granted, but knows a larger token"
	OutcomeAbsent    Outcome = "not held here"
	OutcomeTaken     Outcome = "taken"
	OutcomeAbstained Outcome = "abstained"
	OutcomeFailed    Outcome = "failed"
	OutcomeAnswered  Outcome = "answered"       // where nothing was to be granted
	OutcomeLate      Outcome = "not waited for" // the outcome was certain before it answered
)

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr      string        // the node's address, without user and password
	Outcome   Outcome       // what the node said
	Name      string        // OutcomeTaken, with LockAll: the first of the names that is
	Owner     string        // OutcomeTaken: the owner that holds the lock there, where known
	Remaining time.Duration // OutcomeTaken: for how long at most, unless it is extended; 0: not known
	Err       error         // OutcomeFailed, OutcomeAbstained: why
}

// Error describes the node's part in a few words.
func (e NodeError) Error() string {
	var b strings.Builder
	b.WriteString(e.Addr)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	fmt.Fprintf(&b, " %s", e.Outcome)
	if e.Owner != "" {
		fmt.Fprintf(&b, " by %s", e.Owner)
	}
	if e.Remaining > 0 {
		fmt.Fprintf(&b, " for %s", e.Remaining.Round(time.Millisecond))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns why the node failed or abstained.
func (e NodeError) Unwrap() error { return e.Err }

// QuorumError says that no majority of nodes granted what was asked, and what
// each node said. It satisfies errors.Is for [ErrTaken] or [ErrNoQuorum] or
// [ErrLost], and for the error of the caller's context where that ended a wait;
// never for an error of a single node, since one node's timeout is not the caller's.
type QuorumError struct {
	Op      string // "lock", "read-lock", "acquire", "adopt", "extend", "unlock", "once" or "inspect"
	Name    string // of the lock; of several: as Lock.Name tells; of the semaphore or its slot
	Need    int    // how many nodes must grant
	Granted int    // how many did
	Nodes   []NodeError

	reason  error  // ErrTaken, ErrNoQuorum or ErrLost
	refused bool   // the reason is that a majority refused
	detail  string // what else there is to say
	ctx     error  // what ended the wait, or nil
}

// Error names the outcome and every node's part in it.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "redlock: %s %q: %s", e.Op, e.Name, strings.TrimPrefix(e.reason.Error(), "redlock: "))
	if e.ctx != nil {
		fmt.Fprintf(&b, " until %v", e.ctx)
	}
	fmt.Fprintf(&b, " (%d of %d nodes granted, %d needed)", e.Granted, len(e.Nodes), e.Need)
	if e.detail != "" {
		fmt.Fprintf(&b, "; %s", e.detail)
	}
	for i, n := range e.Nodes {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep)
		b.WriteString(n.Error())
	}
	return b.String()
}

// Unwrap returns the reason and the context's error, where that ended the wait.
func (e *QuorumError) Unwrap() []error {
	if e.ctx != nil {
		return []error{e.reason, e.ctx}
	}
	return []error{e.reason}
}

// invalid returns an error for an unacceptable argument or option.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// opError is the error of an operation that is not about votes. Its reason is one of the errors above, or a context's.
type opError struct {
	op     string // with the name, where there is one
	reason error
	detail string // what else there is to say; with what sets it off
	cause  error  // nil, or why the reason came about
}

// failed returns the error of an operation on a name.
func failed(op, name string, reason error) *opError {
	return &opError{op: op + " " + strconv.Quote(name), reason: reason}
}

// Error has the package's name at the front alone.
func (e *opError) Error() string {
	text := "redlock: " + e.op + ": " + strings.TrimPrefix(e.reason.Error(), "redlock: ") + e.detail
	if e.cause != nil {
		text += ": " + strings.TrimPrefix(e.cause.Error(), "redlock: ")
	}
	return text
}

// Unwrap returns the reason, and its cause where there is one.
func (e *opError) Unwrap() []error {
	if e.cause != nil {
		return []error{e.reason, e.cause}
	}
	return []error{e.reason}
}

// waitEnded is the error where a wait was ended: what the last attempt said, a *QuorumError, and why there is no other.
func waitEnded(last, ended error) error {
	var q *QuorumError
	if !errors.As(last, &q) {
		return ended
	}
	with := *q
	with.ctx = ended
	return &with
}

// endOf adds the cause that ctx was cancelled with, if there is one, to its error.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

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
	case err == nil, errors.As(err, &already), errors.Is(err, ErrNodeDown):
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
