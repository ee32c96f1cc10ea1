package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/printable"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
)

// What a call or a hold can end with; test with [errors.Is].
var (
	// ErrTaken says that other holders have the lock on so many nodes that no majority was possible.
	ErrTaken = errors.New("redlock: taken")
	// ErrNoQuorum says that too few nodes answered in time with a vote that counts.
	ErrNoQuorum = errors.New("redlock: no quorum")
	// ErrLost says that a hold ended before it was unlocked: its validity ran out, or a majority no longer had it.
	ErrLost = errors.New("redlock: lost")
	// ErrNotAcquired says that a call returned without the lock. The function of Do, RDo or Once was not called, while
	// without ErrNotAcquired it was. The error says why as well: ErrTaken, ErrNoQuorum, ErrAlreadyRun.
	ErrNotAcquired = errors.New("redlock: not acquired")
	// ErrUnlocked says that a hold was ended by its holder: by Unlock, or by Ticket for another process.
	ErrUnlocked = errors.New("redlock: unlocked")
	// ErrMaxHold says that a hold was ended at the limit set by WithMaxHold. The nodes keep the lock for work that stops.
	ErrMaxHold = errors.New("redlock: held for the longest time allowed")
	// ErrMaxWait says that a call waited for the lock for as long as WithMaxWait allows. The error says as well what the
	// last attempt found: ErrTaken or ErrNoQuorum.
	ErrMaxWait = errors.New("redlock: waited for the longest time allowed")
	// ErrAlreadyRun says that a run of Once has succeeded within the done TTL.
	ErrAlreadyRun = errors.New("redlock: already run")
	// ErrRunsExhausted says that all runs [WithMaxRuns] allows within the done TTL have begun, and none has succeeded.
	ErrRunsExhausted = errors.New("redlock: runs exhausted")
	// ErrClosed says that the Locker is closed, or that Shutdown was called.
	ErrClosed = errors.New("redlock: closed")
	// ErrInvalid says that an argument or option is not acceptable.
	ErrInvalid = errors.New("redlock: invalid")
)

// Why a node's vote failed, beside its own errors and the network's. Test the Err of a [NodeError] with [errors.Is].
var (
	// ErrNodeTimeout says that the node did not answer this or an earlier request within the node timeout, or that
	// connecting took too long. It is not a context.DeadlineExceeded: that is the caller's own deadline.
	ErrNodeTimeout = redisconn.ErrTimeout
	// ErrNodeDown says that there is no connection to the node. If the node accepts connections but does not answer, the
	// error satisfies errors.Is for ErrNodeTimeout as well.
	ErrNodeDown = redisconn.ErrDown
	// ErrNodeRefused says that a node answers but is not fit to vote: it is a replica or a member of a cluster, may evict
	// locks, or is in the list twice. The error's text says what to change.
	ErrNodeRefused = guard.ErrRefused
	// ErrNodeAbstains says that a node answers, but may have forgotten what it granted, or has a clock that is wrong: its
	// vote does not count. The error's text says why, and AbstainsUntil of the NodeError until when.
	ErrNodeAbstains = errors.New("redlock: the node abstains")
)

// errNodeBusy says that too many requests to the node are unanswered.
var errNodeBusy = redisconn.ErrBusy

// errHandedOver is the ErrUnlocked of a hold that was ended by Ticket.
var errHandedOver error = handedOverError{}

type handedOverError struct{}

func (handedOverError) Error() string { return "redlock: handed over" }
func (handedOverError) Unwrap() error { return ErrUnlocked }

// notAcquiredError is the error of a call that acquires nothing. It shows what it wraps.
type notAcquiredError struct{ error }

func (notAcquiredError) Is(target error) bool   { return target == ErrNotAcquired }
func (e notAcquiredError) Unwrap() error        { return e.error }
func (e notAcquiredError) LogValue() slog.Value { return slog.AnyValue(e.error).Resolve() }

func (e notAcquiredError) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), e.error)
}

// fnError is the error of a function that was called with a hold: it is no ErrNotAcquired, even if a call in it was. It
// shows what the function returned.
type fnError struct{ error }

func (e *fnError) Is(target error) bool {
	return target != ErrNotAcquired && errors.Is(e.error, target)
}

func (e *fnError) As(target any) bool            { return errors.As(e.error, target) }
func (e *fnError) Format(f fmt.State, verb rune) { fmt.Fprintf(f, fmt.FormatString(f, verb), e.error) }
func (e *fnError) LogValue() slog.Value          { return slog.AnyValue(e.error).Resolve() }

// calledWith returns the error of a function that was called.
func calledWith(err error) error {
	if errors.Is(err, ErrNotAcquired) {
		return &fnError{err}
	}
	return err
}

// invalid returns an error for an unacceptable argument or option.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// opError is the error of an operation that failed without a vote. Its reason is an error above, or a context's.
type opError struct {
	op     string // with the name, if there is one
	reason error
	detail string // added to the text with its own punctuation, or ""
	cause  error  // what led to the reason, or nil
}

// failed returns the error of an operation on a name.
func failed(op, name string, reason error) *opError {
	return &opError{op: strings.TrimSpace(op + " " + shown(name)), reason: reason}
}

// inner returns the text of an error for use inside another one: the package's name stands only at the front.
func inner(err error) string { return inline(strings.TrimPrefix(err.Error(), "redlock: ")) }

// inline makes a text fit for the inside of another one: on one line, and printable, whoever has written it.
func inline(text string) string { return printable.Text(inlined.Replace(text)) }

var inlined = strings.NewReplacer(": redlock: ", ": ", "\nredlock: ", "; ", "\n", "; ", "\r", "")

// shown returns a name, or an owner, which is whatever stands at a lock's key, for use in a text: as it is if that can
// be read, otherwise quoted; and no more than its beginning if it is too long for either.
func shown(name string) string {
	if len(name) > printable.Most {
		return printable.Beginning(name, printable.Most)
	}
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.TrimSpace(name) != name {
		return quoted
	}
	return name
}

// logged returns a name for a field of its own: quoted only if it is not UTF-8, which a log in JSON cannot hold.
func logged(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return shown(name)
}

// Error returns the text of all parts, with the package's name only at the front.
func (e *opError) Error() string {
	text := "redlock: " + e.op + ": " + inner(e.reason) + e.detail
	if e.cause != nil {
		text += ": " + inner(e.cause)
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

// endOf adds to err, ctx's error, the cause with which ctx was cancelled, if any; after the longest wait: ErrMaxWait.
func endOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil, cause == nil:
		return err
	case cause == errMaxWaitOver: //nolint:errorlint // the cause itself: a caller's may wrap an ErrMaxWait
		return ErrMaxWait
	case errors.Is(err, cause):
		return err
	default:
		return fmt.Errorf("%w: %w", err, cause)
	}
}

// errMaxWaitOver is the cause with which call ends a context. No user sees it, so no context of theirs has it.
var errMaxWaitOver = errors.New("the longest wait allowed is over")

// ReplyError is the error reply with which a node refused a command. Test the Err of a [NodeError] with errors.As. The
// node stays in use, and gets further requests.
type ReplyError struct {
	// Code is the first word of the reply: OOM, NOREPLICAS, READONLY, NOAUTH, WRONGPASS, NOPERM, BUSY, LOADING, MISCONF
	// …, or ERR. MAXCLIENTS means "max number of clients reached", for which nodes have no code.
	Code    string
	Command string // NOPERM: the command that the user may not run, if known
	// Reply is printable and of 1 KiB at most, without the arguments and the place in a script that servers quote.
	Reply string
}

// Error returns the reply, and advice if an administrator can remove the cause.
func (e *ReplyError) Error() string {
	text := e.Reply
	if e.Command != "" && !strings.Contains(strings.ToLower(text), e.Command) && !strings.Contains(text, "run the '") {
		text += " (" + e.Command + ")"
	}
	if e.hasNoPassword() {
		text = "ERR the server has no password"
	}
	if advice := e.advice(); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

// advice says what an administrator can do; "": there is none.
func (e *ReplyError) advice() string {
	acl := resp.About("NOPERM").Advice
	switch lower := strings.ToLower(e.Reply); {
	case strings.HasPrefix(lower, "err unknown ") && strings.Contains(lower, " command"):
		return "the server lacks it, or renamed it: docs/operations.md has what is needed"
	case strings.Contains(lower, "permissions to access"), strings.Contains(lower, "the script can't access"),
		strings.Contains(lower, "the script can't publish"):
		return "the user's ~ or & does not cover the prefix: " + acl
	case strings.Contains(lower, "acl failure in script"), e.Command != "" && strings.Contains(lower, unnamed):
		return acl
	case strings.Contains(lower, unnamed):
		return "redlock doctor names it; " + acl
	case strings.Contains(lower, "db index"):
		return "the URL's database: raise the server's databases"
	case strings.Contains(lower, "undeclared key"):
		return "docs/operations.md has the setting: undeclared-keys"
	case e.hasNoPassword():
		return "leave it out, or name the user: default:PASSWORD@ works before and after one is set"
	default:
		return resp.About(e.Code).Advice
	}
}

// marked returns the error, marked if no time makes the node reply otherwise.
func (e *ReplyError) marked() error {
	if resp.About(e.Code).Is(resp.Lasting) || e.Code == "ERR" && e.advice() != "" {
		return endpoint.Lasting(e)
	}
	return e
}

const unnamed = "user executing the script can't run this command" // up to Redis 7.0, and without a code

// hasNoPassword reports whether the node got a password without a user, and has none. From Redis 6 on, any password
// does for the user default of such a node.
func (e *ReplyError) hasNoPassword() bool {
	return strings.Contains(e.Reply, "without any password configured") || strings.Contains(e.Reply, "no password is set")
}

// isOf reports whether a command is refused as such, not for what it would do.
func (e *ReplyError) isOf(command string) bool {
	return strings.Contains(strings.ToLower(e.Reply), "'"+command+"'")
}

// bars reports whether a lock that is free cannot be had from, or given back to, a node that replies so to what locks
// need. testdata/refusals.txt has what each command is for.
func (e *ReplyError) bars() bool { return !e.isOf("eval") && !slices.Contains(spared, e.Command) }

// spared are the commands without which such a lock works: they are for waiters, runs and tokens.
var spared = []string{
	"get", "pexpireat", "pttl", "publish", "sadd", "subscribe", "zcard", "zcount", "zrank",
	"zremrangebyscore", "zrevrange", "zscore",
}

// explained turns a node's error reply into a *ReplyError; others stay as they are. command is what was refused, or "".
func explained(err error, command string) error {
	switch {
	case err == nil, errors.Is(err, ErrNodeTimeout), errors.Is(err, ErrNodeDown), errors.Is(err, errNodeBusy):
		return err
	case errors.Is(err, redisconn.ErrClosed):
		return ErrClosed
	}
	var said redis.Error
	var already *ReplyError
	if errors.As(err, &already) || !errors.As(err, &said) {
		return err
	}
	e := &ReplyError{Code: resp.Code(said), Reply: printable.Beginning(withoutQuotes(string(said)), printable.Most)}
	if resp.About(e.Code).Is(resp.Forbidden) || strings.Contains(strings.ToLower(e.Reply), unnamed) {
		e.Command = command
	}
	return e.marked()
}

// withoutQuotes takes away what a server quotes: arguments, such as the source of a script, and places in scripts.
func withoutQuotes(reply string) string {
	said := ""
	if why, denied := strings.CutPrefix(reply, scriptDenied); denied {
		said, reply = scriptDenied, why
	}
	for _, quote := range []string{", with args beginning with", " script: "} {
		reply, _, _ = strings.Cut(reply, quote)
	}
	return said + reply
}

const scriptDenied = "ERR ACL failure in script: " // from Redis 7.2 on, before what an ACL forbids

// abstainError is an ErrNodeAbstains.
type abstainError struct {
	reason    string        // in words: what the node may have forgotten, or what is wrong with its clock
	until     time.Time     // when its votes will count; zero: not known
	remaining time.Duration // how long that was ahead when the vote was given
}

// Error says why the vote does not count, and for how long.
func (e *abstainError) Error() string {
	if e.until.IsZero() {
		return e.reason + "; its vote does not count meanwhile"
	}
	return fmt.Sprintf("%s; its vote counts in %s", e.reason, guard.Seconds(e.remaining))
}

// Unwrap returns ErrNodeAbstains.
func (e *abstainError) Unwrap() error { return ErrNodeAbstains }

// abstains returns the public error for an abstention.
func abstains(a *guard.Abstention, now time.Time) *abstainError {
	return &abstainError{reason: a.Reason(now), until: a.Until, remaining: max(0, a.Until.Sub(now))}
}

// stateOf returns the state of a node, in a word, if its votes do not count for that reason; nil: they count.
func stateOf(why error) string {
	switch {
	case why == nil:
		return "up"
	case errors.Is(why, ErrNodeAbstains):
		return "abstaining"
	}
	return "down"
}

// ListConflictError says that clients are at work whose lists of nodes and this Locker's do not exclude each other: two
// of them could hold one lock.
type ListConflictError struct {
	Node  string     // the address of the node that says so
	Own   [][]string // the addresses of this Locker's nodes: one list, or the old and the new one (see [WithNewNodes])
	Other [][]string // those of the other clients

	apart []string // addresses by which they reach other masters than this Locker does
}

// Error shows both lists, and how to change nodes.
func (e *ListConflictError) Error() string {
	return fmt.Sprintf("redlock: conflicting lists of nodes: other clients use %s%s, this one %s (as %s says): "+
		"each could hold the lock without the other; to change nodes, use WithNewNodes (docs/changing-nodes.md)",
		listsInWords(e.Other), apartInWords(e.apart), listsInWords(e.Own), e.Node)
}

// apartInWords says which addresses lead to different masters; "": none do.
func apartInWords(addrs []string) string {
	if addrs == nil {
		return ""
	}
	return " (where " + strings.Join(addrs, " and ") + " is another master)"
}

// listsInWords shows lists of addresses: "a b c", or "a b c to a b d". Other clients may have written anything.
func listsInWords(lists [][]string) string {
	var words []string
	for _, list := range lists {
		words = append(words, strings.Join(list, " "))
	}
	return printable.Beginning(strings.Join(words, " to "), 4*printable.Most)
}

// errDuplicate marks a node that claim refused.
var errDuplicate = errors.New("the same server as")

// troubleOf says what keeps a node from voting: its kind in internal/diagnosis, "" of nil; in words; its reply's code.
func troubleOf(err error) (kind, text, code string) {
	var abstains *abstainError
	var refusal *ReplyError
	switch {
	case err == nil:
		return "", "", ""
	case errors.As(err, &abstains) && abstains.until.IsZero():
		return "clock", abstains.reason, ""
	case errors.As(err, &abstains):
		return "abstains", abstains.Error(), ""
	case errors.As(err, new(endpoint.CredentialsError)): // before what the user's function may have returned
		return "credentials", unwrapDown(err), ""
	case errors.As(err, &refusal) && (resp.About(refusal.Code).Is(resp.Login) || refusal.hasNoPassword()):
		return "login", refusal.Error(), refusal.Code
	case errors.As(err, &refusal):
		return "reply", refusal.Error(), refusal.Code
	default:
		return linkTrouble(err), unwrapDown(err), ""
	}
}

// linkTrouble is the kind of trouble with a node that neither abstains nor has replied with an error.
func linkTrouble(err error) string {
	var mismatch endpoint.MismatchError
	switch {
	case errors.Is(err, errDuplicate):
		return "twice"
	case errors.Is(err, ErrNodeRefused):
		return "refused"
	case errors.As(err, &mismatch): // before the time-outs, which some are
		return cmp.Or(mismatches[mismatch.Kind], "down")
	case errors.As(err, new(resp.UnexpectedError)):
		return "odd"
	case errors.Is(err, redisconn.ErrLate):
		return "late"
	case errors.As(err, new(redisconn.SilentError)), errors.Is(err, ErrNodeTimeout) && !errors.Is(err, ErrNodeDown):
		return "silent"
	case errors.Is(err, ErrNodeTimeout):
		return "no connection" // in time
	case errors.Is(err, errNodeBusy):
		return "busy"
	case lookedUp(err) != "":
		return "name"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL),
		errors.Is(err, syscall.ENOBUFS):
		return "local"
	case errors.Is(err, ErrNodeDown):
		return "down"
	default:
		return "other"
	}
}

// mismatches are the kinds of trouble if something else answers in place of a node.
var mismatches = map[endpoint.MismatchKind]string{
	endpoint.NotRedis: "no redis", endpoint.Certificate: "certificate", endpoint.OurCertificate: "own certificate",
	endpoint.NoTLS: "tls", endpoint.PerhapsNoTLS: "tls", endpoint.Alert: "tls", endpoint.PerhapsTLS: "hangs up",
}

// unwrapDown returns the text of err without the words that the node is down.
func unwrapDown(err error) string { return strings.TrimPrefix(err.Error(), ErrNodeDown.Error()+": ") }

// lookedUp says in a few words why the name of a host has no address.
func lookedUp(err error) string {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return ""
	case dns.IsNotFound:
		return "no such host"
	case dns.IsTimeout:
		return inline(dns.Err) // no node is to blame: "the name is not resolved yet"
	default:
		return "lookup: " + inline(dns.Err)
	}
}
