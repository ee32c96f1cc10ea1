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
	// ErrTaken says that other holders have the lock on so many nodes that no majority was possible.
	ErrTaken = errors.New("redlock: taken")
	// ErrNoQuorum says that too few nodes answered in time with a vote that counts.
	ErrNoQuorum = errors.New("redlock: no quorum")
	// ErrLost says that a hold ended before it was unlocked: its validity ran out, or a majority of the nodes no longer
	// had it.
	ErrLost = errors.New("redlock: lost")
	// ErrUnlocked says that a hold was ended by Unlock.
	ErrUnlocked = errors.New("redlock: unlocked")
	// ErrHandedOver says that a hold was ended by Ticket, for another process to adopt.
	ErrHandedOver = errors.New("redlock: handed over")
	// ErrMaxHold says that a hold was ended at the limit set by WithMaxHold.
	ErrMaxHold = errors.New("redlock: held for the longest time allowed")
	// ErrDone says that a run of Once has succeeded within the done TTL.
	ErrDone = errors.New("redlock: done")
	// ErrExhausted says that the largest allowed number of runs of Once has begun within the done TTL (see [WithMaxRuns]),
	// and that none has succeeded.
	ErrExhausted = errors.New("redlock: exhausted")
	// ErrClosed says that the Locker is closed.
	ErrClosed = errors.New("redlock: closed")
	// ErrInvalid says that an argument or option is not acceptable.
	ErrInvalid = errors.New("redlock: invalid")
)

// Why a node's vote failed, beside the errors of the node itself and of the network. Test the Err of a [NodeError] with
// [errors.Is].
var (
	// ErrNodeTimeout says that the node did not answer within the node timeout, or has not answered an earlier request for
	// that long. It is not a context.DeadlineExceeded: that is the caller's own deadline.
	ErrNodeTimeout = redisconn.ErrTimeout
	// ErrNodeDown says that there is no connection to the node.
	ErrNodeDown = redisconn.ErrDown
	// ErrNodeBusy says that too many requests to the node are unanswered.
	ErrNodeBusy = redisconn.ErrBusy
	// ErrNodeRefused says that a node answers but is not fit to vote: it is a replica or a member of a cluster, may evict
	// locks, or is in the list twice. The error's text says what to change.
	ErrNodeRefused = guard.ErrRefused
)

// Outcome is what one node contributed to a call.
type Outcome string

// The outcomes, as they appear in error texts.
const (
	OutcomeGranted   Outcome = "granted"
	OutcomeOutbid    Outcome = "granted, but knows a larger token"
	OutcomeAbsent    Outcome = "not held here"
	OutcomeTaken     Outcome = "taken"
	OutcomeAbstained Outcome = "abstained"
	OutcomeFailed    Outcome = "failed"
	OutcomeAnswered  Outcome = "answered"       // of a request that asks for no grant, such as that of Inspect
	OutcomeLate      Outcome = "not waited for" // the outcome of the call was certain before the node answered
)

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr      string        // the node's address, without user and password
	Outcome   Outcome       // what the node said
	Name      string        // OutcomeTaken, with LockAll: the first of the names that is taken
	Owner     string        // OutcomeTaken: the owner that holds the lock there, if known
	Label     string        // OutcomeTaken: what that owner's client calls itself, if known: see [WithOwnerLabel]
	Remaining time.Duration // OutcomeTaken: for how long at most, unless the hold is extended; 0: not known
	Err       error         // OutcomeFailed, OutcomeAbstained: why
}

// Error returns the node's address and its part in a few words.
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

// QuorumError says that no majority of nodes granted a request, and what each node answered. It satisfies errors.Is for
// [ErrTaken], [ErrNoQuorum] or [ErrLost], and for the error of the caller's context if that ended a wait; never for an
// error of a single node, since one node's timeout is not the caller's.
type QuorumError struct {
	Op      string // "lock", "read-lock", "acquire", "adopt", "extend", "unlock", "once" or "inspect"
	Name    string // of the lock; of several locks: as Lock.Name returns it; of a semaphore or of its slot
	Need    int    // how many nodes must grant the request
	Granted int    // how many did
	Nodes   []NodeError

	reason  error  // ErrTaken, ErrNoQuorum or ErrLost
	refused bool   // the reason is that a majority refused
	detail  string // added to the text, or ""
	ctx     error  // what ended the wait, or nil
}

// Error returns the reason and every node's part in it.
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

// Unwrap returns the reason, and the context's error if that ended the wait.
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

// opError is the error of an operation that failed without a vote. Its reason is one of the errors above, or a
// context's.
type opError struct {
	op     string // with the name, if there is one
	reason error
	detail string // added to the text with its own punctuation, or ""
	cause  error  // what led to the reason, or nil
}

// failed returns the error of an operation on a name.
func failed(op, name string, reason error) *opError {
	return &opError{op: op + " " + strconv.Quote(name), reason: reason}
}

// Error returns the text of all parts, with the package's name only at the front.
func (e *opError) Error() string {
	text := "redlock: " + e.op + ": " + strings.TrimPrefix(e.reason.Error(), "redlock: ") + e.detail
	if e.cause != nil {
		text += ": " + strings.TrimPrefix(e.cause.Error(), "redlock: ")
	}
	return text
}

// Unwrap returns the reason, and its cause if there is one.
func (e *opError) Unwrap() []error {
	if e.cause != nil {
		return []error{e.reason, e.cause}
	}
	return []error{e.reason}
}

// waitEnded returns the error of a wait that was ended: that of the last attempt if it is a *QuorumError, with the
// reason why there is no further attempt.
func waitEnded(last, ended error) error {
	var q *QuorumError
	if !errors.As(last, &q) {
		return ended
	}
	with := *q
	with.ctx = ended
	return &with
}

// endOf adds to err, the error of ctx, the cause with which ctx was cancelled, if there is one.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// ReplyError is the error reply with which a node refused a command. Test the Err of a [NodeError] with errors.As. The
// node stays in use, and gets further requests.
type ReplyError struct {
	// Code is the first word of the reply: OOM, NOREPLICAS, READONLY, NOAUTH, WRONGPASS, NOPERM, BUSY, LOADING, MISCONF
	// …, or ERR. MAXCLIENTS means "max number of clients reached", for which nodes have no code.
	Code    string
	Command string // NOPERM: the command that the user may not run, if known
	Reply   string // the whole reply
}

// Error returns the reply, and advice if an administrator can remove the cause.
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

// explained turns a node's error reply into a *ReplyError; it returns other errors as they are. command is the refused
// command, or "" if that is not known.
func explained(err error, command string) error {
	switch {
	case err == nil, errors.Is(err, ErrNodeTimeout), errors.Is(err, ErrNodeDown), errors.Is(err, ErrNodeBusy):
		return err
	case errors.Is(err, redisconn.ErrClosed):
		return ErrClosed
	default:
		return explainedReply(err, command)
	}
}

// explainedReply is explained for what may be an error reply. It is apart since it allocates.
func explainedReply(err error, command string) error {
	var said redis.Error
	var already *ReplyError
	if errors.As(err, &already) || !errors.As(err, &said) {
		return err
	}
	e := &ReplyError{Code: redisconn.Code(said), Reply: string(said)}
	if e.Code == "NOPERM" {
		e.Command = command
	}
	return e
}

// AbstainError says why a node's vote is not counted although the node answers. Test the Err of a [NodeError] with
// errors.As.
type AbstainError struct {
	Reason string // in words: what the node may have forgotten, or what is wrong with its clock
	// Until is when the node's votes will count, by this process's clock; zero if that is not known. Remaining is how long
	// that was ahead when the vote was given.
	Until     time.Time
	Remaining time.Duration
}

// Error says why the vote does not count, and for how long.
func (e *AbstainError) Error() string {
	if e.Until.IsZero() {
		return e.Reason + "; its vote does not count meanwhile"
	}
	return fmt.Sprintf("%s; its vote counts in %s", e.Reason, guard.Seconds(e.Remaining))
}

// abstainError returns the public error for an abstention.
func abstainError(a *guard.Abstention, now time.Time) *AbstainError {
	e := &AbstainError{Reason: a.Reason(now), Until: a.Until}
	if !a.Until.IsZero() {
		e.Remaining = max(0, a.Until.Sub(now))
	}
	return e
}
