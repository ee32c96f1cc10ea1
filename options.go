package redlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/token"
)

// options are the settings of a Locker or of one call. Calls and holds share them: none changes after applyOptions.
type options struct {
	ttl     time.Duration
	drift   drift
	backoff func(attempts int) time.Duration
	maxWait time.Duration // 0: no limit
	renew   bool          // extend the hold until it is unlocked
	asks    *asks         // before it is extended; nil: nobody
	maxHold time.Duration // 0: no limit
	fencing bool          // hand out tokens
	doneTTL time.Duration // Once: how long the register of runs is kept
	maxRuns int           // Once; 0: no limit
	value   string        // what the nodes keep beside the lock; "": nothing

	// Only for New.
	nodeTimeout time.Duration
	prefix      string
	label       string
	node        NodeConfig
	dialerID    any // the same for Lockers with the same WithNodeConfig; nil: it has no Dial
	logger      *slog.Logger
	warns       bool // the logger logs warnings
	observer    func(Event)
	maxTTL      time.Duration
	maxTTLSet   bool          // by an option; else New makes it 30 s, or the TTL if that is longer
	retention   time.Duration // how long nodes keep tokens; 0 until New: it follows maxTTL
	guard       time.Duration // how long a node that may have forgotten abstains; follows maxTTL; 0: not at all
	onlyLooks   bool          // of an Inspector

	migrates  bool     // WithNewNodes was given
	migrateTo []string // the URLs of the nodes that replace those of New

	clock clock
}

// The library's own keys on the nodes, after the prefix. No lock's name may begin with ownNames.
const (
	ownNames    = "redlock:"
	tokensName  = ownNames + "tokens"
	revokedName = ownNames + "revoked" // of the owners that administrators have taken locks from: see revoked.lua
	ownChannels = ownNames + "wake:"   // no keys, but with the same beginning
)

// ownKeys is in those keys of every prefix, so a lock's key must not match: its name might end another one's prefix.
var ownKeys = regexp.MustCompile(ownNames + `((tokens|waiting|node|floor|settings|lists|watched|revoked|trial)$|` +
	`(wait|read|once|permit|clients|value|watch|label|trial|wake):)`)

const (
	longestTTL  = 366 * 24 * time.Hour // keeps sums of times from overflowing, as does longestDone
	longestDone = 100 * longestTTL     // for ever
	maxValue    = 1024                 // bytes: each renewal carries them
	maxPrefix   = 256                  // bytes: they are in every key, and in the channel in each place of a queue
)

func defaults() options {
	return options{
		ttl:         10 * time.Second,
		drift:       usualDrift,
		backoff:     pollInterval(10*time.Millisecond, 250*time.Millisecond),
		nodeTimeout: 250 * time.Millisecond,
		renew:       true,
		fencing:     true,
		doneTTL:     2 * time.Hour,
		maxRuns:     3,
		label:       agreement.DefaultLabel(),
		logger:      slog.New(slog.DiscardHandler),
		clock:       systemClock(),
	}
}

// trims reports whether this client has nodes drop tokens. One that only looks may have any settings.
func (o *options) trims() bool { return o.fencing && !o.onlyLooks }

// connectTimeout bounds each step of connecting (dialling, TLS, each first command), and how long a node may be silent.
func (o *options) connectTimeout() time.Duration { return max(time.Second, 4*o.nodeTimeout) }

// lease is for how long a node that hands a lock over keeps it until the waiter asks or extends: so one that is stopped
// or cut off does not block the lock for its TTL. It is enough for a message and a request that takes the node timeout.
func (o *options) lease() time.Duration {
	return max(time.Second, (4 * o.nodeTimeout).Truncate(time.Millisecond)) // what the channel says
}

// Option is a setting for [New]. Each option says whether calls accept it, too: then it is a [LockOption] or a
// [OnceOption], and as an Option it is the default of all calls.
type Option interface{ set(o *options) }

// OnceOption is a setting for one call of [Locker.Once]. Every LockOption is one.
type OnceOption interface {
	Option
	forOnce()
}

// LockOption is a setting for one call that acquires a lock.
type LockOption interface {
	OnceOption
	forLock()
}

// asks is the function of WithRenewWhile.
type asks func(context.Context) error

type (
	newOption  func(*options)
	onceOption func(*options)
	lockOption func(*options)
	waitOption struct{ lockOption } // calls that ask once refuse it
)

func (f newOption) set(o *options)  { f(o) }
func (f onceOption) set(o *options) { f(o) }
func (f lockOption) set(o *options) { f(o) }
func (onceOption) forOnce()         {}
func (lockOption) forOnce()         {}
func (lockOption) forLock()         {}

// WithTTL sets for how long the nodes keep a lock that is not extended, in whole milliseconds. The default is 10 s. The
// TTL bounds how long a crashed holder blocks other clients. It does not limit how long the work may take, because the
// hold is renewed. A TTL that is longer than that of [WithMaxTTL] is refused with [ErrInvalid].
func WithTTL(ttl time.Duration) LockOption {
	return lockOption(func(o *options) { o.ttl = ttl })
}

// WithMaxTTL sets the longest TTL that any client of these nodes may use. The default is 30 s, or the TTL given to New
// if that is longer. All clients must set the same; [NodeStatus] tells of those that do not. It decides two things:
//
//   - The restart guard: for so long, 2 s at least, the vote of a node does not count that may have forgotten earlier
//     votes. That is so after a restart, whatever the node keeps on disk (but see TrustDisk of [NodeConfig]), after the
//     promotion of a replica, after FLUSHALL, and after its clock was set forward. Masters that have just been started
//     grant nothing until then.
//   - For twice as long as that after the end of a lock, nodes remember its token.
func WithMaxTTL(d time.Duration) Option {
	return newOption(func(o *options) { o.maxTTL, o.maxTTLSet = d, true })
}

// WithDrift sets how much to subtract from each TTL because a node's clock may run faster: factor × TTL + slack. The
// default is 0.01 and 2 ms, as in the Redis documentation.
func WithDrift(factor float64, slack time.Duration) LockOption {
	return lockOption(func(o *options) { o.drift = drift{factor, slack} })
}

// WithMaxWait limits how long a call waits for a lock, apart from the work: a deadline of ctx bounds both in
// [Locker.Do] and [Locker.Once], so that a function that got its lock late is cut off. It applies to all calls that
// wait; for [Locker.LockAll] to the whole wait. When d has passed, the call withdraws as at the end of ctx, and returns
// the error of the last attempt, which then satisfies errors.Is for [ErrMaxWait] as well, and not for
// [context.DeadlineExceeded]. The hold, its events and the context of the function that runs are not bounded by d. The
// default, 0, sets no limit but that of ctx. Calls that ask once refuse it with [ErrInvalid].
func WithMaxWait(d time.Duration) LockOption {
	return waitOption{func(o *options) { o.maxWait = d }}
}

// WithValue leaves a text with the lock while it is held, for others to see: [Inspection.Value]. An address by which
// the holder can be reached, say. It has 1,024 bytes at most; the default, "", is no value. A call that acquires with a
// value returns when a majority of the nodes has it, after one more round trip; if they do not confirm it, the call
// gives the lock back, and waits on, in its place, if it is one that waits. [Lock.SetValue] changes it. It ends with
// the hold. Readers have none: they refuse it with [ErrInvalid].
func WithValue(value string) LockOption {
	return lockOption(func(o *options) { o.value = value })
}

// WithoutRenewal lets the hold end with its TTL. By default it is extended every third of the TTL until it is unlocked.
func WithoutRenewal() LockOption {
	return lockOption(func(o *options) { o.renew = false })
}

// WithRenewWhile calls f before each renewal and renews the hold only if f returns nil, so that work that is stuck or
// ill does not keep its lock for ever. If f returns an error, an [EventRenew] has it, and f is called again after a
// twentieth of the TTL: work that recovers in time keeps its lock. Otherwise the hold ends with its validity, with an
// [ErrLost] whose text says what f said. A renewal waits for f, so f should take much less than the TTL. While f does
// not return, the hold is not renewed, and f is not called again. By default holds are renewed in any case.
//
// f has a goroutine of its own, which may outlive the hold for a moment. Its context ends with the hold and carries the
// values of the context of the call that acquired. A panic of f is not recovered. f is not called for the first
// extension of a hold that was handed over with a second (see [Lock.Deadline]), for [Lock.Extend], nor with
// [WithoutRenewal]. It may refer to the Lock: one that the program drops is not renewed. A nil f is an [ErrInvalid].
func WithRenewWhile(f func(ctx context.Context) error) LockOption {
	ask := asks(f)
	return lockOption(func(o *options) { o.asks = &ask })
}

// WithMaxHold ends a hold with [ErrMaxHold] at the latest d after the attempt that acquired it began, or after it was
// acquired if Lock waited for it, however often it is extended. Done and the contexts then tell the work to stop. Until
// it has stopped, for the rest of the validity at most, the nodes keep the lock: until Unlock, which returns an error
// as after any end, or until the function of Do or Once has returned. The default, 0, sets no limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(o *options) { o.maxHold = d })
}

// WithoutFencing turns tokens off. A free lock is then acquired with a plain SET NX PX, as other Redlock clients do.
func WithoutFencing() LockOption {
	return lockOption(func(o *options) { o.fencing = false })
}

// WithDoneTTL sets for how long after a successful run of [Locker.Once] no client begins another, and for how long a
// failed run is remembered. The default is 2 h, the minimum twice the TTL. It should be longer than the time between
// the first and the last machine's start of the same run, and shorter than the time to the next run, unless each run
// has its own name. All clients that run the job must set the same.
func WithDoneTTL(d time.Duration) OnceOption {
	return onceOption(func(o *options) { o.doneTTL = min(d, longestDone) })
}

// WithMaxRuns limits how many runs [Locker.Once] begins within the done TTL until one succeeds. The default is 3; 0
// sets no limit.
func WithMaxRuns(n int) OnceOption {
	return onceOption(func(o *options) { o.maxRuns = n })
}

// WithNodeTimeout sets how long a node may take to answer before it counts as failed. The default is 250 ms. TryLock,
// Extend, Unlock and Adopt return within it.
func WithNodeTimeout(d time.Duration) Option {
	return newOption(func(o *options) { o.nodeTimeout = d })
}

// WithPrefix sets a prefix: a lock's key on the nodes is the prefix and the name. The default is none. It has 256 bytes
// at most, all printable, none of *?[]\, and nothing that is in the library's own keys, such as "redlock:wait:".
func WithPrefix(prefix string) Option {
	return newOption(func(o *options) { o.prefix = prefix })
}

// WithOwnerLabel sets the text by which people recognize who holds a lock: errors, [Inspector.Inspect] and the command
// show it beside the owner. The default is the host's name, a slash and the process id: "web-3/812". It has 64 bytes at
// most, all printable; "" is no label. The nodes keep it while the Locker is connected and for two minutes after, or
// twice the longest TTL ([WithMaxTTL]) if that is longer.
func WithOwnerLabel(text string) Option {
	return newOption(func(o *options) { o.label = text })
}

// WithNewNodes changes the nodes while locks are in use: from the list that New gets, the old one, to this new one. A
// call then needs a majority of the old list and a majority of the new one: to acquire, to have its token accepted, to
// extend and to unlock. A node that is in both lists, under the same URL, has one connection and votes in both.
//
// Clients with the old list alone and clients with the new one alone do not exclude each other. So change all clients
// to both lists, wait until none is left that has the old one alone, and only then change them to the new one: see
// [step by step]. Holds stay valid through each step, and each can be taken back. Together the lists may have 31 nodes.
// The default is one list.
//
// [step by step]: https://github.com/quorumlock/redlock/blob/main/docs/changing-nodes.md
func WithNewNodes(nodes []string) Option {
	nodes = slices.Clone(nodes)
	return newOption(func(o *options) { o.migrates, o.migrateTo = true, nodes })
}

// NodeConfig is how nodes are reached, and what is accepted of them. The zero value is the default.
type NodeConfig struct {
	// TLS is for rediss:// nodes. The default verifies the server with the system's roots and requires TLS 1.2.
	//
	// Its functions are called for each connection, so certificates can change while the Locker is in use. If one fails,
	// the node is down for that reason, and connecting is tried again. VerifyConnection gets the node's host (or
	// ServerName) as ServerName, an IP address, too, which crypto/tls leaves out: to verify by authorities that change.
	TLS *tls.Config

	// Dial connects to a node, for example through a tunnel, or after asking a Sentinel (docs/operations.md says what is
	// not promised then). TLS and authentication run over its connection. ctx ends after a second, or four times the node
	// timeout if that is longer. The default looks the name up, which may take longer, and tries its addresses in turn.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Credentials is asked for the user and the password each time a node is connected, so that they can change while the
	// Locker is in use: passwords that are rotated, tokens that expire. addr is the node's address as in [NodeStatus]. An
	// empty user means the nodes' default user, an empty password no authentication. A connection in use stays as it is
	// until it is lost. URLs must then have neither user nor password; by default they have both.
	//
	// Several goroutines may call it at once, one for each node. It should return when ctx is done, after 10 s or at
	// Close; what it returns later is for the next attempt. If it fails, the node is down for that reason, as errors and
	// logs show, and connecting is tried again as always: after some 10 ms, then once a second while calls need the node.
	Credentials func(ctx context.Context, addr string) (user, password string, err error)

	// AllowEviction accepts nodes that have a memory limit and an eviction policy other than noeviction. Such a node may
	// delete a lock that is held, and then grant it to another client. The default refuses such nodes.
	AllowEviction bool

	// AllowNoInfo accepts nodes that refuse INFO, as some managed services do. Their age, role and memory policy are not
	// checked, and a Locker counts their votes when it has known them for the longest TTL. The default refuses them.
	AllowNoInfo bool

	// TrustDisk trusts the disk of a node that flushes every change before it answers (appendonly yes, appendfsync always,
	// no-appendfsync-on-rewrite no), and did when this Locker last saw it: after a restart its votes count at once for a
	// Locker that knew it before with the same record. For one that did not, it abstains like any other.
	//
	// It rests on what no client can check: appendonly and appendfsync do not change while a node runs, and no node is
	// started from any file but its own last one, not from a replica's or a backup. Else two clients can hold one lock.
	TrustDisk bool

	// NoRestartGuard counts the vote of a node that has just been started, for development: two clients can hold one lock
	// if a majority of the nodes restart within a TTL.
	NoRestartGuard bool
}

// WithNodeConfig sets how nodes are reached and what is accepted of them. What is zero in c stays as it is.
func WithNodeConfig(c NodeConfig) Option {
	id := new(byte) // functions cannot be compared
	return newOption(func(o *options) {
		n := &o.node
		n.TLS = cmp.Or(c.TLS, n.TLS)
		if c.Dial != nil {
			n.Dial, o.dialerID = c.Dial, id
		}
		if c.Credentials != nil {
			n.Credentials = c.Credentials
		}
		n.AllowEviction = n.AllowEviction || c.AllowEviction
		n.AllowNoInfo = n.AllowNoInfo || c.AllowNoInfo
		n.TrustDisk = n.TrustDisk || c.TrustDisk
		n.NoRestartGuard = n.NoRestartGuard || c.NoRestartGuard
	})
}

// WithLogger sets the logger. The default logs nothing. The levels are: Error for holds that were lost; Warn for
// renewals and unlocks that failed, for holds that the program dropped without Unlock, for the loss of the majority,
// and for what is wrong with a node and what to do about it; Info for nodes whose votes count (again), for a majority
// that is there again, and for holds that [WithMaxHold] has ended; Debug for every attempt, hold and end. Of many holds
// that fail, the first are logged in full, the others summed up; at Debug, all have lines. Close logs what is pending.
// The log contains no secrets: no passwords, and owners only in errors.
func WithLogger(l *slog.Logger) Option {
	return newOption(func(o *options) {
		o.logger = l
		o.warns = l != nil && l.Enabled(context.Background(), slog.LevelWarn)
	})
}

// WithObserver calls f for every event: for metrics, traces and tests. A goroutine of its own calls f for one after the
// other, in the order in which they happened, so f may take its time and may use the Locker. If f falls behind, 16384
// events wait, and further ones are dropped; Dropped of the next says how many. Close lets f see those that wait, for
// the node timeout at most. A panic of f is not recovered. The default is no observer, which costs nothing.
func WithObserver(f func(Event)) Option {
	return newOption(func(o *options) { o.observer = f })
}

// applyOptions returns a validated copy of base with the options applied, or base itself if there are none.
func applyOptions[O Option](base *options, opts []O) (*options, error) {
	if len(opts) == 0 {
		return base, nil
	}
	o := *base
	if err := apply(&o, opts); err != nil {
		return nil, err
	}
	return &o, o.check()
}

// apply applies options, which a caller may have left nil.
func apply[O Option](o *options, opts []O) error {
	for _, opt := range opts {
		if any(opt) == nil {
			return invalid("an option is nil")
		}
		opt.set(o)
	}
	return nil
}

// newOptions returns the validated options of New.
func newOptions(opts []Option) (*options, error) {
	o := defaults()
	if err := apply(&o, opts); err != nil {
		return nil, err
	}
	if !o.maxTTLSet {
		o.maxTTL = min(max(30*time.Second, o.ttl), longestTTL)
	}
	if o.guard == 0 && !o.node.NoRestartGuard {
		o.guard = max(o.maxTTL, 2*token.MaxAhead) // less cannot outlast the difference of the nodes' clocks
	}
	if o.retention == 0 {
		o.retention = max(2*o.maxTTL, o.maxTTL+2*token.MaxAhead)
	}
	if err := cmp.Or(o.check(), checkPrefix(o.prefix)); err != nil {
		return nil, err
	}
	usual := defaults()
	if o.nodeTimeout > max(o.ttl, usual.nodeTimeout) {
		o.logger.Warn("the node timeout is longer than the TTL: an attempt may take longer than a lock lasts",
			"timeout", o.nodeTimeout, "ttl", o.ttl)
	}
	if o.doneTTL != usual.doneTTL { // the default is nobody's mistake
		return &o, o.checkDoneTTL()
	}
	return &o, nil
}

func (o *options) checkDoneTTL() error {
	if o.doneTTL < 2*o.ttl {
		return invalid("done TTL %s: less than twice the TTL %s, so a crashed run could be forgotten before its lock is free",
			o.doneTTL, o.ttl)
	}
	return nil
}

// onlyOnce returns an error if calls that ask once were given options for those that wait.
func onlyOnce[O Option](opts []O) error {
	for _, o := range opts {
		if _, waits := any(o).(waitOption); waits {
			return invalid("WithMaxWait is for calls that wait, and this one asks once")
		}
	}
	return nil
}

// check validates the options.
func (o *options) check() error {
	switch err := o.checkTTLs(); {
	case err != nil:
		return err
	case o.nodeTimeout <= 0:
		return invalid("node timeout %s is not positive", o.nodeTimeout)
	case o.maxWait < 0:
		return invalid("the maximum wait %s is negative", o.maxWait)
	case o.asks != nil && *o.asks == nil:
		return invalid("WithRenewWhile: the function is nil")
	case o.maxHold < 0:
		return invalid("the maximum hold %s is negative", o.maxHold)
	case o.doneTTL < time.Millisecond:
		return invalid("done TTL %s: Redis counts in milliseconds, 1ms is the least", o.doneTTL)
	case o.maxRuns < 0:
		return invalid("the maximum of %d runs is negative", o.maxRuns)
	case o.logger == nil:
		return invalid("the logger is nil")
	}
	if err := checkValue(o.value); err != nil {
		return err
	}
	if err := agreement.CheckLabel(o.label); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// checkTTLs rounds the TTL, and validates what is left of it when the drift is subtracted.
func (o *options) checkTTLs() error {
	if err := cmp.Or(checkTTL("TTL", o.ttl), checkTTL("longest TTL", o.maxTTL)); err != nil {
		return err
	}
	o.ttl = o.ttl.Truncate(time.Millisecond)
	allowance, validity, least := o.drift.allowance(o.ttl), o.drift.validity(o.ttl, 0), leastValidity(o.ttl, o.maxHold)
	switch {
	case o.ttl > o.maxTTL && !o.onlyLooks:
		return invalid("TTL %s: longer than the longest TTL %s, so a node could forget the lock and count again before it "+
			"ends: for New, set WithMaxTTL to %s or more, in all clients", o.ttl, o.maxTTL, o.ttl)
	case o.drift.factor < 0 || o.drift.factor >= 1 || o.drift.slack < 0:
		return invalid("drift %g and %s: want a factor from 0 to 1 and no negative slack", o.drift.factor, o.drift.slack)
	case validity <= 0:
		return invalid("TTL %s: the drift allowance of %s leaves nothing of it", o.ttl, allowance)
	case validity <= least:
		return invalid("TTL %s: less than the %s that must be left of it after drift", o.ttl, least)
	case o.renew && validity <= o.renewAfter():
		return invalid("TTL %s: the drift allowance of %s ends each hold before it can be renewed, after %s",
			o.ttl, allowance, o.renewAfter())
	}
	return nil
}

// renewAfter returns the pause between renewals: a third of the TTL, so that two may fail before the hold is in danger.
func (o *options) renewAfter() time.Duration { return o.ttl / 3 }

func checkValue(value string) error {
	if len(value) > maxValue {
		return invalid("the value has %d bytes: at most %d", len(value), maxValue)
	}
	return nil
}

func checkPrefix(prefix string) error {
	notPrintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(prefix) > maxPrefix:
		return invalid("the prefix has %d bytes: at most %d", len(prefix), maxPrefix)
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, notPrintable):
		return invalid("the prefix %q has a character that cannot be printed", prefix)
	case strings.ContainsAny(prefix, `*?[]\`):
		return invalid(`the prefix %q has one of *?[]\, which mean something in patterns`, prefix)
	case ownKeys.MatchString(prefix):
		return invalid("the prefix %q is that of keys which are used by the library itself", prefix)
	}
	return nil
}

func checkTTL(what string, ttl time.Duration) error {
	switch {
	case ttl < time.Millisecond:
		return invalid("%s %s: Redis counts in milliseconds, 1ms is the least", what, ttl)
	case ttl > longestTTL:
		return invalid("%s %s: the most is a year", what, ttl)
	}
	return nil
}

// pollInterval returns how long a call that waits pauses before it asks the nodes again, after a number of failed
// attempts in a row, counted from 1: a random time between shortest and a limit that doubles with each attempt up to
// longest, so that clients do not ask at the same moments. It is no option: a node notifies a waiter of its turn, and
// what a waiter has learnt makes the pause longer or shorter (internal/waiting).
func pollInterval(shortest, longest time.Duration) func(attempts int) time.Duration {
	return func(attempts int) time.Duration {
		limit := longest
		if shift := uint(max(attempts, 1)); shift < 30 {
			limit = min(longest, shortest<<shift)
		}
		if limit <= shortest {
			return shortest
		}
		return shortest + chance.Duration(limit-shortest)
	}
}
